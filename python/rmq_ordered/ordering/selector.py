"""From a sharding key to a queue, exactly as Apache's ``SelectMessageQueueByHash`` does it in Java.

The same key must land in the same queue whether a Java producer or this sink sends it, so the hash
is Java's ``String.hashCode`` over UTF-16 code units, lone surrogates included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = 0xFFFF_FFFF
_SIGN: Final = 0x8000_0000


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


def select_by_hash(queues: Sequence[T], key: str) -> T:
    """The queue of a key, from the list in RocketMQ's order."""
    return queues[hash_index(key, len(queues))]
