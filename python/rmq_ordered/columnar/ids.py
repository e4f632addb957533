"""The ``message_id`` column: the producer's id, or where the broker says the message lies.

Java's clients and RocketMQ 5 set UNIQ_KEY on every message, so the second kind is rare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Flags

_HEX: Final = np.frombuffer(bytes(range(256)).hex().upper().encode(), np.uint16)


def message_id_column(unique_keys: pa.Array, records: Records, fields: Fields) -> pa.Array:
    """Unique keys, with the gaps filled by offset message ids."""
    if unique_keys.null_count == 0:
        return unique_keys
    is_missing: Flags = unique_keys.is_null().to_numpy(zero_copy_only=False)
    ids = unique_keys
    for host_bytes in np.unique(fields.store_host_bytes).tolist():
        is_wanted = is_missing & (fields.store_host_bytes == host_bytes)
        made = _offset_ids(records, fields, is_wanted, host_bytes)
        ids = pc.replace_with_mask(ids, pa.array(is_wanted), made)
    return ids


def _offset_ids(records: Records, fields: Fields, is_wanted: Flags, host_bytes: int) -> pa.Array:
    hosts_at = fields.store_host_starts[is_wanted]
    offsets = fields.commit_log_offsets[is_wanted].astype(">i8")
    count, width = hosts_at.size, host_bytes + offsets.itemsize
    identities = np.empty((count, width), np.uint8)
    identities[:, :host_bytes] = records.octets[hosts_at[:, None] + np.arange(host_bytes)]
    identities[:, host_bytes:] = offsets.view(np.uint8).reshape(count, offsets.itemsize)
    ends = np.arange(count + 1, dtype=np.int32) * (2 * width)
    data = pa.py_buffer(_HEX[identities])
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), data])
