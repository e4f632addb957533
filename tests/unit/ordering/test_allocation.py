"""Sharing out queues as Java's strategies do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.allocation import Allocate, allocate_averagely, allocate_by_circle

STRATEGIES = pytest.mark.parametrize("allocate", [allocate_averagely, allocate_by_circle])


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("orders", "broker-a", number) for number in range(count)]


def ids(found: tuple[MessageQueue, ...]) -> list[int]:
    return [queue.queue_id for queue in found]


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [
        (4, "a", [[0, 1, 2, 3]]),
        (4, "ab", [[0, 1], [2, 3]]),
        (8, "abc", [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (10, "abcd", [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (2, "abc", [[0], [1], []]),
    ],
)
def test_averagely_gives_neighbours_and_the_first_members_more(
    count: int, members: str, expected: list[list[int]]
) -> None:
    assert [ids(allocate_averagely(queues(count), members, me)) for me in members] == expected


def test_by_circle_deals_queues_out_one_by_one() -> None:
    found = [ids(allocate_by_circle(queues(8), "abc", me)) for me in "abc"]
    assert found == [[0, 3, 6], [1, 4, 7], [2, 5]]


@STRATEGIES
def test_who_is_not_a_member_gets_nothing(allocate: Allocate) -> None:
    assert allocate(queues(4), ["a", "b"], "c") == ()
    assert allocate(queues(4), [], "c") == ()


@STRATEGIES
@given(count=st.integers(0, 40), members=st.sets(st.text("abc#@1", min_size=1), min_size=1))
def test_every_queue_goes_to_one_member_whatever_order_the_lists_have(
    allocate: Allocate, count: int, members: set[str]
) -> None:
    shuffled = list(reversed(queues(count)))
    given_out = [queue for me in members for queue in allocate(shuffled, list(members), me)]
    assert sorted(given_out) == queues(count)
    shares = [len(allocate(shuffled, list(members), me)) for me in members]
    assert max(shares) - min(shares) <= 1
