"""One queue's sends: one in flight, repeated in place, given up after a while."""

import pytest

from rmq_ordered.errors import BrokerBusy, BrokerError, LocalProtocolError, RequestTimedOut
from rmq_ordered.ordering.sequencer import QueueSequencer

BUSY = BrokerBusy("b:1", "a send", 2, "flow control")
FINAL = BrokerError("b:1", "a send", 13, "too large")


def sequencer(*batches: str, patience_ms: int = 10_000) -> QueueSequencer[str]:
    return QueueSequencer(patience_ms, batches)


def test_nothing_to_send_is_done_at_once() -> None:
    empty = sequencer()
    assert empty.is_done
    assert empty.take(0) is None


def test_a_batch_leaves_only_when_the_one_before_has_landed() -> None:
    sends = sequencer("a", "b")
    assert sends.take(0) == "a"
    assert sends.is_in_flight
    assert sends.take(0) is None
    sends.landed()
    assert not sends.is_in_flight
    assert sends.take(0) == "b"
    sends.landed()
    assert sends.is_done
    assert sends.take(0) is None


@pytest.mark.parametrize("error", [BUSY, RequestTimedOut("b:1", "a send", 3_000)])
def test_a_batch_that_may_be_tried_again_is_not_overtaken(error: BrokerError) -> None:
    sends = sequencer("a", "b")
    sends.take(0)
    sends.failed(error, 100)
    assert sends.not_before_ms == 120
    assert sends.take(119) is None
    assert sends.take(120) == "a"
    sends.landed()
    assert sends.take(120) == "b"


def test_pauses_grow_up_to_a_second_and_start_again_after_success() -> None:
    sends = sequencer("a", "b", patience_ms=1_000_000)
    now, pauses = 0, []
    for _ in range(8):
        sends.take(now)
        sends.failed(BUSY, now)
        pauses.append(sends.not_before_ms - now)
        now = sends.not_before_ms
    assert pauses == [20, 40, 80, 160, 320, 640, 1_000, 1_000]
    sends.take(now)
    sends.landed()
    sends.take(now)
    sends.failed(BUSY, now)
    assert sends.not_before_ms == now + 20


def test_an_error_that_is_final_is_raised_at_once() -> None:
    sends = sequencer("a")
    sends.take(0)
    with pytest.raises(BrokerError, match="too large"):
        sends.failed(FINAL, 0)
    assert not sends.is_done, "the batch has not landed"


def test_patience_is_counted_from_the_first_failure_of_the_batch() -> None:
    sends = sequencer("a", "b", patience_ms=1_000)
    sends.take(0)
    sends.failed(BUSY, 500)
    sends.take(1_400)
    sends.failed(BUSY, 1_499)
    sends.take(1_600)
    with pytest.raises(BrokerBusy):
        sends.failed(BUSY, 1_500)


def test_patience_begins_anew_with_every_batch() -> None:
    sends = sequencer("a", "b", patience_ms=1_000)
    sends.take(0)
    sends.failed(BUSY, 0)
    sends.take(900)
    sends.landed()
    sends.take(900)
    sends.failed(BUSY, 1_500)
    assert sends.take(1_520) == "b"


def test_an_outcome_of_nothing_in_flight_is_a_bug_of_ours() -> None:
    sends = sequencer("a")
    with pytest.raises(LocalProtocolError, match="no batch of this queue is in flight"):
        sends.landed()
    with pytest.raises(LocalProtocolError):
        sends.failed(BUSY, 0)


def test_batches_may_come_in_while_others_leave() -> None:
    sends = sequencer()
    sends.add("a")
    assert sends.take(0) == "a"
    sends.add("b")
    assert sends.take(0) is None
    assert sends.landed() == "a"
    assert sends.take(0) == "b"


def test_a_batch_can_be_kept_untouched_for_longer_than_the_pause() -> None:
    sends = sequencer("a")
    sends.take(0)
    sends.failed(BUSY, 100, at_least_ms=1_000)
    assert sends.take(1_099) is None
    assert sends.take(1_100) == "a"


def test_everything_can_begin_again_in_the_same_order() -> None:
    sends = sequencer("a", "b", "c")
    sends.take(0)
    left = [sends.landed()]
    sends.take(0)
    sends.begin_again(left)
    order = []
    while (batch := sends.take(0)) is not None:
        order.append(batch)
        sends.landed()
    assert order == ["a", "b", "c"]


def test_a_batch_that_is_on_its_way_already_is_not_sent_again() -> None:
    sends = QueueSequencer(1_000, ["a"])
    sends.resume()
    assert sends.take(0) is None
    assert sends.landed() == "a"


def test_the_first_batch_may_have_to_wait() -> None:
    sends = QueueSequencer(1_000, ["a"], not_before_ms=500)
    assert sends.take(499) is None
    assert sends.take(500) == "a"


def test_patience_can_begin_anew() -> None:
    sends = QueueSequencer(1_000, ["a"])
    sends.take(0)
    sends.failed(BUSY, 0)
    sends.be_patient_again()
    sends.take(5_000)
    sends.failed(BUSY, 5_000)
    sends.take(6_000)
    with pytest.raises(BrokerBusy):
        sends.failed(BUSY, 6_000)
