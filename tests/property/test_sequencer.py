"""The sequencer under any sequence of outcomes: what landed is always a prefix, in order."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.examples import examples

from rmq_ordered.errors import BrokerBusy, BrokerError, ConnectionLost, LocalProtocolError
from rmq_ordered.ordering.sequencer import QueueSequencer

PATIENCE_MS = 5_000
RETRYABLE = [BrokerBusy("b:1", "a send", 2, None), ConnectionLost("b:1", "reset")]
FINAL = BrokerError("b:1", "a send", 13, None)


class SequencerMachine(RuleBasedStateMachine):
    """The model is a list of batches and how many of them have landed."""

    @initialize(count=st.integers(0, 8))
    def begin(self, count: int) -> None:
        self.batches = list(range(count))
        self.sends = QueueSequencer(PATIENCE_MS, self.batches)
        self.landed: list[int] = []
        self.in_flight: int | None = None
        self.now_ms = 0
        self.first_failure_ms: int | None = None

    @rule(duration_ms=st.integers(0, 2_000))
    def advance(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    @rule()
    def take(self) -> None:
        batch = self.sends.take(self.now_ms)
        may_send = self.in_flight is None and self.now_ms >= self.sends.not_before_ms
        if may_send and len(self.landed) < len(self.batches):
            assert batch == self.batches[len(self.landed)], "the first that has not landed"
            self.in_flight = batch
        else:
            assert batch is None

    @precondition(lambda self: self.in_flight is not None)
    @rule()
    def land(self) -> None:
        self.sends.landed()
        assert self.in_flight is not None
        self.landed.append(self.in_flight)
        self.in_flight = self.first_failure_ms = None

    @precondition(lambda self: self.in_flight is not None)
    @rule(error=st.sampled_from(RETRYABLE))
    def fail(self, error: BrokerBusy | ConnectionLost) -> None:
        self.in_flight = None
        first = self.now_ms if self.first_failure_ms is None else self.first_failure_ms
        self.first_failure_ms = first
        if self.now_ms - first >= PATIENCE_MS:
            with pytest.raises(type(error)):
                self.sends.failed(error, self.now_ms)
        else:
            self.sends.failed(error, self.now_ms)
            assert 20 <= self.sends.not_before_ms - self.now_ms <= 1_000

    @precondition(lambda self: self.in_flight is not None)
    @rule()
    def fail_for_good(self) -> None:
        with pytest.raises(BrokerError):
            self.sends.failed(FINAL, self.now_ms)
        self.in_flight = None
        if self.first_failure_ms is None:
            self.first_failure_ms = self.now_ms

    @precondition(lambda self: self.in_flight is None)
    @rule()
    def report_without_a_send(self) -> None:
        with pytest.raises(LocalProtocolError):
            self.sends.landed()

    @invariant()
    def what_landed_is_a_prefix(self) -> None:
        assert self.landed == self.batches[: len(self.landed)]
        assert self.sends.is_done == (len(self.landed) == len(self.batches))
        assert self.sends.is_in_flight == (self.in_flight is not None)


def test_what_landed_is_always_a_prefix_in_order() -> None:
    search = settings(max_examples=examples(150), stateful_step_count=40)
    run_state_machine_as_test(SequencerMachine, settings=search)
