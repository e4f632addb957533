"""The pull window against a broker with arbitrary caps and filters: every offset exactly once."""

from collections import deque

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
from tests.support.promises import proves

from rmq_ordered.ordering.window import PullWindow


class PullWindowMachine(RuleBasedStateMachine):
    """The model knows only which pulls are in flight and what was delivered so far."""

    @initialize(
        start=st.integers(0, 1_000),
        length=st.integers(0, 300),
        step=st.integers(1, 64),
        depth=st.integers(1, 16),
    )
    def begin(self, start: int, length: int, step: int, depth: int) -> None:
        self.start, self.end, self.depth, self.largest = start, start + length, depth, step
        self.window = PullWindow(start, self.end, step, depth)
        self.in_flight: deque[tuple[int, int]] = deque()
        self.covered: list[int] = []

    @rule()
    def send(self) -> None:
        for offset, count in self.window.next_pulls():
            assert count >= 1
            assert self.start <= offset < offset + count <= self.end
            if self.in_flight:
                before, asked = self.in_flight[-1]
                assert offset >= before + asked, "pulls follow one another without overlap"
                assert count <= self.largest
            else:
                assert offset == self.window.position
            self.in_flight.append((offset, count))

    @precondition(lambda self: self.in_flight)
    @rule(cap=st.integers(1, 64), skipped=st.integers(0, 40))
    def answer(self, cap: int, skipped: int) -> None:
        """The broker gives up to ``cap`` offsets; a filter may make it look ``skipped`` further."""
        offset, count = self.in_flight.popleft()
        assert offset == self.window.oldest
        assert offset <= self.window.position, "an answer never leaves a hole before it"
        reached = offset + min(cap, count) + skipped
        self.covered += range(self.window.position, min(reached, self.end))
        for _ in range(self.window.answered(reached)):
            self.in_flight.popleft()

    @invariant()
    def every_offset_came_once_and_in_order(self) -> None:
        assert self.covered == list(range(self.start, self.window.position))
        assert self.window.position <= self.end or self.start == self.end

    @invariant()
    def no_more_pulls_are_in_flight_than_allowed(self) -> None:
        assert len(self.in_flight) <= self.depth

    @invariant()
    def there_is_always_a_way_to_go_on(self) -> None:
        if not self.window.is_done and not self.in_flight:
            self.send()
            assert self.in_flight

    def teardown(self) -> None:
        """Whatever happened so far, a plain broker brings the rest."""
        if not hasattr(self, "window"):
            return
        while not self.window.is_done:
            if not self.in_flight:
                self.send()
            self.answer(cap=7, skipped=0)
            self.every_offset_came_once_and_in_order()
        assert self.covered == list(range(self.start, self.end))


@proves("pulls-in-order")
def test_every_offset_is_delivered_once_and_in_order() -> None:
    search = settings(max_examples=examples(200), stateful_step_count=40)
    run_state_machine_as_test(PullWindowMachine, settings=search)
