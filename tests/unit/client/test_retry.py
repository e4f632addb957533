"""The one retry loop, on a clock moved by hand."""

import pytest

from rmq_ordered.client.retry import retry_until
from rmq_ordered.errors import BrokerBusy, BrokerError, ConnectionLost, RmqOrderedError
from rmq_ordered.testing import ManualClock

LOST = ConnectionLost("b:1", "reset")


class Attempts:
    """Fails with the given errors, one after another, then succeeds."""

    def __init__(self, *errors: RmqOrderedError) -> None:
        self.errors = list(errors)
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(monotonic_ms=0)


def test_success_is_given_back_at_once(clock: ManualClock) -> None:
    assert retry_until(clock, 1_000, Attempts()) == "done"
    assert clock.pauses == []


def test_what_may_be_tried_again_is_tried_again(clock: ManualClock) -> None:
    attempts = Attempts(LOST, BrokerBusy("b:1", "a pull", 2, None), LOST)
    assert retry_until(clock, 10_000, attempts) == "done"
    assert attempts.count == 4
    assert clock.pauses == [50, 100, 200]


def test_pauses_grow_up_to_a_second(clock: ManualClock) -> None:
    retry_until(clock, 100_000, Attempts(*[LOST] * 8))
    assert clock.pauses == [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]


def test_a_final_error_is_raised_at_once(clock: ManualClock) -> None:
    attempts = Attempts(BrokerError("b:1", "a pull", 26, None))
    with pytest.raises(BrokerError):
        retry_until(clock, 10_000, attempts)
    assert attempts.count == 1


def test_the_last_error_is_raised_when_the_deadline_would_pass_in_the_pause(
    clock: ManualClock,
) -> None:
    attempts = Attempts(*[LOST] * 100)
    with pytest.raises(ConnectionLost):
        retry_until(clock, 1_000, attempts)
    assert clock.monotonic_ms() < 1_000
    assert attempts.count == 5, "at 0, 50, 150, 350 and 750 ms"
