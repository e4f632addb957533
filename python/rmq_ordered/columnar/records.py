"""Rows to the body of SEND_BATCH_MESSAGE, all rows at once, with who sent them.

The layout is drawn in ``rmq_ordered.protocol.message``; a property test holds the two together.
Properties of a record: the row's own, then ours, so that ours win over whatever a row brings along.

    UNIQ_KEY 01 <20 digits: stream and queue> <12 digits: sequence> 02

Where the records themselves have to tell what landed, their UNIQ_KEY does, in the same 32 digits: a
longer key, or a property of its own, would cost more than everything else that makes sends
idempotent. The first record of a batch carries the stamp as well: whatever is left of a batch, it
begins with that one.

    RMQO_STAMP 01 <sink/batch/partition/> <sequence> / <16 digits: digest> 02
    UNIQ_KEY 01 <12 digits: stream and queue> <10 digits: sequence> <10 digits: digest> 02
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_ordered.columnar.digest import Hashes, fixed_width, lengths
from rmq_ordered.columnar.outgoing import OutgoingRows
from rmq_ordered.columnar.slices import join_rows
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.protocol.compression import compress_body
from rmq_ordered.protocol.properties import PROPERTY_UNIQ_KEY
from rmq_ordered.protocol.stamps import STAMP_PROPERTY

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Integers, Octets
    from rmq_ordered.model import MessageQueue

RECORD_HEAD_BYTES: Final = 22
UNIQUE_KEY_BYTES: Final = len(PROPERTY_UNIQ_KEY) + 34
# The four digits of every number of 16 bits.
_DIGITS: Final = np.frombuffer(
    np.arange(2**16, dtype=">u2").tobytes().hex().upper().encode(), np.uint32
)
_KEY_DIGITS: Final = 32
_STREAM_DIGITS: Final = 20
_STAMPED_STREAM_DIGITS: Final = 12
STAMPED_SEQUENCE_DIGITS: Final = 10
STAMPED_DIGEST_DIGITS: Final = 10
_DIGEST_MASK: Final = np.uint64(16**STAMPED_DIGEST_DIGITS - 1)
# Of the longest sequence, a slash, the digest and the two separators.
_STAMP_REST_BYTES: Final = 18 + 1 + 16 + 2


@dataclass(frozen=True, slots=True)
class RecordIdentity:
    """What the records of one stream in one queue have in common.

    Attributes:
        unique_prefix: the first digits of their UNIQ_KEY.
        stamp_prefix: the stamp up to the sequence; None sends records without stamps and digests.
    """

    unique_prefix: str
    stamp_prefix: str | None

    @classmethod
    def of(cls, name: str, queue: MessageQueue, stamp_prefix: str | None) -> RecordIdentity:
        """An identity that depends on nothing but its arguments, so that a replay has the same."""
        text = f"{name}\0{queue}".encode()
        width = _STREAM_DIGITS if stamp_prefix is None else _STAMPED_STREAM_DIGITS
        digits = hashlib.blake2b(text, digest_size=width // 2).hexdigest().upper()
        return cls(digits, stamp_prefix)

    def told(self, digests: Hashes) -> Hashes:
        """As much of the digests as is told to whoever compares them later."""
        return digests if self.stamp_prefix is None else digests & _DIGEST_MASK

    @property
    def stamp_bytes(self) -> int:
        """How much longer the first record is than the others, at most."""
        if self.stamp_prefix is None:
            return 0
        return len(STAMP_PROPERTY) + len(self.stamp_prefix) + _STAMP_REST_BYTES


def encode_records(
    rows: OutgoingRows,
    identity: RecordIdentity,
    first: int,
    digests: Hashes | None,
    sys_flag: int = 0,
    *,
    behind: bytes = b"",
) -> bytes:
    """The body of one batch.

    Args:
        rows: what to send; at least one.
        identity: who sends it.
        first: sequence of the first row.
        digests: the running digest at each row; needed with stamps only.
        sys_flag: with a compression in it, every body is compressed.
        behind: what stands behind the batch.
    """
    bodies = rows.bodies if not sys_flag else _compressed(rows.bodies, sys_flag)
    sequences = np.arange(first, first + len(rows), dtype=np.int64)
    if identity.stamp_prefix is None or digests is None:
        tail = fixed_width(_unique_keys(identity.unique_prefix, sequences))
    else:
        tail = _stamped(identity.unique_prefix, identity.stamp_prefix, sequences, digests)
    property_bytes = lengths(rows.properties) + lengths(tail)
    body_bytes = lengths(bodies)
    heads = np.zeros((len(rows), 5), ">i4")
    heads[:, 0] = RECORD_HEAD_BYTES + body_bytes + property_bytes
    heads[:, 3] = rows.flags
    heads[:, 4] = body_bytes
    counts = property_bytes.astype(">i2").reshape(-1, 1)
    records = join_rows(fixed_width(heads), bodies, fixed_width(counts), rows.properties, tail)
    total = int(heads[:, 0].sum(dtype=np.int64))
    return b"".join((memoryview(records.buffers()[2])[:total], behind))


def digest_bytes(digests: Hashes) -> bytes:
    """Digests as they stand behind a batch."""
    return digests.astype(">u8").tobytes()


def _unique_keys(prefix: str, sequences: Integers) -> Octets:
    keys = np.empty((len(sequences), UNIQUE_KEY_BYTES), np.uint8)
    _write_unique_keys(keys, prefix, (sequences, _KEY_DIGITS - len(prefix)))
    return keys


def _stamped(unique: str, stamp: str, sequences: Integers, digests: Hashes) -> pa.Array:
    """The unique key of each row; in front of the first one the stamp."""
    if int(sequences[-1]) >= 16**STAMPED_SEQUENCE_DIGITS:
        raise LocalProtocolError(
            f"a batch has at most {16**STAMPED_SEQUENCE_DIGITS} rows per task and queue, because "
            "their number is part of the message id; write several batches"
        )
    text = f"{STAMP_PROPERTY}\x01{stamp}{sequences[0]}/{digests[0]:016x}\x02".encode()
    count = len(sequences)
    octets = np.empty(len(text) + count * UNIQUE_KEY_BYTES, np.uint8)
    octets[: len(text)] = np.frombuffer(text, np.uint8)
    keys = octets[len(text) :].reshape(count, UNIQUE_KEY_BYTES)
    numbers = (sequences, STAMPED_SEQUENCE_DIGITS), (digests, STAMPED_DIGEST_DIGITS)
    _write_unique_keys(keys, unique, *numbers)
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(UNIQUE_KEY_BYTES)
    ends[1:] += len(text)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(octets)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _write_unique_keys(
    keys: Octets, prefix: str, *numbers: tuple[npt.NDArray[np.generic], int]
) -> None:
    """All rows alike at first, then the last digits of each of the numbers."""
    head = f"{PROPERTY_UNIQ_KEY}\x01{prefix}".encode()
    keys[:] = np.frombuffer(head.ljust(UNIQUE_KEY_BYTES - 1, b"0") + b"\x02", np.uint8)
    at = len(head)
    for values, width in numbers:
        keys[:, at : at + width] = _digits(values.astype(">u8"))[:, -width:]
        at += width


def _digits(numbers: npt.NDArray[np.generic]) -> Octets:
    """Sixteen hexadecimal digits of each big-endian number of 64 bits."""
    # ``take`` is several times as fast as indexing.
    return _DIGITS.take(numbers.view(">u2")).view(np.uint8).reshape(-1, 16)


def _compressed(bodies: pa.Array, sys_flag: int) -> pa.Array:
    return pa.array([compress_body(body.as_py(), sys_flag) for body in bodies], pa.binary())
