"""Digests of rows, all rows at once: what a stamp says about everything sent so far.

A row's hash covers its flag, its body and its properties, but nothing that tells who sent it. A
running digest adds up the hashes, each mixed with its sequence, so that other rows, fewer rows, or
the same rows in another order give another digest:

    digest[n] = digest[n-1] + mix(hash[n] + (n + 1) * G)        (all modulo 2^64)

It finds out accidents, not attacks. It must never change: stamps written by one version are
compared by the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_ordered.columnar.slices import join_rows, zeros

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Integers

Hashes: TypeAlias = npt.NDArray[np.uint64]

_WORD_BYTES: Final = 8
# 2^64 divided by the golden ratio, and the two multipliers of SplitMix64's finalizer.
_GOLDEN: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_FIRST_FACTOR: Final = np.uint64(0xBF58_476D_1CE4_E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D0_49BB_1331_11EB)
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
_HALF_BITS: Final = np.uint64(32)
_LOWER_HALF: Final = np.uint64(0xFFFF_FFFF)
# So many words are mixed at a time: they stay in the processor's cache meanwhile.
_WORDS_AT_ONCE: Final = 32_768
_PLACES: Final = np.arange(1, _WORDS_AT_ONCE + 1, dtype=np.uint64) * _GOLDEN


def row_hashes(bodies: pa.Array, properties: pa.Array, flags: Integers) -> Hashes:
    """One number per row.

    Each row is seen as little-endian words of 64 bits: body length and flag, the body, the
    properties, zeros up to a whole word. To each word its place is added (times G), and the lower
    half is multiplied with the upper one; a row's hash is the sum of these products, mixed. This is
    UMAC's NH with another key schedule: three passes over memory where a mixture of each word takes
    eight.
    """
    count = len(bodies)
    if count == 0:
        return np.empty(0, np.uint64)
    body_lengths = lengths(bodies)
    contents = body_lengths + lengths(properties)
    heads = np.empty((count, 2), "<u4")
    heads[:, 0] = body_lengths
    heads[:, 1] = flags.astype(np.uint32)
    padding = zeros(-contents % _WORD_BYTES)
    padded = join_rows(fixed_width(heads), bodies, properties, padding)
    counts = (contents + 2 * _WORD_BYTES - 1) // _WORD_BYTES
    ends = np.cumsum(counts)
    words = np.frombuffer(padded.buffers()[2], "<u8", int(ends[-1]))
    sums = np.empty(count, np.uint64)
    row = 0
    while row < count:
        start = int(ends[row] - counts[row])
        after = max(row + 1, int(np.searchsorted(ends, start + _WORDS_AT_ONCE, side="right")))
        part = slice(row, after)
        sums[part] = _word_sums(words[start : int(ends[after - 1])], counts[part])
        row = after
    return _mix(sums)


def _word_sums(words: Hashes, counts: Integers) -> Hashes:
    """For each row the sum of the products of its words' halves."""
    starts = np.cumsum(counts) - counts
    # (place - start) * G as place * G - start * G: the first is the same for all parts.
    placed = _places(len(words)) - np.repeat(starts.astype(np.uint64) * _GOLDEN, counts)
    placed += words
    products = placed & _LOWER_HALF
    placed >>= _HALF_BITS
    products *= placed
    sums: Hashes = np.add.reduceat(products, starts)
    return sums


def _places(count: int) -> Hashes:
    if count <= len(_PLACES):
        return _PLACES[:count]
    return np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN


def running_digests(hashes: Hashes, first: int, before: int) -> Hashes:
    """The digest at each row.

    Args:
        hashes: of the rows, in order.
        first: sequence of the first of them.
        before: the digest at the row before; 0 before sequence 0.
    """
    places = np.arange(first + 1, first + 1 + len(hashes), dtype=np.uint64)
    digests: Hashes = np.cumsum(_mix(places * _GOLDEN + hashes), dtype=np.uint64)
    digests += np.uint64(before)
    return digests


def lengths(values: pa.Array) -> Integers:
    """How many bytes each value of a binary or string array has; no value is null."""
    if len(values) == 0:
        return np.empty(0, np.int64)
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
    return np.diff(offsets).astype(np.int64)


def fixed_width(rows: npt.NDArray[np.generic]) -> pa.Array:
    """The bytes of each row of a two-dimensional array as one binary value."""
    count, width = rows.shape[0], rows.itemsize * rows.shape[1]
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _mix(values: Hashes) -> Hashes:
    """SplitMix64's finalizer, in place: every bit of the input reaches every bit of the output."""
    shifted = values >> _SHIFTS[0]
    values ^= shifted
    values *= _FIRST_FACTOR
    np.right_shift(values, _SHIFTS[1], out=shifted)
    values ^= shifted
    values *= _SECOND_FACTOR
    np.right_shift(values, _SHIFTS[2], out=shifted)
    values ^= shifted
    return values
