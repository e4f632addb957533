"""Inner batches, records that hold several messages: unfolded into records of one message each.

Only topics with the attribute queue.type=BatchCQ have them, so they are rewritten one by one and
then decoded like all others; where there is none, nothing is copied.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from rmq_ordered.columnar.boundaries import TooMuchAtOnce
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.checksum import body_crc
from rmq_ordered.protocol.compression import COMPRESSED_FLAG, MAX_EXPANDED_BYTES, expand_body
from rmq_ordered.protocol.message import INNER_BATCH_FLAGS, split_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Flags

# totalSize and magic, bodyCRC, queueId, flag, queueOffset; physicalOffset and sysFlag follow.
_SIZE: Final = struct.Struct(">i")
_CRC_AT, _FLAG_AT, _OFFSET_AT, _OFFSET_END, _SYS_FLAG_AT = 8, 16, 20, 28, 36
_FLAG_AND_OFFSET: Final = struct.Struct(">iq")
_LENGTH: Final = struct.Struct(">h")
# All that one call may unfold: what a single body may expand to.
MAX_UNFOLDED_BYTES: Final = MAX_EXPANDED_BYTES


def has_batches(fields: Fields) -> bool:
    """Whether some record is an inner batch."""
    return bool(_is_batch(fields).any())


def unfold_batches(records: Records, fields: Fields, *, verify_crc: bool) -> bytes:
    """The same records, with one record for each message of an inner batch.

    A batch that is damaged hides how many messages it has, so it is never passed over. What the
    batches hold together is limited, and looked at before it is taken apart: a few kilobytes can
    expand to gigabytes, and a message of a few bytes gets a whole record's head.

    Raises:
        RemoteProtocolError: a batch fails its checksum, does not expand, holds too much, or a
            length in it lies.
        TooMuchAtOnce: up to one of them they hold too much.
    """
    pieces: list[bytes | memoryview] = []
    copied = 0
    room = max(0, MAX_UNFOLDED_BYTES - records.octets.size)
    for row in np.flatnonzero(_is_batch(fields)).tolist():
        pieces.append(records.octets.data[copied : int(records.starts[row])])
        unfolded = list(_unfold(records, fields, row, room, verify_crc=verify_crc))
        room -= sum(map(len, unfolded))
        pieces += unfolded
        copied = int(records.ends[row])
    return b"".join((*pieces, records.octets.data[copied:]))


def _is_batch(fields: Fields) -> Flags:
    is_batch: Flags = fields.sys_flags & INNER_BATCH_FLAGS == INNER_BATCH_FLAGS
    return is_batch


def _unfold(
    records: Records, fields: Fields, row: int, room: int, *, verify_crc: bool
) -> Iterator[bytes]:
    start, body_start = int(records.starts[row]), int(fields.body_starts[row])
    body_end, properties_start = int(fields.body_ends[row]), int(fields.properties_starts[row])
    sys_flag = int(fields.sys_flags[row])
    outer = bytes(records.octets.data[start : int(records.ends[row])])
    stored = outer[body_start - start : body_end - start]
    crc = body_crc(stored)
    if verify_crc and crc != fields.body_crcs[row]:
        expected = "a body with the CRC that its record states"
        raise records.malformed(row, expected, f"CRC {crc} instead of {fields.body_crcs[row]}")
    try:
        most = max(0, MAX_UNFOLDED_BYTES - len(outer))
        batch = expand_body(stored, sys_flag, max_bytes=most)
        needed = _needed_bytes(batch, len(outer) - len(stored), most)
        if needed > room:
            raise TooMuchAtOnce(
                f"{records.queue}: {len(records)} records unfold to more than "
                f"{MAX_UNFOLDED_BYTES} bytes; decode fewer at once"
            )
        inner = split_batch(batch, int(fields.queue_offsets[row]))
    except RemoteProtocolError as error:
        expected = f"the messages of an inner batch, {MAX_UNFOLDED_BYTES} bytes at most"
        raise records.malformed(row, expected, error) from error
    plain_flag = _SIZE.pack(sys_flag & ~(INNER_BATCH_FLAGS | COMPRESSED_FLAG))
    before_body = outer[_SYS_FLAG_AT + _SIZE.size : body_start - start - _SIZE.size]
    topic = outer[body_end - start : properties_start - start - _LENGTH.size]
    for one in inner:
        parts = (
            outer[_SIZE.size : _CRC_AT],
            _SIZE.pack(body_crc(one.body)),
            outer[_CRC_AT + _SIZE.size : _FLAG_AT],
            _FLAG_AND_OFFSET.pack(one.flag, one.queue_offset),
            outer[_OFFSET_END:_SYS_FLAG_AT],
            plain_flag,
            before_body,
            _SIZE.pack(len(one.body)),
            one.body,
            topic,
            _LENGTH.pack(len(one.properties)),
            one.properties,
        )
        yield _SIZE.pack(_SIZE.size + sum(map(len, parts))) + b"".join(parts)


def _needed_bytes(batch: bytes, head_bytes: int, most: int) -> int:
    """Adds up what the messages announce; a size that lies is found when they are cut."""
    position = total = 0
    while position <= len(batch) - _SIZE.size:
        (size,) = _SIZE.unpack_from(batch, position)
        if not _SIZE.size <= size <= len(batch) - position:
            break
        position += size
        total += size + head_bytes
        if total > most:
            raise RemoteProtocolError(f"a batch of {len(batch)} bytes whose messages need more")
    return total
