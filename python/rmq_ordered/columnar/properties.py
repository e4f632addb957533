"""The properties of all records: chosen ones as columns, or all of them as a map.

The same rules as ``rmq_ordered.protocol.properties.decode_properties``, for all rows at once. The
properties of all rows are copied into one block, each row's led by a property separator, so that
every entry, first or not, lies between two separators:

    02 K E Y S 01 k 1 02 T A G S 01 a 02 02 T A G S 01 b 02
    row 0                                row 1           end
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rmq_ordered.columnar.alike import AlikeProperties, find_alike
from rmq_ordered.columnar.schema import PROPERTIES
from rmq_ordered.columnar.slices import gather_slices, is_text_at

if TYPE_CHECKING:
    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Flags, Integers, Octets

_NAME_END: Final = 1
_ENTRY_END: Final = 2


@dataclass(frozen=True, slots=True)
class Properties:
    """Entries of all rows, in order: names are ``[starts, separators)``, values end at ``ends``."""

    row_count: int
    block: Octets
    rows: Integers
    starts: Integers
    separators: Integers
    ends: Integers

    def select(self, name: str) -> pa.Array:
        """The values of one property; null in rows that do not have it."""
        entries = self._find(name.encode())
        rows = self.rows[entries]
        # Of several entries with this name in a row, the last counts.
        is_last = np.ones(rows.size, np.bool_)
        is_last[:-1] = rows[1:] != rows[:-1]
        if not is_last.all():
            entries, rows = entries[is_last], rows[is_last]
        return gather_slices(
            pa.py_buffer(self.block),
            self.separators[entries] + 1,
            self.ends[entries],
            pa.string(),
            rows,
            self.row_count,
        )

    def as_map(self) -> pa.MapArray:
        """All properties of each row; empty in rows without any."""
        buffer = pa.py_buffer(self.block)
        entries = self._last_of_each_name(
            gather_slices(buffer, self.starts, self.separators, pa.string())
        )
        starts, separators, ends = (
            self.starts[entries],
            self.separators[entries],
            self.ends[entries],
        )
        counts = np.bincount(self.rows[entries], minlength=self.row_count)
        offsets = np.zeros(self.row_count + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        return pa.MapArray.from_arrays(
            pa.array(offsets),
            gather_slices(buffer, starts, separators, pa.string()),
            gather_slices(buffer, separators + 1, ends, pa.string()),
            type=PROPERTIES,
        )

    def _find(self, name: bytes) -> Integers:
        candidates = np.flatnonzero(self.separators - self.starts == len(name))
        if not candidates.size:
            return candidates
        return candidates[is_text_at(self.block, self.starts[candidates], name)]

    def _last_of_each_name(self, names: pa.Array) -> Integers:
        """Entries that no later one of the same row and name overrides."""
        if not self.rows.size:
            return self.rows
        encoded = names.dictionary_encode()
        codes = encoded.indices.to_numpy()
        identities = self.rows * len(encoded.dictionary) + codes
        order = np.argsort(identities, kind="stable")
        ordered = identities[order]
        is_last = np.ones(order.size, np.bool_)
        is_last[:-1] = ordered[1:] != ordered[:-1]
        return np.sort(order[is_last])


def parse_properties(records: Records, fields: Fields) -> Properties | AlikeProperties:
    """Finds every property of every row. Never fails: what is no property is dropped."""
    block, row_starts = _as_utf8(*_compact(records, fields))
    marks = np.flatnonzero(block - np.uint8(_NAME_END) < _ENTRY_END)
    is_entry_end: Flags = block[marks] == _ENTRY_END
    # A name lies between the end of an entry and the first name end after it. The block's last mark
    # is an entry end, so there is always one more.
    opening = np.flatnonzero(is_entry_end[:-1] & ~is_entry_end[1:])
    starts, separators, ends = marks[opening] + 1, marks[opening + 1], marks[opening + 2]
    if not is_entry_end[opening + 2].all():
        # Some value holds a name end: it goes on to the next entry end.
        edges = marks[is_entry_end]
        ends = edges[np.searchsorted(edges, separators)]
    alike = find_alike(block, row_starts, starts, separators, ends)
    if alike is not None:
        return alike
    firsts = np.searchsorted(starts, row_starts)
    counts = np.diff(firsts, append=starts.size)
    rows = np.repeat(np.arange(len(records), dtype=np.int64), counts)
    is_property = (separators > starts) & (separators + 1 < ends)
    if not is_property.all():
        rows, starts = rows[is_property], starts[is_property]
        separators, ends = separators[is_property], ends[is_property]
    return Properties(len(records), block, rows, starts, separators, ends)


def _compact(records: Records, fields: Fields) -> tuple[Octets, Integers]:
    """The block, and where each row's leading separator lies."""
    # One byte more in front: the length field's last, to be overwritten by the separator.
    copied = gather_slices(
        pa.py_buffer(records.octets), fields.properties_starts - 1, records.ends, pa.binary()
    )
    _, offsets_buffer, data_buffer = copied.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(records) + 1).astype(np.int64)
    block = np.empty(offsets[-1] + 1, np.uint8)
    block[:-1] = np.frombuffer(data_buffer, np.uint8, int(offsets[-1]))
    block[offsets] = _ENTRY_END
    return block, offsets[:-1]


def _as_utf8(block: Octets, row_starts: Integers) -> tuple[Octets, Integers]:
    """Replaces what is not UTF-8, as Java does; separators stay, so rows can be found again."""
    try:
        str(block.data, "utf-8")
    except UnicodeDecodeError:
        repaired = np.frombuffer(str(block.data, "utf-8", "replace").encode(), np.uint8)
        numbers = np.searchsorted(np.flatnonzero(block == _ENTRY_END), row_starts)
        return repaired, np.flatnonzero(repaired == _ENTRY_END)[numbers]
    return block, row_starts
