"""Keys to queues for whole columns: the vectorised twin of ``rmq_ordered.ordering.selector``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rmq_ordered.columnar.digest import lengths
from rmq_ordered.ordering.selector import CONSISTENT_FACTOR, CONSISTENT_SCALE, CONSISTENT_SHIFT

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Integers, Octets

_HASH_FACTOR: Final = np.uint32(31)
# Longer keys are hashed as well; only their table of powers is made anew.
_POWERS: Final = 1_024


def _powers(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """31^0, 31^1, ... modulo 2^32."""
    factors = np.full(count, _HASH_FACTOR, np.uint32)
    factors[:1] = 1
    return np.multiply.accumulate(factors, dtype=np.uint32)


_TABLE: Final = _powers(_POWERS)


def java_string_hashes(keys: pa.Array) -> Integers:
    """``String.hashCode`` of every key of a string column without nulls."""
    units, counts = _utf16_units(keys)
    found = np.zeros(len(keys), np.uint32)
    is_filled = counts > 0
    if is_filled.any():
        ends = np.cumsum(counts)
        longest = int(counts.max())
        table = _TABLE if longest <= _POWERS else _powers(longest)
        exponents = np.repeat(ends, counts) - 1 - np.arange(units.size)
        terms = units * table[exponents]
        found[is_filled] = np.add.reduceat(terms, (ends - counts)[is_filled], dtype=np.uint32)
    return found.view(np.int32).astype(np.int64)


def hash_indexes(keys: pa.Array, count: int) -> Integers:
    """Where Java's SelectMessageQueueByHash puts each key among ``count`` queues."""
    indexes: Integers = np.abs(java_string_hashes(keys)) % count
    return indexes


def consistent_indexes(keys: pa.Array, count: int) -> Integers:
    """Where the RocketMQ 5 proxy puts each message group among ``count`` queues."""
    state = java_string_hashes(keys).view(np.uint64)
    candidates = np.zeros(len(keys), np.int64)
    open_rows = np.arange(len(keys))
    while open_rows.size:
        state = state * np.uint64(CONSISTENT_FACTOR) + np.uint64(1)
        fractions = ((state >> np.uint64(CONSISTENT_SHIFT)) + np.uint64(1)) / CONSISTENT_SCALE
        following = (candidates[open_rows] + 1) / fractions
        is_open = following < count
        state, open_rows = state[is_open], open_rows[is_open]
        candidates[open_rows] = following[is_open].astype(np.int64)
    return candidates


def group_rows(indexes: Integers, count: int) -> tuple[Integers, Integers]:
    """Rows sorted by queue, each queue's in their order, and where each queue's begin.

    Returns:
        The row numbers, and ``count + 1`` bounds into them.
    """
    order = np.argsort(indexes, kind="stable")
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(indexes, minlength=count), out=bounds[1:])
    return order, bounds


def _utf16_units(keys: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint32]], Integers]:
    """All UTF-16 code units, one key after the other, and how many each key has."""
    counts = lengths(keys)
    octets = _octets(keys, int(counts.sum()))
    if not (octets >= 0x80).any():
        return octets.astype(np.uint32), counts
    text = octets.tobytes().decode()
    units = np.frombuffer(text.encode("utf-16-le"), "<u2").astype(np.uint32)
    # A character of four bytes is two units, any other one; the bytes inside count nothing.
    per_byte = ((octets & 0xC0) != 0x80).astype(np.int64) + (octets >= 0xF0)
    before = np.concatenate([[0], np.cumsum(per_byte)])
    ends = np.cumsum(counts)
    return units, before[ends] - before[ends - counts]


def _octets(keys: pa.Array, size: int) -> Octets:
    if size == 0:
        return np.empty(0, np.uint8)
    _, offsets, data = keys.buffers()
    (start,) = np.frombuffer(offsets, np.int32, 1, 4 * keys.offset)
    return np.frombuffer(data, np.uint8, size, int(start))
