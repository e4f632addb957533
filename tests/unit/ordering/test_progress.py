"""One queue through a consumer: in order, one batch at a time, drained before it is given up."""

import pytest

from rmq_ordered.errors import LocalProtocolError, QueueGap
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.progress import Phase, QueueProgress

QUEUE = MessageQueue("orders", "broker-a", 0)


def progress(start: int = 10) -> QueueProgress[str]:
    return QueueProgress(QUEUE, start)


def fetch(one: QueueProgress[str], *offsets: int, next_offset: int | None = None) -> None:
    items = [(offset, f"m{offset}") for offset in offsets]
    one.fetched(items, offsets[-1] + 1 if next_offset is None else next_offset)


def test_batches_come_in_order_and_offsets_follow_what_was_handled() -> None:
    one = progress()
    fetch(one, 10, 11, 12)
    assert (one.pull_offset, one.commit_offset, one.buffered) == (13, 10, 3)
    assert one.begin(0, 2) == ["m10", "m11"]
    assert one.begin(0, 2) is None, "one at a time"
    fetch(one, 13)
    assert one.commit_offset == 10
    one.finished()
    assert one.commit_offset == 12
    assert one.begin(0, 9) == ["m12", "m13"]
    one.finished()
    assert (one.commit_offset, one.buffered) == (14, 0)
    assert one.begin(0, 9) is None


def test_what_the_filter_left_out_is_done_with() -> None:
    one = progress()
    one.fetched([], 15)
    assert (one.pull_offset, one.commit_offset) == (15, 15)
    fetch(one, 17, next_offset=20)
    assert one.commit_offset == 15
    assert one.begin(0, 1) == ["m17"]
    one.fetched([], 25)
    assert one.commit_offset == 15, "a batch is at work"
    one.finished()
    assert one.commit_offset == 25


def test_a_refused_batch_is_the_next_one_again_after_its_pause() -> None:
    one = progress()
    fetch(one, 10, 11, 12)
    assert one.begin(100, 1) == ["m10"]
    one.refused(100, 50)
    assert (one.attempt, one.commit_offset, one.next_work_ms()) == (1, 10, 150)
    assert one.begin(149, 5) is None
    assert one.begin(150, 5) == ["m10"], "the same batch, not a larger one"
    one.finished()
    assert (one.attempt, one.commit_offset) == (0, 11)
    assert one.begin(150, 5) == ["m11", "m12"]


def test_a_queue_that_is_given_up_while_idle_has_stopped_at_once() -> None:
    one = progress()
    fetch(one, 10, 11)
    one.stop()
    assert (one.phase, one.is_ending, one.commit_offset) == (Phase.STOPPED, True, 10)
    assert one.begin(0, 1) is None
    fetch(one, 10)
    assert one.buffered == 0
    one.stop()


def test_a_queue_that_is_given_up_at_work_is_drained_first() -> None:
    one = progress()
    fetch(one, 10, 11, 12)
    one.begin(0, 1)
    one.stop()
    assert (one.phase, one.is_ending) == (Phase.DRAINING, True)
    one.stop()
    one.finished()
    assert (one.phase, one.commit_offset) == (Phase.STOPPED, 11)


def test_a_batch_refused_while_draining_is_not_done() -> None:
    one = progress()
    fetch(one, 10)
    one.begin(0, 1)
    one.stop()
    one.refused(0, 5)
    assert (one.phase, one.commit_offset) == (Phase.STOPPED, 10)


@pytest.mark.parametrize("offsets", [(9,), (11, 11), (12, 11), (20,)])
def test_answers_that_go_back_or_beyond_their_end_are_refused(offsets: tuple[int, ...]) -> None:
    with pytest.raises(QueueGap, match="orders@broker-a#0"):
        fetch(progress(), *offsets, next_offset=20)


def test_of_an_answer_that_is_refused_nothing_is_kept() -> None:
    one = progress()
    for _ in range(2):
        with pytest.raises(QueueGap):
            fetch(one, 10, 11, 11, next_offset=20)
    assert (one.buffered, one.pull_offset) == (0, 10)
    fetch(one, 10, 11)
    assert one.begin(0, 5) == ["m10", "m11"]
    one.finished()
    assert one.commit_offset == 12


def test_what_the_state_does_not_allow_is_an_error_with_both_names() -> None:
    one = progress()
    with pytest.raises(LocalProtocolError, match="cannot finish a batch while idle"):
        one.finished()
    one.stop()
    with pytest.raises(LocalProtocolError, match="cannot suspend a batch while stopped"):
        one.refused(0, 0)
