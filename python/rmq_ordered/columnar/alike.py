"""Properties of rows that all have the same names in the same order, as one producer sends them.

Then an entry's place in its row tells its name: nothing has to be searched for, and no name can
occur twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmq_ordered.columnar.schema import PROPERTIES
from rmq_ordered.columnar.slices import gather_slices, is_text_at

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Integers, Octets


@dataclass(frozen=True, slots=True)
class AlikeProperties:
    """Entries of all rows, in order: entry ``i`` is called ``names[i % len(names)]``."""

    row_count: int
    names: tuple[bytes, ...]
    block: Octets
    starts: Integers
    separators: Integers
    ends: Integers

    def select(self, name: str) -> pa.Array:
        """The values of one property; null in all rows if they do not have it."""
        if (wanted := name.encode()) not in self.names:
            return pa.nulls(self.row_count, pa.string())
        place = slice(self.names.index(wanted), None, len(self.names))
        values_at, ends = self.separators[place] + 1, self.ends[place]
        return gather_slices(pa.py_buffer(self.block), values_at, ends, pa.string())

    def as_map(self) -> pa.MapArray:
        """All properties of each row."""
        buffer = pa.py_buffer(self.block)
        offsets = np.arange(self.row_count + 1, dtype=np.int32) * np.int32(len(self.names))
        return pa.MapArray.from_arrays(
            pa.array(offsets),
            gather_slices(buffer, self.starts, self.separators, pa.string()),
            gather_slices(buffer, self.separators + 1, self.ends, pa.string()),
            type=PROPERTIES,
        )


def find_alike(
    block: Octets, row_starts: Integers, starts: Integers, separators: Integers, ends: Integers
) -> AlikeProperties | None:
    """The properties if all rows are alike, or nothing.

    Args:
        block: The properties of all rows; a separator leads each row.
        row_starts: Where these separators lie.
        starts: Where entries begin, of all rows; each goes up to the end of the next name.
        separators: Where their names end.
        ends: Where their values end.
    """
    rows = row_starts.size
    count = starts.size // rows
    if count == 0 or count * rows != starts.size:
        return None
    # Entries rise: if every count-th one is the first of its row, each row has so many.
    if not np.array_equal(starts[::count], row_starts + 1) or (separators + 1 >= ends).any():
        return None
    names = tuple(block[starts[at] : separators[at]].tobytes() for at in range(count))
    if len(set(names)) < count or b"" in names:
        return None
    sizes = (separators - starts).reshape(rows, count)
    if not (sizes == sizes[0]).all():
        return None
    for place, name in enumerate(names):
        if not is_text_at(block, starts[place::count], name).all():
            return None
    return AlikeProperties(rows, names, block, starts, separators, ends)
