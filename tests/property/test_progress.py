"""Any course of pulls, batches, refusals and a stop: in order, nothing skipped, nothing early."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.progress import Phase, QueueProgress


class ProgressMachine(RuleBasedStateMachine):
    """The model: which offsets match the filter, which were handled, and what is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.progress: QueueProgress[int] = QueueProgress(MessageQueue("t", "b", 0), 5)
        self.now_ms = 0
        self.matching: list[int] = []
        self.handled: list[int] = []
        self.at_work: list[int] | None = None
        self.last_commit = 5

    @precondition(lambda self: not self.progress.is_ending)
    @rule(matches=st.lists(st.booleans(), max_size=5))
    def pull(self, matches: list[bool]) -> None:
        start = self.progress.pull_offset
        offsets = [start + index for index, is_match in enumerate(matches) if is_match]
        self.matching += offsets
        self.progress.fetched([(offset, offset) for offset in offsets], start + len(matches))

    @rule(duration_ms=st.integers(0, 100))
    def let_time_pass(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    @rule(limit=st.integers(1, 4))
    def begin(self, limit: int) -> None:
        batch = self.progress.begin(self.now_ms, limit)
        if batch is not None:
            assert self.at_work is None
            first = len(self.handled)
            assert batch == self.matching[first : first + len(batch)]
            self.at_work = batch

    @precondition(lambda self: self.at_work is not None)
    @rule(is_success=st.booleans(), pause_ms=st.integers(0, 100))
    def end(self, is_success: bool, pause_ms: int) -> None:
        if is_success:
            self.handled += self.at_work or []
            self.progress.finished()
        else:
            self.progress.refused(self.now_ms, pause_ms)
        self.at_work = None

    @rule()
    def stop(self) -> None:
        self.progress.stop()

    @invariant()
    def nothing_is_committed_before_it_was_handled(self) -> None:
        commit = self.progress.commit_offset
        assert [offset for offset in self.matching if offset < commit] == self.handled[
            : len([offset for offset in self.matching if offset < commit])
        ]
        assert commit >= self.last_commit
        self.last_commit = commit

    @invariant()
    def everything_handled_is_below_the_commit(self) -> None:
        assert all(offset < self.progress.commit_offset for offset in self.handled)

    @invariant()
    def a_queue_with_a_batch_at_work_has_not_stopped(self) -> None:
        assert self.at_work is None or self.progress.phase in (Phase.RUNNING, Phase.DRAINING)


@proves("one-batch-per-queue")
def test_a_queue_goes_through_a_consumer_in_order() -> None:
    search = settings(max_examples=examples(300), stateful_step_count=40)
    run_state_machine_as_test(ProgressMachine, settings=search)
