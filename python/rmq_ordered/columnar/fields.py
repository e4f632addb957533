"""The fixed fields of all records, and where their variable parts lie.

The layout is drawn in ``rmq_ordered.protocol.message``. Each length is checked before the position
after it is read, so no position computed here lies outside its record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmq_ordered.columnar.slices import gather_fixed
from rmq_ordered.protocol.message import (
    BORN_HOST_V6_FLAG,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    STORE_HOST_V6_FLAG,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.slices import Flags, Integers

_HEAD: Final = np.dtype(
    [
        ("total_size", ">i4"),
        ("magic", ">i4"),
        ("body_crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("commit_log_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_ms", ">i8"),
    ]
)
_AFTER_HOSTS: Final = np.dtype(
    [("reconsume_times", ">i4"), ("prepared_offset", ">i8"), ("body_length", ">i4")]
)
_I16: Final = np.dtype(">i2")
_I64: Final = np.dtype(">i8")
_V4_HOST_BYTES: Final = 8
_V6_HOST_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class Fields:
    """One value per record. A body ends at ``body_ends``, properties end with their record."""

    queue_ids: Integers
    queue_offsets: Integers
    commit_log_offsets: Integers
    sys_flags: Integers
    body_crcs: Integers
    born_ms: Integers
    store_ms: Integers
    store_host_starts: Integers
    store_host_bytes: Integers
    reconsume_times: npt.NDArray[np.int32]
    body_starts: Integers
    body_ends: Integers
    topic_starts: Integers
    topic_ends: Integers
    properties_starts: Integers


def read_fields(records: Records) -> Fields:
    """Reads every record's fixed fields and finds its body and properties.

    Raises:
        RemoteProtocolError: a record is not a message, or one of its lengths lies.
    """
    head = gather_fixed(records.octets, records.starts, _HEAD)
    is_v2 = _ensure_readable(records, head)
    sys_flags = head["sys_flag"].astype(np.int64)
    born_host_bytes = _host_bytes(sys_flags, BORN_HOST_V6_FLAG)
    store_host_bytes = _host_bytes(sys_flags, STORE_HOST_V6_FLAG)
    _ensure_long_enough(records, born_host_bytes + store_host_bytes, is_v2)

    store_ms_at = records.starts + _HEAD.itemsize + born_host_bytes
    store_host_starts = store_ms_at + _I64.itemsize
    after_hosts_at = store_host_starts + store_host_bytes
    after_hosts = gather_fixed(records.octets, after_hosts_at, _AFTER_HOSTS)
    body_starts = after_hosts_at + _AFTER_HOSTS.itemsize
    body_lengths = after_hosts["body_length"].astype(np.int64)
    body_ends = _find_body_ends(records, body_starts, body_lengths, is_v2)
    topic_starts, topic_ends = _find_topics(records, body_ends, is_v2)
    return Fields(
        queue_ids=head["queue_id"].astype(np.int64),
        queue_offsets=head["queue_offset"].astype(np.int64),
        commit_log_offsets=head["commit_log_offset"].astype(np.int64),
        sys_flags=sys_flags,
        body_crcs=head["body_crc"].astype(np.int64),
        born_ms=head["born_ms"].astype(np.int64),
        store_ms=gather_fixed(records.octets, store_ms_at, _I64).astype(np.int64),
        store_host_starts=store_host_starts,
        store_host_bytes=store_host_bytes,
        reconsume_times=after_hosts["reconsume_times"].astype(np.int32),
        body_starts=body_starts,
        body_ends=body_ends,
        topic_starts=topic_starts,
        topic_ends=topic_ends,
        properties_starts=_find_properties(records, topic_ends),
    )


def _ensure_readable(records: Records, head: npt.NDArray[Any]) -> Flags:
    magic = head["magic"]
    is_v2: Flags = magic == MAGIC_V2
    records.ensure(
        is_v2 | (magic == MAGIC_V1),
        "magic 0xDAA320A7 or 0xDAA320AB",
        lambda row: f"0x{int(magic[row]) & 0xFFFFFFFF:08X}",
    )
    return is_v2


def _host_bytes(sys_flags: Integers, v6_flag: int) -> Integers:
    return np.where(sys_flags & v6_flag, np.int64(_V6_HOST_BYTES), np.int64(_V4_HOST_BYTES))


def _ensure_long_enough(records: Records, host_bytes: Integers, is_v2: Flags) -> None:
    sizes = records.ends - records.starts
    least = MIN_RECORD_BYTES - 2 * _V4_HOST_BYTES + host_bytes + is_v2
    records.ensure(
        sizes >= least,
        "a record that holds its fixed fields",
        lambda row: f"totalSize {sizes[row]} where {least[row]} are needed",
    )


def _find_body_ends(
    records: Records, body_starts: Integers, lengths: Integers, is_v2: Flags
) -> Integers:
    most = records.ends - body_starts - 1 - is_v2 - _I16.itemsize
    records.ensure(
        (lengths >= 0) & (lengths <= most),
        "a body that fits its record",
        lambda row: f"bodyLen {lengths[row]} where 0 to {most[row]} fit",
    )
    return body_starts + lengths


def _find_topics(
    records: Records, topic_length_at: Integers, is_v2: Flags
) -> tuple[Integers, Integers]:
    octets = records.octets
    topic_lengths = octets[topic_length_at].view(np.int8).astype(np.int64)
    if is_v2.any():
        topic_lengths[is_v2] = gather_fixed(octets, topic_length_at[is_v2], _I16)
    topic_starts = topic_length_at + 1 + is_v2
    most = records.ends - topic_starts - _I16.itemsize
    records.ensure(
        (topic_lengths >= 0) & (topic_lengths <= most),
        "a topic that fits its record",
        lambda row: f"topicLen {topic_lengths[row]} where 0 to {most[row]} fit",
    )
    return topic_starts, topic_starts + topic_lengths


def _find_properties(records: Records, length_at: Integers) -> Integers:
    """Where properties begin; they must end with the record."""
    ends = records.ends
    lengths = gather_fixed(records.octets, length_at, _I16)
    starts = length_at + _I16.itemsize
    records.ensure(
        starts + lengths == ends,
        "properties that end with their record",
        lambda row: f"propertiesLen {lengths[row]} where {ends[row] - starts[row]} bytes are left",
    )
    return starts
