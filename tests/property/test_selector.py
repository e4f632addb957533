"""The selector against the definition of Java's hash, written differently."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.ordering.selector import hash_index, java_string_hash, select_by_hash


def by_definition(text: str) -> int:
    """s[0]*31^(n-1) + ... + s[n-1] over UTF-16 units, taken modulo 2^32 once, at the end."""
    raw = text.encode("utf-16-be", "surrogatepass")
    units = [256 * raw[i] + raw[i + 1] for i in range(0, len(raw), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - i) for i, unit in enumerate(units)) % 2**32
    return total - 2**32 if total >= 2**31 else total


def java_remainder(value: int, count: int) -> int:
    """Java's ``%``: the sign of the dividend."""
    return int(math.fmod(value, count))


@given(st.text())
def test_the_hash_is_java_s_by_definition(key: str) -> None:
    assert java_string_hash(key) == by_definition(key)


@given(st.text(), st.integers(1, 1_024))
def test_the_index_is_the_absolute_value_of_java_s_remainder(key: str, count: int) -> None:
    index = hash_index(key, count)
    assert 0 <= index < count
    assert index == abs(java_remainder(java_string_hash(key), count))


@given(st.text(), st.lists(st.integers(), min_size=1))
def test_a_key_always_has_the_same_queue(key: str, queues: list[int]) -> None:
    assert select_by_hash(queues, key) == queues[hash_index(key, len(queues))]
