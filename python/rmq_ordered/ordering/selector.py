"""From a sharding key to a queue, exactly as Java does it.

The same key must land in the same queue whether a Java producer or this sink sends it. ``hash`` is
Apache's ``SelectMessageQueueByHash`` over ``String.hashCode`` (UTF-16 code units, lone surrogates
included); ``consistent`` is what the RocketMQ 5 proxy does with a FIFO message group: Guava's
``Hashing.consistentHash`` of the same hash code. ``rmq_ordered.columnar.routing`` does the same for
whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = 0xFFFF_FFFF
_SIGN: Final = 0x8000_0000
_MASK_64: Final = 0xFFFF_FFFF_FFFF_FFFF
# Of Guava's linear congruential generator (Hashing.LinearCongruentialGenerator).
CONSISTENT_FACTOR: Final = 2_862_933_555_777_941_757
CONSISTENT_SHIFT: Final = 33
CONSISTENT_SCALE: Final = float(2**31)


def java_string_hash(text: str) -> int:
    """``String.hashCode``: s[0]*31^(n-1) + ... + s[n-1] in wrapping 32-bit arithmetic."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & _MASK
    return (value ^ _SIGN) - _SIGN


def hash_index(key: str, count: int) -> int:
    """The index Java picks among ``count`` queues: the absolute value of the remainder.

    Java takes the remainder first, with the sign of the dividend, then ``Math.abs``. In Python that
    is the remainder of the absolute value; a plain ``%`` would be floor-mod and put negative hashes
    elsewhere.
    """
    return abs(java_string_hash(key)) % count


def consistent_index(key: str, count: int) -> int:
    """The index the RocketMQ 5 proxy picks for a message group among ``count`` queues."""
    state = java_string_hash(key) & _MASK_64
    candidate = 0
    while True:
        state = (state * CONSISTENT_FACTOR + 1) & _MASK_64
        fraction = ((state >> CONSISTENT_SHIFT) + 1) / CONSISTENT_SCALE
        following = int((candidate + 1) / fraction)
        if following >= count:
            return candidate
        candidate = following


def select_by_hash(queues: Sequence[T], key: str) -> T:
    """The queue of a key, from the list in RocketMQ's order."""
    return queues[hash_index(key, len(queues))]


def select_consistently(queues: Sequence[T], key: str) -> T:
    """The queue of a message group, from the list in RocketMQ's order."""
    return queues[consistent_index(key, len(queues))]
