"""The ``value`` column: checksums verified, compressed bodies expanded.

Bodies as stored are copied once, together. Only rows that are compressed or damaged are touched one
by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.columnar.boundaries import TooMuchAtOnce
from rmq_ordered.columnar.slices import gather_slices
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.checksum import CRC_MASK, crc32
from rmq_ordered.protocol.compression import COMPRESSED_FLAG, MAX_EXPANDED_BYTES, expand_body

if TYPE_CHECKING:
    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Flags

# As much as a single body may have, so that a read needs no more memory for many than for one.
_MAX_COLUMN_BYTES: Final = MAX_EXPANDED_BYTES


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


def verify_checksums(records: Records, fields: Fields, damage: Damage) -> None:
    """Compares every stored body with its record's CRC."""
    # One call per body: numpy has no CRC, and table look-ups in numpy are slower than this.
    view = records.octets.data
    slices = zip(fields.body_starts.tolist(), fields.body_ends.tolist(), strict=True)
    checksums = [crc32(view[start:end]) for start, end in slices]
    found = np.fromiter(checksums, np.int64, len(checksums)) & CRC_MASK
    for row in np.flatnonzero(found != fields.body_crcs).tolist():
        expected = "a body with the CRC that its record states"
        damage.add(row, expected, f"CRC {found[row]} instead of {fields.body_crcs[row]}")


def body_column(records: Records, fields: Fields, damage: Damage) -> pa.Array:
    """Every body, expanded if it was compressed; null in rows that are or turn out damaged.

    Raises:
        TooMuchAtOnce: decode fewer records.
    """
    stored = gather_slices(
        pa.py_buffer(records.octets), fields.body_starts, fields.body_ends, pa.binary()
    )
    is_compressed: Flags = fields.sys_flags & COMPRESSED_FLAG != 0
    if is_compressed.any():
        expanded = _expand(records, fields, is_compressed, damage)
        stored = pc.replace_with_mask(stored, pa.array(is_compressed), expanded)
    return damage.hide(stored)


def _expand(records: Records, fields: Fields, is_compressed: Flags, damage: Damage) -> pa.Array:
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
