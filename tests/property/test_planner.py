"""Plans: within the limit, never beyond what is there, nobody starved, always the same."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.promises import proves

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.planner import Limits, plan_end

queues = st.builds(
    MessageQueue, st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.integers(0, 5)
)
offsets = st.integers(0, 30) | st.integers(0, 2**62)
positions = st.dictionaries(queues, offsets, max_size=12)
limits = st.integers(1, 40) | st.integers(1, 2**63)


def planned(
    start: dict[MessageQueue, int], end: dict[MessageQueue, int]
) -> dict[MessageQueue, int]:
    return {queue: end[queue] - start.get(queue, 0) for queue in end}


def backlog(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int]
) -> dict[MessageQueue, int]:
    return {queue: max(0, end - start.get(queue, 0)) for queue, end in latest.items()}


@given(positions, positions, st.none() | limits)
def test_no_queue_goes_back_or_beyond_its_latest_offset(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int], limit: int | None
) -> None:
    end = plan_end(start, latest, Limits(limit))
    assert set(end) == set(start) | set(latest)
    for queue, position in end.items():
        first = start.get(queue, 0)
        assert first <= position <= max(first, latest.get(queue, 0))


@proves("offset-limit-fair")
@given(positions, positions, limits)
def test_a_batch_has_as_many_offsets_as_the_limit_allows_and_no_more(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int], limit: int
) -> None:
    taken = sum(planned(start, plan_end(start, latest, Limits(limit))).values())
    assert taken == min(limit, sum(backlog(start, latest).values()))


@given(positions, positions)
def test_without_a_limit_everything_is_taken(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int]
) -> None:
    shares = planned(start, plan_end(start, latest, Limits()))
    assert {queue: shares[queue] for queue in latest} == backlog(start, latest)


@given(positions, positions, limits)
def test_every_queue_with_a_backlog_gets_something_if_the_limit_reaches(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int], limit: int
) -> None:
    shares = planned(start, plan_end(start, latest, Limits(limit)))
    waiting = [queue for queue, count in backlog(start, latest).items() if count]
    served = [queue for queue in waiting if shares[queue]]
    assert len(served) >= min(limit, len(waiting))


@given(positions, positions, limits)
def test_a_larger_backlog_never_gets_less(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int], limit: int
) -> None:
    shares = planned(start, plan_end(start, latest, Limits(limit)))
    waiting = backlog(start, latest)
    for queue in waiting:
        for other in waiting:
            # With fewer offsets than queues they take turns.
            if waiting[queue] > waiting[other] and limit >= len(waiting):
                assert shares[queue] >= shares[other]


@given(positions, positions, limits, st.randoms(use_true_random=False))
def test_the_same_question_has_the_same_answer_in_any_order(
    start: dict[MessageQueue, int], latest: dict[MessageQueue, int], limit: int, random: object
) -> None:
    shuffled = list(latest.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan_end(start, dict(shuffled), Limits(limit)) == plan_end(start, latest, Limits(limit))


@given(positions, limits)
def test_repeated_batches_reach_the_end_of_every_queue(
    latest: dict[MessageQueue, int], limit: int
) -> None:
    latest = {queue: end % 100 for queue, end in latest.items()}
    position: dict[MessageQueue, int] = {}
    for _ in range(sum(latest.values()) // limit + 1):
        position = plan_end(position, latest, Limits(limit))
    assert position == latest


@proves("offset-limit-fair")
@given(positions, st.integers(1, 5))
def test_no_queue_waits_longer_than_every_other_queue_had_its_turn(
    latest: dict[MessageQueue, int], limit: int
) -> None:
    ends = dict.fromkeys(latest, 10000)
    position = dict.fromkeys(ends, 0)
    for _ in range(len(ends)):
        position = plan_end(position, ends, Limits(limit))
    assert all(position.values())


@given(positions, positions, limits, st.integers(1, 10_000), st.floats(0.5, 5_000))
def test_bytes_are_kept_but_for_one_message_of_each_queue(
    start: dict[MessageQueue, int],
    latest: dict[MessageQueue, int],
    limit: int,
    max_bytes: int,
    record_bytes: float,
) -> None:
    sizes = {"a": record_bytes, "b": record_bytes}
    unlimited = planned(start, plan_end(start, latest, Limits(limit)))
    shares = planned(start, plan_end(start, latest, Limits(limit, max_bytes, sizes)))
    assert all(shares[queue] <= unlimited[queue] for queue in shares)
    assert all(bool(shares[queue]) == bool(unlimited[queue]) for queue in latest)
    beyond_one = sum(share - 1 for share in shares.values() if share)
    assert beyond_one * record_bytes <= max_bytes * 1.001
