"""Picking pieces out of one byte buffer, all rows at once.

The gathering functions trust their positions: whoever calls them has checked that every piece lies
inside the buffer. Arrow does not check, and would read somebody else's memory.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Octets: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

# A scalar with its type: without one Arrow looks for packages on the disk, each time anew.
NOTHING: Final = pa.scalar(b"", pa.binary())


def gather_fixed(octets: Octets, positions: Integers, layout: np.dtype[Any]) -> npt.NDArray[Any]:
    """Reads one item of a fixed layout at each byte position, aligned or not."""
    if positions.size == 0:
        return np.empty(0, layout)
    width = layout.itemsize
    # Every position seen as the start of an item: a view, which costs nothing until taken from.
    windows = np.ndarray((octets.size - width + 1,), f"V{width}", octets, strides=(1,))
    return windows[positions].view(layout)


def is_text_at(octets: Octets, positions: Integers, text: bytes) -> Flags:
    """Where a text of at least one byte begins at each position; as many bytes are there."""
    # In words, the last one overlapping: a comparison of bytes or strings takes twice as long.
    width = next(size for size in (8, 4, 2, 1) if size <= len(text))
    places = {*range(0, len(text) - width + 1, width), len(text) - width}
    is_equal = np.ones(positions.size, np.bool_)
    for at in places:
        found = gather_fixed(octets, positions + at, np.dtype(f"u{width}"))
        is_equal &= found == np.frombuffer(text, f"u{width}", 1, at)
    return is_equal


def gather_slices(
    buffer: pa.Buffer,
    starts: Integers,
    ends: Integers,
    kind: pa.DataType,
    rows: Integers | None = None,
    row_count: int = 0,
) -> pa.Array:
    """Copies the slices ``[start, end)`` of a buffer into one array of strings or binaries.

    The slices and the gaps between them, read in turn, already are an Arrow array over the buffer;
    taking every second element of it copies each slice once, and again where Arrow did not guess
    how long they are together. Slices of one length, as ids, tags and often bodies are, take less
    than half of that time.

    Args:
        buffer: The bytes, fewer than 2 GiB.
        starts: Where slices begin; ascending.
        ends: Where they end; no slice may reach into the next.
        kind: ``pa.string()`` (the bytes are known to be UTF-8) or ``pa.binary()``.
        rows: The row of each slice, ascending; every slice is its own row if not given.
        row_count: How many rows there are; those without a slice become null.
    """
    count = starts.size
    if count == 0:
        return pa.nulls(row_count, kind)
    is_each_a_row = rows is None or rows.size == row_count
    if is_each_a_row and (length := common_length(starts, ends)):
        octets = np.frombuffer(buffer, np.uint8)
        items = gather_fixed(octets, starts, np.dtype(f"V{length}"))
        return _of_one_length(items, count, length, kind)
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = starts
    edges[1::2] = ends
    pieces = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(edges), buffer])
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    if rows is None or is_each_a_row:  # the former for the type checker alone
        return pieces.take(pa.array(wanted))
    spread = np.zeros(row_count, np.int32)
    spread[rows] = wanted
    is_missing = np.ones(row_count, np.bool_)
    is_missing[rows] = False
    return pieces.take(pa.array(spread, mask=is_missing))


def common_length(starts: Integers, ends: Integers) -> int:
    """How long every slice is; 0 if they differ."""
    lengths = ends - starts
    return int(lengths[0]) if (lengths == lengths[0]).all() else 0


def _of_one_length(
    items: bytes | npt.NDArray[Any], count: int, length: int, kind: pa.DataType
) -> pa.Array:
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(ends), pa.py_buffer(items)])


def join_rows(*pieces: pa.Array | pa.Scalar) -> pa.Array:
    """Each row's bytes one after another."""
    return pc.binary_join_element_wise(*pieces, NOTHING)


def zeros(counts: Integers) -> pa.Array:
    """So many zero bytes in each row."""
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(bytes(int(ends[-1])))]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)


def repeat_text(text: str, count: int) -> pa.Array:
    """One string in every row.

    Not ``pa.repeat``: its scalar makes Arrow look for pandas on the disk, each time it is missing.
    """
    encoded = text.encode()
    return _of_one_length(encoded * count, count, len(encoded), pa.string())
