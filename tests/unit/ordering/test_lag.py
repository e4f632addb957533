"""Lag: unread messages, their age, and queues that stand still."""

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.lag import LagTracker, QueueLag

A, B = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


def test_a_reader_at_the_end_has_nothing_unread() -> None:
    assert LagTracker(60_000).observe({A: 5}, {A: 5}, 1_000) == [QueueLag(A, 5, 0, 0, False)]


def test_messages_are_as_old_as_the_look_that_first_saw_them() -> None:
    tracker = LagTracker(60_000)
    tracker.observe({A: 5}, {A: 8}, 1_000)
    assert tracker.observe({A: 5}, {A: 20}, 4_000) == [QueueLag(A, 5, 15, 3_000, False)]
    # Those that were seen first are read: the oldest unread one was seen at 4,000.
    assert tracker.observe({A: 8}, {A: 20}, 6_000) == [QueueLag(A, 8, 12, 2_000, False)]
    assert tracker.observe({A: 20}, {A: 20}, 7_000) == [QueueLag(A, 20, 0, 0, False)]


def test_a_queue_that_does_not_move_although_it_could_is_stalled() -> None:
    tracker = LagTracker(60_000)
    tracker.observe({A: 5, B: 0}, {A: 8, B: 9}, 0)
    lags = tracker.observe({A: 5, B: 3}, {A: 8, B: 9}, 60_000)
    assert [(lag.queue, lag.is_stalled) for lag in lags] == [(A, True), (B, False)]


def test_a_quiet_queue_is_not_stalled_when_something_arrives_at_last() -> None:
    tracker = LagTracker(60_000)
    tracker.observe({A: 5}, {A: 5}, 0)
    (lag,) = tracker.observe({A: 5}, {A: 6}, 500_000)
    assert not lag.is_stalled


def test_a_queue_of_which_no_end_is_told_is_left_out_and_begins_anew() -> None:
    tracker = LagTracker(60_000)
    tracker.observe({A: 5, B: 0}, {A: 8, B: 0}, 0)
    assert [lag.queue for lag in tracker.observe({A: 5, B: 0}, {B: 0}, 30_000)] == [B]
    lags = tracker.observe({A: 5, B: 0}, {A: 9, B: 0}, 60_000)
    assert lags[0] == QueueLag(A, 5, 4, 0, False)


def test_memory_is_bounded_while_a_queue_is_behind_for_ever() -> None:
    tracker = LagTracker(60_000)
    for look in range(5_000):
        (lag,) = tracker.observe({A: 0}, {A: look + 1}, look)
    assert lag.oldest_unread_ms == 4_999
    assert len(tracker._seen[A].looks) <= 1_001
