"""Locks and unlocks at the brokers: an answer that is lost grants nothing and undoes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.support.lease_rig import Rig
from tests.support.promises import proves

from rmq_ordered.client import LeaseKeeper
from rmq_ordered.client.instances import Predecessor
from rmq_ordered.client.leases import RENEW_MS
from rmq_ordered.errors import (
    BrokerError,
    QueueLeaseLost,
    QueueLeaseUnavailable,
    RemoteProtocolError,
    RequestTimedOut,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    ClusterDouble,
    DropReply,
    HangUp,
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import Serve, reply_to

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


class HalfAway:
    """Two brokers with a queue each, both leased; then the first broker goes away."""

    def __init__(self) -> None:
        self.cluster = ClusterDouble(brokers=2)
        self.first, self.second = self.cluster.brokers
        (self.lost,) = self.first.add_topic("orders", 1)
        (self.kept,) = self.second.add_topic("orders", 1)
        self.client = self.cluster.client()
        self.keeper = LeaseKeeper(self.client.broker, self.cluster.clock, "billing", "me#1")
        self.keeper.acquire([self.lost, self.kept], 1_000)
        self.cluster.network.take_down(self.first.address)


@pytest.fixture
def half_away() -> Iterator[HalfAway]:
    half_away = HalfAway()
    yield half_away
    half_away.keeper.release()
    half_away.client.close()


@proves("lease-loss-is-local")
def test_a_broker_that_is_away_does_not_cost_the_leases_at_the_others(half_away: HalfAway) -> None:
    for _ in range(2):
        half_away.cluster.clock.advance_ms(RENEW_MS)
        with pytest.raises(TransportError):
            half_away.keeper.renew()
    half_away.keeper.ensure_held([half_away.kept])
    with pytest.raises(QueueLeaseLost, match="trusted for"):
        half_away.keeper.ensure_held([half_away.lost])


def test_a_release_with_one_broker_away_frees_the_queues_of_the_others(half_away: HalfAway) -> None:
    half_away.keeper.release()
    now_ms = half_away.cluster.clock.monotonic_ms()
    assert half_away.second.locks.owner("billing", half_away.kept, now_ms) is None
    assert half_away.first.locks.owner("billing", half_away.lost, now_ms) == "me#1"


class HalfGone:
    """One broker with a queue of two topics each, both leased; then the first topic is deleted."""

    def __init__(self) -> None:
        self.cluster = ClusterDouble()
        (self.gone,) = self.cluster.brokers[0].add_topic("audit", 1)
        (self.kept,) = self.cluster.brokers[0].add_topic("orders", 1)
        self.client = self.cluster.client()
        self.keeper = LeaseKeeper(self.client.broker, self.cluster.clock, "billing", "me#1")
        self.keeper.acquire([self.gone, self.kept], 1_000)
        with self.cluster.client() as other:
            other.broker.delete_topic("audit")
        self.client.routes.forget("audit")

    def owner(self) -> str | None:
        now_ms = self.cluster.clock.monotonic_ms()
        return self.cluster.brokers[0].locks.owner("billing", self.kept, now_ms)


@pytest.fixture
def half_gone() -> Iterator[HalfGone]:
    half_gone = HalfGone()
    yield half_gone
    half_gone.keeper.release()
    half_gone.client.close()


@proves("lease-loss-is-local")
def test_a_topic_that_is_gone_does_not_cost_the_leases_of_the_others(half_gone: HalfGone) -> None:
    half_gone.cluster.clock.advance_ms(RENEW_MS)
    with pytest.raises(TopicNotFound, match="audit"):
        half_gone.keeper.renew()
    # It may be a name server that has just begun to learn of topics.
    half_gone.keeper.ensure_held([half_gone.kept, half_gone.gone])
    half_gone.cluster.clock.advance_ms(RENEW_MS)
    half_gone.keeper.renew()
    half_gone.keeper.ensure_held([half_gone.kept])
    with pytest.raises(QueueLeaseLost, match="a lease is trusted for 30000 ms"):
        half_gone.keeper.ensure_held([half_gone.gone])


def test_a_release_after_a_topic_is_gone_frees_the_queues_of_the_others(
    half_gone: HalfGone, caplog: pytest.LogCaptureFixture
) -> None:
    assert half_gone.owner() == "me#1"
    half_gone.keeper.release()
    assert half_gone.owner() is None
    assert "locked until the lease ends: audit@broker-a#0: topic 'audit'" in caplog.text


def test_a_topic_that_is_gone_is_told_to_who_wants_its_queues(half_gone: HalfGone) -> None:
    other = LeaseKeeper(half_gone.client.broker, half_gone.cluster.clock, "others", "me#2")
    with pytest.raises(TopicNotFound, match="'audit'"):
        other.acquire([half_gone.gone, half_gone.kept], 1_000)
    assert other.try_acquire([half_gone.gone, half_gone.kept]) == [half_gone.kept]
    other.release()


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


def test_a_release_that_fails_warns_that_the_locks_stay(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.keeper.acquire(rig.queues, 0)
    rig.network.arm(HangUp(), UNLOCK)
    rig.keeper.release()
    assert "locked until the lease ends" in caplog.text
    with pytest.raises(QueueLeaseLost):
        rig.keeper.ensure_held(rig.queues)


def test_a_take_over_that_cannot_unlock_waits_like_anybody_else(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.lock_as("nightly#0", rig.queues[0])
    rig.network.arm(HangUp(), UNLOCK)
    keeper = rig.new_keeper("nightly#1", predecessors=[Predecessor("nightly#0", True)])
    keeper.acquire(rig.queues, 2_000)
    assert "could not unlock as nightly#0" in caplog.text
    assert rig.owners() == ["nightly#1"] * 4


@proves("late-unlock-frees-nothing")
def test_after_an_unlock_without_an_answer_queues_are_locked_under_another_id(rig: Rig) -> None:
    announced: list[str] = []
    keeper = rig.new_keeper("me#9", announce=announced.append)
    keeper.acquire(rig.queues, 0)
    rig.network.arm(HangUp(), UNLOCK)  # lost on its way, or only late: nobody can tell
    keeper.give_back(rig.queues[:2])
    assert rig.owners() == ["me#9"] * 4
    assert keeper.try_acquire(rig.queues) == list(rig.queues)
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


def test_a_member_gets_nothing_from_a_broker_that_does_not_answer(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.network.arm(HangUp(is_served=True), LOCK)
    assert rig.keeper.try_acquire(rig.queues) == []
    assert "could not ask for queues" in caplog.text
    rig.keeper.release()
    assert rig.owners() == [None] * 4, "a grant that nobody heard of is given back"


def test_an_interrupted_acquisition_leaves_nothing_locked(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = rig.client.broker.try_lock

    def granted_but_interrupted(*arguments: object) -> object:
        ask(*arguments)  # type: ignore[arg-type]
        raise SystemExit(0)

    monkeypatch.setattr(rig.client.broker, "try_lock", granted_but_interrupted)
    with pytest.raises(SystemExit):
        rig.keeper.acquire(rig.queues, 1_000)
    rig.keeper.release()
    assert rig.owners() == [None] * 4


def test_a_refusal_that_is_final_ends_the_acquisition_at_once(rig: Rig) -> None:
    rig.network.arm(Refuse(ResponseCode.NO_PERMISSION, "no"), LOCK, times=100)
    with pytest.raises(BrokerError, match="no"):
        rig.keeper.acquire(rig.queues, 90_000)
    assert len(rig.network.requests(LOCK)) == 1


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
