"""How far a batch goes: literal in, literal out."""

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.planner import Limits, is_held_back, plan_end

A, B, C = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))


def test_without_a_limit_everything_is_read() -> None:
    assert plan_end({A: 5, B: 0}, {A: 10, B: 3}, Limits()) == {A: 10, B: 3}


def test_a_limit_above_the_backlog_changes_nothing() -> None:
    assert plan_end({A: 5, B: 0}, {A: 10, B: 3}, Limits(8)) == {A: 10, B: 3}


def test_a_limit_is_split_pro_rata_to_the_backlog() -> None:
    assert plan_end({A: 0, B: 0, C: 0}, {A: 600, B: 300, C: 100}, Limits(100)) == {
        A: 60,
        B: 30,
        C: 10,
    }


def test_a_small_queue_beside_a_huge_one_is_not_starved() -> None:
    assert plan_end({A: 0, B: 0}, {A: 1_000_000, B: 1}, Limits(10)) == {A: 9, B: 1}


def test_what_rounding_leaves_goes_to_the_largest_backlog() -> None:
    assert plan_end({A: 0, B: 0, C: 0}, {A: 10, B: 11, C: 10}, Limits(4)) == {A: 1, B: 2, C: 1}


def test_with_a_limit_below_the_number_of_queues_they_take_turns() -> None:
    latest = {A: 5, B: 9, C: 7}
    assert plan_end({A: 0, B: 0, C: 0}, latest, Limits(2)) == {A: 1, B: 1, C: 0}
    assert plan_end({A: 1, B: 1, C: 0}, latest, Limits(2)) == {A: 2, B: 1, C: 1}


def test_a_new_queue_is_read_from_its_beginning() -> None:
    assert plan_end({A: 5}, {A: 5, B: 3}, Limits()) == {A: 5, B: 3}


def test_a_queue_that_the_broker_no_longer_lists_stays_where_it_is() -> None:
    assert plan_end({A: 5, B: 7}, {A: 6}, Limits()) == {A: 6, B: 7}


def test_a_queue_that_went_back_stays_where_it_is() -> None:
    assert plan_end({A: 50, B: 0}, {A: 10, B: 5}, Limits(3)) == {A: 50, B: 3}


def test_nothing_new_plans_the_start_again() -> None:
    assert plan_end({A: 5}, {A: 5}, Limits(10)) == {A: 5}
    assert plan_end({}, {}, Limits(10)) == {}


def test_bytes_cut_every_queue_in_the_same_proportion() -> None:
    limits = Limits(None, 50_000, {"orders": 100.0})
    assert plan_end({A: 0, B: 10}, {A: 600, B: 410}, limits) == {A: 300, B: 210}


def test_a_message_larger_than_the_limit_of_bytes_is_read_all_the_same() -> None:
    limits = Limits(None, 50_000, {"orders": 10.0**6})
    assert plan_end({A: 0, B: 0}, {A: 600, B: 400}, limits) == {A: 1, B: 1}


def test_without_an_estimate_bytes_are_not_limited() -> None:
    assert plan_end({A: 0}, {A: 600}, Limits(None, 1, {})) == {A: 600}


def test_a_small_backlog_is_held_back_until_the_delay_is_over() -> None:
    assert is_held_back(5, 10, 999, 1_000)
    assert not is_held_back(5, 10, 1_000, 1_000)
    assert not is_held_back(10, 10, 0, 1_000)
    assert not is_held_back(5, None, 0, 1_000)
    assert not is_held_back(0, 10, 0, 1_000)
