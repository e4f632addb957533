"""The offset of a popping query: exactly what was popped, as text that lasts."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue, QueueRange
from rmq_ordered.ordering.popped import (
    PopBound,
    PoppedOffset,
    decode_popped,
    encode_popped,
    is_popped,
    spans_of,
)

ORDERS = MessageQueue("orders", "broker-a", 1)
RETRIES = MessageQueue("%RETRY%billing+orders", "broker-a", 0)
OFFSET = PoppedOffset(
    3, "billing", "pop@here#1#ab", {ORDERS: ((5, 9), (12, 13)), RETRIES: ((0, 1),)}
)
TEXT = (
    '{"batch": 3, "group": "billing", "popped": '
    '{"%RETRY%billing+orders": {"broker-a": {"0": [[0, 1]]}}, '
    '"orders": {"broker-a": {"1": [[5, 9], [12, 13]]}}}, '
    '"run": "pop@here#1#ab", "version": 1}'
)

queues = st.builds(
    MessageQueue,
    st.sampled_from(["orders", "%RETRY%g_orders", "%RETRY%g+orders"]),
    st.sampled_from(["broker-a", "broker-b"]),
    st.integers(0, 7),
)
offsets = st.builds(
    PoppedOffset,
    st.integers(0, 2**40),
    st.just("g"),
    st.text(max_size=10),
    st.dictionaries(queues, st.sets(st.integers(0, 60), min_size=1).map(spans_of), max_size=5),
)


def test_the_text_is_the_documented_one_and_comes_back() -> None:
    assert json.dumps(encode_popped(OFFSET)) == TEXT
    assert decode_popped(json.loads(TEXT)) == OFFSET
    assert is_popped(json.loads(TEXT))


@given(offsets)
def test_an_offset_survives_spark_s_log(offset: PoppedOffset) -> None:
    text = json.dumps(encode_popped(offset))
    assert decode_popped(json.loads(text)) == offset
    assert json.dumps(encode_popped(decode_popped(json.loads(text)))) == text


@given(st.lists(st.integers(0, 80)))
def test_spans_hold_exactly_the_offsets_and_never_touch(popped: list[int]) -> None:
    spans = spans_of(popped)
    held = [offset for first, last in spans for offset in range(first, last)]
    assert held == sorted(set(popped))
    assert all(after[0] > before[1] for before, after in pairwise(spans))


def test_the_ranges_are_in_order_queue_by_queue() -> None:
    assert OFFSET.ranges == {
        RETRIES: (QueueRange(RETRIES, 0, 1),),
        ORDERS: (QueueRange(ORDERS, 5, 9), QueueRange(ORDERS, 12, 13)),
    }
    assert list(OFFSET.ranges) == [RETRIES, ORDERS]


@pytest.mark.parametrize(
    "change",
    [
        {"popped": {"orders": {"broker-a": {"1": [[5, 5]]}}}},
        {"popped": {"orders": {"broker-a": {"1": [[5, 9], [8, 12]]}}}},
        {"popped": {"orders": {"broker-a": {"1": [5, 9]}}}},
        {"popped": {"orders": {"broker-a": {"one": [[5, 9]]}}}},
        {"popped": ["orders"]},
        {"batch": -1},
        {"batch": True},
        {"group": None},
        {"run": 7},
    ],
)
def test_what_nobody_wrote_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="offsets like"):
        decode_popped(encode_popped(OFFSET) | change)


def test_a_checkpoint_of_another_mode_or_a_newer_version_is_refused() -> None:
    with pytest.raises(OptionError, match="of consumeMode=pop; use another checkpoint folder"):
        decode_popped({"topics": {}, "version": 1})
    with pytest.raises(OptionError, match="newer rmq-ordered"):
        decode_popped(encode_popped(OFFSET) | {"version": 2})


HERE, THERE = ("orders", "broker-a"), ("orders", "broker-b")


def test_a_place_is_over_when_nothing_is_there() -> None:
    bound = PopBound()
    bound.nothing_came(HERE)
    assert not bound.is_open(HERE)
    assert bound.is_open(THERE)


def test_a_place_is_over_when_only_younger_messages_come_for_long_enough() -> None:
    bound = PopBound()
    bound.came(HERE, 2, [(1_000, 1_000)])
    for _ in range(15):
        bound.came(HERE, 2, [(2_000, 1_001), (2_000, 2_000)])
    assert bound.is_open(HERE)
    bound.came(HERE, 2, [(2_000, 1_001), (2_000, 999)])
    for _ in range(15):
        bound.came(HERE, 2, [(3_000, 2_500)])
    assert bound.is_open(HERE)
    bound.came(HERE, 2, [(3_000, 2_500)])
    assert not bound.is_open(HERE)


def test_each_broker_s_own_first_pop_counts() -> None:
    bound = PopBound()
    bound.came(HERE, 1, [(1_000, 500)])
    bound.came(THERE, 1, [(9_000, 8_000)])
    for _ in range(8):
        bound.came(HERE, 1, [(9_500, 8_000)])
        bound.came(THERE, 1, [(9_500, 8_000)])
    assert not bound.is_open(HERE)
    assert bound.is_open(THERE)
