"""Rows to the body of SEND_BATCH_MESSAGE, all rows at once, with who sent them.

The layout is drawn in ``rmq_ordered.protocol.message``; a property test holds the two together.
Properties of a record: the row's own, then UNIQ_KEY, then the stamp if there is one, so that ours
win over whatever a row brings along.

    UNIQ_KEY 01 <20 digits: stream and queue> <12 digits: sequence> 02
    RMQO_STAMP 01 <sink/batch/partition/> <sequence> / <16 digits: digest> 02
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
from rmq_ordered.protocol.compression import compress_body
from rmq_ordered.protocol.properties import PROPERTY_UNIQ_KEY
from rmq_ordered.protocol.stamps import STAMP_PROPERTY

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Integers, Octets
    from rmq_ordered.model import MessageQueue

RECORD_HEAD_BYTES: Final = 22
UNIQUE_KEY_BYTES: Final = len(PROPERTY_UNIQ_KEY) + 34
# The four digits of every number of 16 bits.
_LOWER: Final = np.frombuffer(np.arange(2**16, dtype=">u2").tobytes().hex().encode(), np.uint32)
_UPPER: Final = np.frombuffer(_LOWER.tobytes().upper(), np.uint32)
_STREAM_DIGITS: Final = 20
_SEQUENCE_BYTES: Final = 6
_DECIMAL_PLACES: Final = 4
# The same of every number of four decimal places.
_DECIMALS: Final = np.frombuffer(
    "".join(f"{number:04}" for number in range(10**_DECIMAL_PLACES)).encode(), np.uint32
)


@dataclass(frozen=True, slots=True)
class RecordIdentity:
    """What the records of one stream in one queue have in common.

    Attributes:
        unique_prefix: the first 20 digits of their UNIQ_KEY.
        stamp_prefix: the stamp up to the sequence; None sends without stamps.
    """

    unique_prefix: str
    stamp_prefix: str | None

    @classmethod
    def of(cls, name: str, queue: MessageQueue, stamp_prefix: str | None) -> RecordIdentity:
        """An identity that depends on nothing but its arguments, so that a replay has the same."""
        text = f"{name}\0{queue}".encode()
        digits = hashlib.blake2b(text, digest_size=_STREAM_DIGITS // 2).hexdigest().upper()
        return cls(digits, stamp_prefix)

    @property
    def most_bytes(self) -> int:
        """How much the identity adds to a record at most."""
        if self.stamp_prefix is None:
            return UNIQUE_KEY_BYTES
        return UNIQUE_KEY_BYTES + len(STAMP_PROPERTY) + len(self.stamp_prefix) + 18 + 19


def encode_records(
    rows: OutgoingRows,
    identity: RecordIdentity,
    first: int,
    digests: Hashes | None,
    sys_flag: int = 0,
) -> bytes:
    """The body of one batch.

    Args:
        rows: what to send; at least one.
        identity: who sends it.
        first: sequence of the first row.
        digests: the running digest at each row; needed with stamps only.
        sys_flag: with a compression in it, every body is compressed.
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
    return memoryview(records.buffers()[2])[:total].tobytes()


def _unique_keys(prefix: str, sequences: Integers) -> Octets:
    name, stream = f"{PROPERTY_UNIQ_KEY}\x01".encode(), prefix.encode()
    keys = np.empty((len(sequences), UNIQUE_KEY_BYTES), np.uint8)
    keys[:] = np.frombuffer(name + stream + bytes(2 * _SEQUENCE_BYTES) + b"\x02", np.uint8)
    _write_sequences(keys, len(name) + _STREAM_DIGITS, sequences)
    return keys


def _stamped(unique: str, stamp: str, sequences: Integers, digests: Hashes) -> pa.Array:
    """UNIQ_KEY and stamp of each row; sequences with the same number of digits at a time."""
    parts: list[pa.Array] = []
    start, first = 0, int(sequences[0])
    while start < len(sequences):
        width = len(str(first + start))
        end = min(len(sequences), 10**width - first)
        parts.append(_stamps(unique, stamp, sequences[start:end], digests[start:end]))
        start = end
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _stamps(unique: str, stamp: str, sequences: Integers, digests: Hashes) -> pa.Array:
    width = len(str(int(sequences[0])))
    first = _unique_keys(unique, sequences[:1]).tobytes()
    head = first + f"{STAMP_PROPERTY}\x01{stamp}".encode()
    slash_at = len(head) + width
    # All rows alike at first, then the three numbers that differ.
    texts = np.empty((len(sequences), slash_at + 18), np.uint8)
    texts[:] = np.frombuffer(head + bytes(width) + b"/" + bytes(16) + b"\x02", np.uint8)
    _write_sequences(texts, UNIQUE_KEY_BYTES - 1 - 2 * _SEQUENCE_BYTES, sequences)
    _write_decimals(texts, slash_at, width, sequences)
    texts[:, slash_at + 1 : -1] = _digits(digests.astype(">u8"), _LOWER)
    return fixed_width(texts)


def _write_sequences(texts: Octets, at: int, sequences: Integers) -> None:
    digits = _digits(sequences.astype(">i8"), _UPPER)[:, -2 * _SEQUENCE_BYTES :]
    texts[:, at : at + 2 * _SEQUENCE_BYTES] = digits


def _write_decimals(texts: Octets, end: int, width: int, numbers: Integers) -> None:
    """Numbers of ``width`` digits each, four digits at a time, up to the column ``end``."""
    rest = numbers
    while width > 0:
        rest, low = np.divmod(rest, len(_DECIMALS))
        taken = min(width, _DECIMAL_PLACES)
        digits = _DECIMALS.take(low).view(np.uint8).reshape(-1, _DECIMAL_PLACES)
        texts[:, end - taken : end] = digits[:, -taken:]
        end, width = end - taken, width - taken


def _digits(numbers: npt.NDArray[np.generic], table: npt.NDArray[np.uint32]) -> Octets:
    """Sixteen hexadecimal digits of each big-endian number of 64 bits."""
    # ``take`` is several times as fast as indexing.
    return table.take(numbers.view(">u2")).view(np.uint8).reshape(-1, 16)


def _compressed(bodies: pa.Array, sys_flag: int) -> pa.Array:
    return pa.array([compress_body(body.as_py(), sys_flag) for body in bodies], pa.binary())
