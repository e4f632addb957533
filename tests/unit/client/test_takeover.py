"""Taking over from an earlier run: at once where it is dead or fenced, else after its trust."""

from collections.abc import Iterator

import pytest
from tests.support.lease_rig import Rig
from tests.support.promises import proves

from rmq_ordered.client.instances import Predecessor
from rmq_ordered.client.leases import TRUST_MS
from rmq_ordered.errors import (
    BrokerError,
    QueueLeaseLost,
    QueueLeaseUnavailable,
)
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import Serve, reply_to

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


def test_a_new_run_takes_over_from_a_dead_one_at_once(rig: Rig) -> None:
    rig.lock_as("nightly#0", rig.queues[1])
    rig.lock_as("nightly#0~1", rig.queues[3])
    dead = [Predecessor("nightly#0", True), Predecessor("nightly#0~1", True)]
    keeper = rig.new_keeper("nightly#1", predecessors=dead)
    keeper.acquire(rig.queues, 0)
    assert rig.owners() == ["nightly#1"] * 4
    assert rig.clock.pauses == []
    keeper.ensure_held(rig.queues)


def test_nobody_is_robbed_but_earlier_runs_and_only_of_what_is_wanted(rig: Rig) -> None:
    rig.lock_as("nightly#0", rig.queues[0])
    rig.lock_as("other#0", rig.queues[1])
    rig.lock_as("nightly#0", rig.queues[3])
    keeper = rig.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0", True)])
    with pytest.raises(QueueLeaseUnavailable):
        keeper.acquire(rig.queues[:3], 0)
    assert rig.owners() == [None, "other#0", None, "nightly#0"]


def test_without_fencing_a_run_that_may_live_is_given_the_time_to_notice() -> None:
    rig = Rig(has_epochs=False)
    before = rig.new_keeper("nightly#0")
    before.acquire(rig.queues, 0)
    after = rig.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0")])
    started_ms = rig.clock.monotonic_ms()
    believers: list[int] = []

    def watch() -> None:
        after.renew()
        before_believes = all(before.is_held(queue) for queue in rig.queues)
        believers.append(before_believes)

    rig.on_pause(watch)
    after.acquire(rig.queues, TRUST_MS)
    assert rig.clock.monotonic_ms() - started_ms > TRUST_MS
    assert believers[0], "it still believed when the new run had locked"
    assert not believers[-1], "it had stopped when the new run began"
    after.ensure_held(rig.queues)
    rig.close()


@proves("instance-take-over")
def test_a_run_that_may_live_is_not_robbed_when_there_is_no_time_to_let_it_notice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(has_epochs=False)
    before = rig.new_keeper("nightly#0")
    before.acquire(rig.queues, 0)
    after = rig.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0")])
    started_ms = rig.clock.monotonic_ms()
    with pytest.raises(QueueLeaseUnavailable):
        after.acquire(rig.queues, 2_000)
    assert rig.clock.monotonic_ms() - started_ms == 2_000, "the time that it was given"
    assert rig.owners() == ["nightly#0"] * 4
    before.renew()
    before.ensure_held(rig.queues)
    assert caplog.text.count("may be alive and would have to be given 30000 ms") == 1
    rig.close()


@proves("instance-take-over")
def test_a_run_that_may_live_is_not_taken_for_dead_because_another_one_is(unfenced: Rig) -> None:
    before = unfenced.new_keeper("nightly#1")
    before.acquire(unfenced.queues, 0)
    earlier = [Predecessor("nightly#0", True), Predecessor("nightly#1")]
    after = unfenced.new_keeper("nightly#2", predecessors=earlier)
    with pytest.raises(QueueLeaseUnavailable):
        after.acquire(unfenced.queues, 0)
    assert unfenced.owners() == ["nightly#1"] * 4
    before.ensure_held(unfenced.queues)


def test_with_epochs_a_live_run_is_fenced_at_once(fenced: Rig) -> None:
    before = fenced.new_keeper("nightly#0")
    before.acquire(fenced.queues, 0)
    after = fenced.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0")])
    after.acquire(fenced.queues, 0)
    assert fenced.clock.pauses == []
    before.renew()
    with pytest.raises(QueueLeaseLost, match="held by nightly#1"):
        before.ensure_held()
    after.ensure_held(fenced.queues)


def test_a_renewal_of_the_old_run_between_unlock_and_lock_only_delays_the_new_one(rig: Rig) -> None:
    before = rig.new_keeper("nightly#0")
    before.acquire(rig.queues, 0)

    class RenewRightAfter:
        def strike(
            self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve
        ) -> None:
            response = serve(request)
            for queue in rig.queues:
                rig.lock_as("nightly#0", queue)
            transport.answer(reply_to(request, response))

    rig.network.arm(RenewRightAfter(), UNLOCK)
    after = rig.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0", True)])
    after.acquire(rig.queues, 2_000)
    assert rig.owners() == ["nightly#1"] * 4
    assert rig.clock.pauses == [500]


@pytest.fixture
def unfenced() -> Iterator[Rig]:
    rig = Rig(has_epochs=False)
    yield rig
    rig.close()


@proves("failed-take-over-leaves-locked")
def test_who_gives_up_leaves_locked_what_a_robbed_run_may_still_work_on(
    unfenced: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    before = unfenced.new_keeper("nightly#0")
    before.acquire(unfenced.queues[:2], 0)
    unfenced.lock_as("other#1", unfenced.queues[2])
    after = unfenced.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0")])
    unfenced.on_pause(lambda: unfenced.network.arm(Refuse(ResponseCode.NO_PERMISSION), LOCK))
    with pytest.raises(BrokerError):
        after.acquire(unfenced.queues[:3], TRUST_MS + 10_000)
    assert before.is_held(unfenced.queues[0]), "nobody has told it"
    assert unfenced.owners() == ["nightly#1", "nightly#1", "other#1", None]
    assert "stay locked until their leases end" in caplog.text


def test_a_queue_of_a_robbed_run_stays_locked_while_another_one_is_waited_for(
    unfenced: Rig,
) -> None:
    before = unfenced.new_keeper("nightly#0")
    before.acquire(unfenced.queues[1:2], 0)
    unfenced.lock_as("other#1", unfenced.queues[0])
    owners: list[str | None] = []

    def watch() -> None:
        owners.append(unfenced.owners()[1])
        unfenced.broker.locks.unlock("billing", "other#1", unfenced.queues[0])

    unfenced.on_pause(watch)
    after = unfenced.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0")])
    after.acquire(unfenced.queues[:2], TRUST_MS + 10_000)
    assert set(owners) == {"nightly#1"}
    after.ensure_held(unfenced.queues[:2])


def test_what_was_taken_over_and_settled_is_given_back_as_usual(unfenced: Rig) -> None:
    before = unfenced.new_keeper("nightly#0")
    before.acquire(unfenced.queues, 0)
    after = unfenced.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0")])
    after.acquire(unfenced.queues, TRUST_MS)
    after.release()
    assert unfenced.owners() == [None] * 4
