"""Cutting a queue's rows into batches that a broker accepts, in order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def cut_batches(
    sizes: npt.NDArray[np.int64], max_bytes: int, max_rows: int
) -> Iterator[tuple[int, int]]:
    """Row ranges ``[start, end)`` within both limits; a row too large for one is alone in it.

    Args:
        sizes: bytes of each row on the wire.
        max_bytes: of all rows of a batch together.
        max_rows: of a batch.
    """
    ends = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sizes):
        fitting = int(np.searchsorted(ends, before + max_bytes, side="right"))
        end = max(start + 1, min(fitting, start + max_rows))
        yield start, end
        start, before = end, int(ends[end - 1])
