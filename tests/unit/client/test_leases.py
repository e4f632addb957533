"""Holding queues for a group: take, renew, lose, give back. Everything unknown is "not ours"."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, LeaseKeeper, leases
from rmq_ordered.client.instances import Predecessor
from rmq_ordered.client.leases import RENEW_MS, TRUST_MS
from rmq_ordered.errors import (
    BrokerError,
    ConnectionLost,
    QueueLeaseLost,
    QueueLeaseUnavailable,
    RemoteProtocolError,
    RequestTimedOut,
    TransportError,
)
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH, RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    BrokerDouble,
    ClusterDouble,
    DelayReply,
    DropReply,
    HangUp,
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import Serve, reply_to
from rmq_ordered.testing.locks import LOCK_LIFETIME_MS

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


class Rig:
    """One broker with four queues, and a keeper for the client under test."""

    def __init__(self, *, has_epochs: bool) -> None:
        features = frozenset({FEATURE_LEASE_EPOCH}) if has_epochs else frozenset[str]()
        self.cluster = ClusterDouble(features=features)
        self.clock = self.cluster.clock
        self.network = self.cluster.network
        self.broker: BrokerDouble = self.cluster.brokers[0]
        self.queues = self.broker.add_topic("orders", 4)
        self.client: Client = self.cluster.client()
        self._keepers: list[LeaseKeeper] = []
        self.keeper = self.new_keeper("me#1")

    def new_keeper(self, client_id: str, **settings: Any) -> LeaseKeeper:
        keeper = LeaseKeeper(self.client.broker, self.clock, "billing", client_id, **settings)
        self._keepers.append(keeper)
        return keeper

    def owners(self) -> list[str | None]:
        now_ms = self.clock.monotonic_ms()
        return [self.broker.locks.owner("billing", queue, now_ms) for queue in self.queues]

    def lock_as(self, client_id: str, queue: MessageQueue) -> None:
        self.broker.locks.lock("billing", client_id, queue, self.clock.monotonic_ms())

    def on_pause(self, action: Callable[[], None]) -> None:
        """Do something whenever somebody lets time pass."""
        pause = self.clock.pause_ms

        def pause_and_act(duration_ms: int) -> None:
            pause(duration_ms)
            action()

        self.clock.pause_ms = pause_and_act  # type: ignore[method-assign]

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.release()
        self.client.close()


@pytest.fixture(params=[True, False], ids=["with epochs", "without epochs"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(has_epochs=request.param)
    yield rig
    rig.close()


@pytest.fixture
def fenced() -> Iterator[Rig]:
    rig = Rig(has_epochs=True)
    yield rig
    rig.close()


def test_the_three_lifetimes_are_in_the_order_that_makes_them_safe() -> None:
    assert RENEW_MS < TRUST_MS < LOCK_LIFETIME_MS


def test_acquired_queues_are_held_and_have_tokens(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.keeper.ensure_held()
    rig.keeper.ensure_held(rig.queues)
    assert rig.owners() == ["me#1"] * 4
    epoch = 1 if rig.broker.features else None
    lease = rig.keeper.lease(rig.queues[2])
    assert lease == QueueLease("billing", rig.queues[2], "me#1", epoch)
    assert len(rig.network.requests(LOCK)) == 1


def test_a_queue_that_was_never_acquired_is_not_held(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues[:2], 0)
    rig.keeper.ensure_held()
    with pytest.raises(QueueLeaseLost, match="never granted"):
        rig.keeper.ensure_held([rig.queues[3]])
    with pytest.raises(QueueLeaseLost, match="never granted"):
        rig.keeper.lease(rig.queues[3])


def test_queues_already_held_are_not_asked_for_again(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues[:2], 0)
    rig.keeper.acquire(rig.queues[:2], 0)
    assert len(rig.network.requests(LOCK)) == 1
    rig.keeper.acquire(rig.queues, 0)
    assert rig.owners() == ["me#1"] * 4


def test_only_the_queues_before_the_first_refused_one_are_kept_while_waiting(rig: Rig) -> None:
    rig.lock_as("other#1", rig.queues[2])
    seen: list[list[str | None]] = []
    rig.on_pause(lambda: seen.append(rig.owners()))
    with pytest.raises(QueueLeaseUnavailable):
        rig.keeper.acquire(reversed(rig.queues), 600)
    assert seen[0] == ["me#1", "me#1", "other#1", None], "the last one was given back"


def test_a_queue_that_stays_with_another_client_is_an_error_that_gives_everything_back(
    fenced: Rig,
) -> None:
    fenced.lock_as("other#1", fenced.queues[2])
    with pytest.raises(QueueLeaseUnavailable, match="orders@broker-a#2 by other#1") as caught:
        fenced.keeper.acquire(fenced.queues, 2_000)
    assert caught.value.waited_ms >= 2_000
    assert fenced.owners() == [None, None, "other#1", None]
    assert fenced.clock.pauses == [500] * 4


def test_the_wait_ends_when_the_other_client_gives_its_queue_back(rig: Rig) -> None:
    other = rig.new_keeper("other#1")
    other.acquire(rig.queues[1:3], 0)
    rig.on_pause(other.release)
    rig.keeper.acquire(rig.queues, 90_000)
    rig.keeper.ensure_held(rig.queues)
    assert rig.owners() == ["me#1"] * 4
    with pytest.raises(QueueLeaseLost):
        other.ensure_held([rig.queues[1]])


def test_the_wait_ends_when_the_lock_of_a_crashed_client_expires(rig: Rig) -> None:
    rig.lock_as("crashed#1", rig.queues[3])
    rig.on_pause(rig.keeper.renew)
    before = rig.clock.monotonic_ms()
    rig.keeper.acquire(rig.queues, 90_000)
    assert LOCK_LIFETIME_MS < rig.clock.monotonic_ms() - before <= LOCK_LIFETIME_MS + 1_000
    rig.keeper.ensure_held(rig.queues)


def test_a_long_wait_is_logged_with_the_owner(
    fenced: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    fenced.lock_as("other#1", fenced.queues[0])
    with caplog.at_level(logging.INFO), pytest.raises(QueueLeaseUnavailable):
        fenced.keeper.acquire(fenced.queues, 11_000)
    waits = [record.message for record in caplog.records if "waiting for" in record.message]
    assert len(waits) == 2, "every five seconds"
    assert "['other#1']" in waits[0]


def test_trust_is_counted_from_the_request_not_from_its_answer(rig: Rig) -> None:
    rig.network.arm(DelayReply(rig.clock, 2_000), LOCK)
    rig.keeper.acquire(rig.queues, 0)
    rig.clock.advance_ms(TRUST_MS - 2_000)
    rig.keeper.ensure_held()
    rig.clock.advance_ms(1)
    with pytest.raises(QueueLeaseLost, match=r"30001 ms ago.*trusted for 30000 ms"):
        rig.keeper.ensure_held()


def test_a_renewal_extends_trust(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    for _ in range(5):
        rig.clock.advance_ms(RENEW_MS)
        rig.keeper.renew()
    rig.clock.advance_ms(TRUST_MS)
    rig.keeper.ensure_held()


def test_a_renewal_extends_trust_from_its_request_not_from_its_answer(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.clock.advance_ms(RENEW_MS)
    rig.network.arm(DelayReply(rig.clock, 2_000), LOCK)
    rig.keeper.renew()
    rig.clock.advance_ms(TRUST_MS - 2_000)
    rig.keeper.ensure_held()
    rig.clock.advance_ms(1)
    with pytest.raises(QueueLeaseLost, match="30001 ms ago"):
        rig.keeper.ensure_held()


def test_a_renewal_after_trust_ran_out_does_not_bring_the_lease_back(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.clock.advance_ms(TRUST_MS + 1)
    rig.keeper.renew()
    assert rig.owners() == ["me#1"] * 4, (
        "the broker granted it, but nobody can know what was between"
    )
    with pytest.raises(QueueLeaseLost):
        rig.keeper.ensure_held()


def test_a_refused_renewal_is_a_loss_for_ever(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.broker.locks.lose_memory()
    rig.lock_as("other#1", rig.queues[1])
    rig.keeper.renew()
    with pytest.raises(QueueLeaseLost, match="refused to renew"):
        rig.keeper.lease(rig.queues[1])
    rig.broker.locks.unlock("billing", "other#1", rig.queues[1])
    rig.keeper.renew()
    with pytest.raises(QueueLeaseLost, match="refused to renew"):
        rig.keeper.ensure_held()
    rig.keeper.ensure_held([rig.queues[0]])


def test_an_epoch_that_changed_in_between_is_a_loss_for_ever(fenced: Rig) -> None:
    fenced.keeper.acquire(fenced.queues, 0)
    queue = fenced.queues[0]
    fenced.broker.locks.unlock("billing", "me#1", queue)
    fenced.lock_as("other#1", queue)
    fenced.broker.locks.unlock("billing", "other#1", queue)
    fenced.keeper.renew()
    with pytest.raises(QueueLeaseLost, match="epoch 3 instead of 1"):
        fenced.keeper.ensure_held()
    fenced.keeper.renew()
    with pytest.raises(QueueLeaseLost, match="epoch 3 instead of 1"):
        fenced.keeper.lease(queue)


@pytest.mark.parametrize("fault", [HangUp(), HangUp(is_served=True)], ids=repr)
def test_a_renewal_whose_answer_is_lost_extends_nothing(rig: Rig, fault: HangUp) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.clock.advance_ms(RENEW_MS)
    rig.network.arm(fault, LOCK)
    with pytest.raises(ConnectionLost):
        rig.keeper.renew()
    rig.clock.advance_ms(TRUST_MS - RENEW_MS)
    rig.keeper.ensure_held()
    rig.clock.advance_ms(1)
    with pytest.raises(QueueLeaseLost):
        rig.keeper.ensure_held()


def test_an_acquisition_whose_answer_is_lost_owns_nothing_and_leaves_nothing_locked(
    rig: Rig,
) -> None:
    rig.network.arm(DropReply(rig.clock, 3_000), LOCK)
    with pytest.raises(RequestTimedOut):
        rig.keeper.acquire(rig.queues, 0)
    with pytest.raises(QueueLeaseLost, match="never granted"):
        rig.keeper.ensure_held(rig.queues)
    assert rig.owners() == [None] * 4


def test_an_acquisition_whose_answer_is_lost_asks_again_while_there_is_time(rig: Rig) -> None:
    rig.network.arm(DropReply(rig.clock, 3_000), LOCK)
    rig.keeper.acquire(rig.queues, 90_000)
    rig.keeper.ensure_held(rig.queues)
    assert rig.owners() == ["me#1"] * 4


def test_a_broker_that_is_away_does_not_cost_the_leases_at_the_others() -> None:
    cluster = ClusterDouble(brokers=2)
    first, second = cluster.brokers
    near, far = first.add_topic("orders", 1), second.add_topic("orders", 1)
    client = cluster.client()
    keeper = LeaseKeeper(client.broker, cluster.clock, "billing", "me#1")
    keeper.acquire([*near, *far], 1_000)
    cluster.network.take_down(first.address)
    for _ in range(2):
        cluster.clock.advance_ms(RENEW_MS)
        with pytest.raises(TransportError):
            keeper.renew()
    keeper.ensure_held(far)
    with pytest.raises(QueueLeaseLost, match="trusted for"):
        keeper.ensure_held(near)
    keeper.release()
    client.close()


@dataclass(frozen=True)
class AnswerBody:
    """The broker answers SUCCESS with this body."""

    body: bytes

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        transport.answer(reply_to(request, RemotingCommand(0, body=self.body)))


def test_an_answer_that_names_no_queue_grants_nothing(rig: Rig) -> None:
    rig.network.arm(AnswerBody(b"{}"), LOCK)
    with pytest.raises(QueueLeaseUnavailable, match="another client"):
        rig.keeper.acquire(rig.queues, 0)


def test_an_answer_that_makes_no_sense_grants_nothing(rig: Rig) -> None:
    rig.network.arm(AnswerBody(b"[]"), LOCK)
    with pytest.raises(RemoteProtocolError):
        rig.keeper.acquire(rig.queues, 0)
    with pytest.raises(QueueLeaseLost):
        rig.keeper.ensure_held(rig.queues)


def test_a_renewal_that_answers_after_the_queue_was_given_back_holds_nothing(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    table = rig.keeper._table

    class GiveBackMeanwhile:
        def strike(
            self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve
        ) -> None:
            response = serve(request)
            for queue in rig.queues:
                table.dropped(queue)
            transport.answer(reply_to(request, response))

    rig.network.arm(GiveBackMeanwhile(), LOCK)
    rig.keeper.renew()
    with pytest.raises(QueueLeaseLost):
        rig.keeper.ensure_held(rig.queues)


def test_released_queues_are_free_at_once_and_no_longer_held(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.keeper.release()
    assert rig.owners() == [None] * 4
    with pytest.raises(QueueLeaseLost):
        rig.keeper.lease(rig.queues[0])
    rig.keeper.release()
    assert len(rig.network.requests(UNLOCK)) == 1


def test_a_keeper_may_acquire_again_after_a_release(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.keeper.release()
    rig.keeper.acquire(rig.queues, 0)
    rig.keeper.ensure_held(rig.queues)
    assert rig.keeper._thread is not None


def test_a_release_that_fails_warns_that_the_locks_stay(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.network.arm(HangUp(), UNLOCK)
    rig.keeper.release()
    assert "locked until the lease ends" in caplog.text
    with pytest.raises(QueueLeaseLost):
        rig.keeper.ensure_held(rig.queues)


def test_renewing_nothing_asks_nobody(rig: Rig) -> None:
    rig.keeper.renew()
    rig.keeper.acquire([], 0)
    rig.keeper.renew()
    assert rig.network.seen == []


def test_a_thread_renews_until_the_release(rig: Rig) -> None:
    keeper = rig.new_keeper("me#2", renew_ms=1)
    keeper.acquire(rig.queues, 0)
    wait_until(lambda: len(rig.network.requests(LOCK)) > 3, "the thread has renewed", 5)
    keeper.release()
    count = len(rig.network.requests(LOCK))
    assert keeper._thread is None
    assert rig.owners() == [None] * 4
    assert len(rig.network.requests(LOCK)) == count


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (HangUp(), "renewal failed, will try again"),
        (Refuse(ResponseCode.SYSTEM_ERROR, "no"), "renewal was refused"),
    ],
    ids=repr,
)
def test_a_thread_whose_renewal_fails_warns_and_tries_again(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rig: Rig,
    fault: HangUp,
    words: str,
) -> None:
    monkeypatch.setattr(leases, "_RENEW_RETRY_MS", 1)
    rig.network.arm(fault, LOCK, after=1)
    keeper = rig.new_keeper("me#2", renew_ms=1)
    keeper.acquire(rig.queues, 0)
    wait_until(lambda: len(rig.network.requests(LOCK)) > 4, "the thread has gone on", 5)
    keeper.ensure_held(rig.queues)
    assert words in caplog.text


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
    after.acquire(rig.queues, 0)
    assert rig.clock.monotonic_ms() - started_ms > TRUST_MS
    assert believers[0], "it still believed when the new run had locked"
    assert not believers[-1], "it had stopped when the new run began"
    after.ensure_held(rig.queues)
    rig.close()


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


def test_a_take_over_that_cannot_unlock_waits_like_anybody_else(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.lock_as("nightly#0", rig.queues[0])
    rig.network.arm(HangUp(), UNLOCK)
    keeper = rig.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0", True)])
    keeper.acquire(rig.queues, 2_000)
    assert "could not unlock as nightly#0" in caplog.text
    assert rig.owners() == ["nightly#1"] * 4


def test_after_an_unlock_without_an_answer_queues_are_locked_under_another_id(rig: Rig) -> None:
    announced: list[str] = []
    keeper = rig.new_keeper("me#9", announce=announced.append)
    keeper.acquire(rig.queues, 0)
    rig.network.arm(HangUp(), UNLOCK)  # lost on its way, or only late: nobody can tell
    keeper.give_back(rig.queues[:2])
    assert rig.owners() == ["me#9"] * 4
    assert keeper.try_acquire(rig.queues) == list(rig.queues[:2])
    assert announced == ["me#9~1"]
    assert rig.owners() == ["me#9~1", "me#9~1", "me#9", "me#9"]
    for queue in rig.queues[:2]:
        rig.broker.locks.unlock("billing", "me#9", queue)  # the late unlock arrives
    keeper.renew()
    keeper.ensure_held(rig.queues)
    assert [keeper.lease(queue).client_id for queue in rig.queues[1:3]] == ["me#9~1", "me#9"]
    keeper.release()
    assert rig.owners() == [None] * 4


def test_an_acquisition_that_gives_back_in_vain_goes_on_under_another_id(rig: Rig) -> None:
    rig.lock_as("other#1", rig.queues[0])
    rig.network.arm(HangUp(), UNLOCK)
    rig.on_pause(lambda: rig.broker.locks.unlock("billing", "other#1", rig.queues[0]))
    rig.keeper.acquire(rig.queues, 2_000)
    assert rig.owners() == ["me#1", "me#1~1", "me#1~1", "me#1~1"]


def test_a_member_takes_what_is_free_and_keeps_the_rest_for_later(rig: Rig) -> None:
    rig.lock_as("other#1", rig.queues[1])
    assert rig.keeper.try_acquire(rig.queues[:3]) == [rig.queues[0], rig.queues[2]]
    assert rig.keeper.try_acquire(rig.queues[:3]) == []
    assert [rig.keeper.is_held(queue) for queue in rig.queues] == [True, False, True, False]
    rig.keeper.give_back(rig.queues[:1])
    assert rig.owners() == [None, "other#1", "me#1", None]
    assert rig.keeper.try_acquire(rig.queues[:1]) == [rig.queues[0]]


def test_a_member_gets_nothing_from_a_broker_that_does_not_answer(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.network.arm(HangUp(is_served=True), LOCK)
    assert rig.keeper.try_acquire(rig.queues) == []
    assert "could not ask for queues" in caplog.text
    rig.keeper.release()
    assert rig.owners() == [None] * 4, "a grant that nobody heard of is given back"


def test_a_lost_queue_can_be_given_back_and_taken_again(rig: Rig) -> None:
    rig.keeper.try_acquire(rig.queues)
    rig.clock.advance_ms(TRUST_MS + 1)
    assert not rig.keeper.is_held(rig.queues[0])
    rig.keeper.give_back(rig.queues[:1])
    assert rig.keeper.try_acquire(rig.queues[:1]) == [rig.queues[0]]
    assert rig.keeper.is_held(rig.queues[0])


def test_an_interrupted_acquisition_leaves_nothing_locked(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = rig.client.broker.lock

    def granted_but_interrupted(*arguments: object) -> object:
        ask(*arguments)  # type: ignore[arg-type]
        raise SystemExit(0)

    monkeypatch.setattr(rig.client.broker, "lock", granted_but_interrupted)
    with pytest.raises(SystemExit):
        rig.keeper.acquire(rig.queues, 1_000)
    rig.keeper.release()
    assert rig.owners() == [None] * 4


def test_a_release_with_one_broker_away_frees_the_queues_of_the_others() -> None:
    cluster = ClusterDouble(brokers=2)
    first, second = cluster.brokers
    near, far = first.add_topic("orders", 1), second.add_topic("orders", 1)
    client = cluster.client()
    keeper = LeaseKeeper(client.broker, cluster.clock, "billing", "me#1")
    keeper.acquire([*near, *far], 1_000)
    cluster.network.take_down(first.address)
    keeper.release()
    now_ms = cluster.clock.monotonic_ms()
    assert second.locks.owner("billing", far[0], now_ms) is None
    assert first.locks.owner("billing", near[0], now_ms) == "me#1"
    client.close()


def test_a_refusal_that_is_final_ends_the_acquisition_at_once(rig: Rig) -> None:
    rig.network.arm(Refuse(ResponseCode.NO_PERMISSION, "no"), LOCK, times=100)
    with pytest.raises(BrokerError, match="no"):
        rig.keeper.acquire(rig.queues, 90_000)
    assert len(rig.network.requests(LOCK)) == 1
