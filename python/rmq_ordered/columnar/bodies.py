"""The ``value`` column: checksums verified, compressed bodies expanded.

Bodies as stored are copied once, together. Only rows that are compressed are touched one by one.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.columnar.slices import gather_slices
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.compression import COMPRESSED_FLAG, MAX_EXPANDED_BYTES, expand_body
from rmq_ordered.protocol.message import CRC_MASK

if TYPE_CHECKING:
    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Flags

# Arrow's binary offsets are 32 bits wide.
_MAX_COLUMN_BYTES: Final = 2**31 - 1


def ensure_checksums(records: Records, fields: Fields) -> None:
    """Compares every stored body with its record's CRC.

    Raises:
        RemoteProtocolError: a body is not the one that the broker stored.
    """
    # One zlib call per body: numpy has no CRC, and table look-ups in numpy are slower than this.
    view, crc32 = records.octets.data, zlib.crc32
    slices = zip(fields.body_starts.tolist(), fields.body_ends.tolist(), strict=True)
    found = np.array([crc32(view[start:end]) for start, end in slices], np.int64) & CRC_MASK
    records.ensure(
        found == fields.body_crcs,
        "a body with the CRC that its record states",
        lambda row: f"CRC {found[row]} instead of {fields.body_crcs[row]}",
    )


def body_column(records: Records, fields: Fields) -> pa.Array:
    """Every body, expanded if it was compressed.

    Raises:
        RemoteProtocolError: a body is not compressed the way its flag says, or is far too large.
    """
    stored = gather_slices(
        pa.py_buffer(records.octets), fields.body_starts, fields.body_ends, pa.binary()
    )
    is_compressed: Flags = fields.sys_flags & COMPRESSED_FLAG != 0
    if not is_compressed.any():
        return stored
    expanded = _expand(records, fields, is_compressed)
    return pc.replace_with_mask(stored, pa.array(is_compressed), expanded)


def _expand(records: Records, fields: Fields, is_compressed: Flags) -> pa.Array:
    view = records.octets.data
    # All rows share one binary array, so what the others take is no longer free.
    room = _MAX_COLUMN_BYTES - records.octets.size
    expanded: list[bytes] = []
    for row in np.flatnonzero(is_compressed).tolist():
        body = view[int(fields.body_starts[row]) : int(fields.body_ends[row])]
        sys_flag = int(fields.sys_flags[row])
        try:
            expanded.append(expand_body(body, sys_flag, max_bytes=min(room, MAX_EXPANDED_BYTES)))
        except RemoteProtocolError as error:
            expected = f"a body compressed as sysFlag {sys_flag} says"
            raise records.malformed(row, expected, error) from error
        room -= len(expanded[-1])
    return pa.array(expanded, pa.binary())
