"""The ``value`` column: checksums verified, compressed bodies expanded.

Bodies as stored are copied once, together. Only rows that are compressed or damaged are touched one
by one.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.columnar.boundaries import TooMuchAtOnce
from rmq_ordered.columnar.slices import common_length, gather_slices
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.checksum import CRC_MASK, crc32
from rmq_ordered.protocol.compression import COMPRESSED_FLAG, MAX_EXPANDED_BYTES, expand_body

if TYPE_CHECKING:
    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Flags

# As much as a single body may have, so that a read needs no more memory for many than for one.
_MAX_COLUMN_BYTES: Final = MAX_EXPANDED_BYTES
# An object for a body that is no longer is made faster than a view of it.
_SHORT_BODY: Final = 512


@dataclass(frozen=True, slots=True)
class Damage:
    """Rows whose body is not the one that was sent: the first is an error, or all are kept here."""

    records: Records
    is_collected: bool = False
    reasons: dict[int, RemoteProtocolError] = field(default_factory=dict)

    def add(self, row: int, expected: str, found: object) -> None:
        """Says what is wrong with a row.

        Raises:
            RemoteProtocolError: unless damage is collected.
        """
        error = self.records.malformed(row, expected, found)
        if not self.is_collected:
            raise error
        self.reasons[row] = error

    def hide(self, values: pa.Array) -> pa.Array:
        """The values with null in damaged rows."""
        if not self.reasons:
            return values
        return pc.if_else(pa.array(self._flags()), pa.scalar(None, values.type), values)

    def column(self) -> pa.Array:
        """What is wrong with each row; null where nothing is."""
        count = len(self.records)
        if not self.reasons:
            return pa.nulls(count, pa.string())
        texts = [str(self.reasons[row]) if row in self.reasons else None for row in range(count)]
        return pa.array(texts, pa.string())

    def _flags(self) -> Flags:
        is_damaged = np.zeros(len(self.records), np.bool_)
        is_damaged[list(self.reasons)] = True
        return is_damaged


def stored_bodies(records: Records, fields: Fields) -> pa.Array:
    """Every body as it is stored, copied out of its record."""
    buffer = pa.py_buffer(records.octets)
    return gather_slices(buffer, fields.body_starts, fields.body_ends, pa.binary())


def verify_checksums(stored: pa.Array, fields: Fields, damage: Damage) -> None:
    """Compares every stored body with its record's CRC."""
    checksums = np.fromiter(_checksums(stored), np.int64, len(stored))
    found = checksums & CRC_MASK
    for row in np.flatnonzero(found != fields.body_crcs).tolist():
        expected = "a body with the CRC that its record states"
        damage.add(row, expected, f"CRC {found[row]} instead of {fields.body_crcs[row]}")


def _checksums(stored: pa.Array) -> list[int]:
    # One call per body: numpy has no CRC, and table look-ups in numpy are slower than this.
    _, offsets_buffer, data_buffer = stored.buffers()
    data = memoryview(data_buffer or b"")
    offsets = np.frombuffer(offsets_buffer, np.int32, len(stored) + 1).astype(np.int64)
    length = common_length(offsets[:-1], offsets[1:])
    if 0 < length <= _SHORT_BODY:
        whole = data[: length * len(stored)]
        return [crc32(body) for (body,) in struct.iter_unpack(f"{length}s", whole)]
    return [crc32(data[start:end]) for start, end in itertools.pairwise(offsets.tolist())]


def body_column(stored: pa.Array, fields: Fields, damage: Damage) -> pa.Array:
    """Every body, expanded if it was compressed; null in rows that are or turn out damaged.

    Raises:
        TooMuchAtOnce: decode fewer records.
    """
    is_compressed: Flags = fields.sys_flags & COMPRESSED_FLAG != 0
    if is_compressed.any():
        expanded = _expand(fields, is_compressed, damage)
        stored = pc.replace_with_mask(stored, pa.array(is_compressed), expanded)
    return damage.hide(stored)


def _expand(fields: Fields, is_compressed: Flags, damage: Damage) -> pa.Array:
    records = damage.records
    view = records.octets.data
    total = 0
    expanded: list[bytes | None] = []
    for row in np.flatnonzero(is_compressed).tolist():
        body = view[int(fields.body_starts[row]) : int(fields.body_ends[row])]
        sys_flag = int(fields.sys_flags[row])
        whole: bytes | None = None
        if row not in damage.reasons:
            try:
                whole = expand_body(body, sys_flag)
            except RemoteProtocolError as error:
                damage.add(row, f"a body compressed as sysFlag {sys_flag} says", error)
        expanded.append(whole)
        total += len(whole or b"")
        if total > _MAX_COLUMN_BYTES and len(records) > 1:
            raise TooMuchAtOnce(
                f"{records.queue}: {len(records)} messages expand to more than {_MAX_COLUMN_BYTES} "
                "bytes; decode fewer at once"
            )
    return pa.array(expanded, pa.binary())
