"""Take-over by instance: any number of runs, clock jumps, crashes, lost and late unlocks.

The keepers are real, the broker is the double without epochs: nothing but the rules of the client
keeps two runs from believing at once.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.client import LeaseKeeper
from rmq_ordered.client.instances import InstanceRun
from rmq_ordered.errors import QueueLeaseUnavailable, RmqOrderedError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.testing import ClusterDouble, HangUp

GROUP = "billing"
PICK = st.integers(0, 2)


@dataclass
class LiveRun:
    """A run of the instance that has not crashed."""

    process: str
    record: InstanceRun
    keeper: LeaseKeeper


class TakeOverMachine(RuleBasedStateMachine):
    """Runs of one instance start, renew, crash and stop in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = ClusterDouble()
        self.broker = self.cluster.brokers[0]
        self.client = self.cluster.client()
        self.runs: list[LiveRun] = []
        self.dead: set[str] = set()
        # Unlocks that nobody heard of again: client id and queue.
        self.lost: list[tuple[str, MessageQueue]] = []
        self.started = 0

    @initialize(queues=st.integers(1, 2))
    def begin(self, queues: int) -> None:
        self.queues = self.broker.add_topic("orders", queues)

    @rule(duration_ms=st.integers(1, 70_000) | st.sampled_from([20_000, 30_001, 60_001]))
    def let_time_pass(self, duration_ms: int) -> None:
        self.cluster.clock.advance_ms(duration_ms)

    @rule(timeout_ms=st.sampled_from([0, 1_000, 40_000]))
    def start_a_run(self, timeout_ms: int) -> None:
        self.started += 1
        process = f"process {self.started}"
        record = InstanceRun(
            self.client.kv, GROUP, "nightly", process=process, is_dead=self.dead.__contains__
        )
        client_id = f"nightly#{self.started:03}"
        record.enter(client_id)
        keeper = LeaseKeeper(
            self.client.broker,
            self.cluster.clock,
            GROUP,
            client_id,
            predecessors=record.predecessors(),
            announce=record.enter,
        )
        run = LiveRun(process, record, keeper)
        self.runs.append(run)
        self.acquire(run, timeout_ms)

    def acquire(self, run: LiveRun, timeout_ms: int) -> None:
        pause = self.cluster.clock.pause_ms

        def pause_and_renew(duration_ms: int) -> None:
            pause(duration_ms)
            run.keeper.renew()

        self.cluster.clock.pause_ms = pause_and_renew  # type: ignore[method-assign]
        try:
            run.keeper.acquire(self.queues, timeout_ms)
            run.record.forget_earlier()
        except (QueueLeaseUnavailable, RmqOrderedError):
            self.runs.remove(run)
        finally:
            self.cluster.clock.pause_ms = pause  # type: ignore[method-assign]

    @rule(which=PICK)
    def renew(self, which: int) -> None:
        if self.runs:
            self.runs[which % len(self.runs)].keeper.renew()

    @rule(which=PICK)
    def crash(self, which: int) -> None:
        if self.runs:
            run = self.runs.pop(which % len(self.runs))
            run.keeper._stopping.set()  # its thread dies with it, and nothing is given back
            self.dead.add(run.process)

    @rule(which=PICK)
    def stop(self, which: int) -> None:
        if self.runs:
            run = self.runs.pop(which % len(self.runs))
            run.keeper.release()
            run.record.leave()

    @rule(which=PICK, index=st.integers(0, 1))
    def give_back_in_vain_and_take_again(self, which: int, index: int) -> None:
        if not self.runs:
            return
        index = min(index, len(self.queues) - 1)
        keeper = self.runs[which % len(self.runs)].keeper
        if self.queues[index] in keeper._locks._ids:
            self.lost.append((keeper._locks._ids[self.queues[index]], self.queues[index]))
            self.cluster.network.arm(HangUp(), RequestCode.UNLOCK_BATCH_MQ)
        keeper.give_back(self.queues[index : index + 1])
        self.cluster.network._faults.clear()
        keeper.try_acquire(self.queues[index : index + 1])

    @rule(which=PICK)
    def a_lost_unlock_arrives_late(self, which: int) -> None:
        if self.lost:
            self.broker.locks.unlock(GROUP, *self.lost.pop(which % len(self.lost)))

    @invariant()
    def at_most_one_run_believes(self) -> None:
        for queue in self.queues:
            believers = [run.process for run in self.runs if run.keeper.is_held(queue)]
            assert len(believers) <= 1, believers

    def teardown(self) -> None:
        for run in self.runs:
            run.keeper.release()
        self.client.close()


@proves("instance-take-over")
def test_at_most_one_run_of_an_instance_believes_that_it_owns_a_queue() -> None:
    search = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
    run_state_machine_as_test(TakeOverMachine, settings=search)
