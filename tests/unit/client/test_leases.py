"""Holding queues for a group: take, renew, lose, give back. Everything unknown is "not ours"."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.support.lease_rig import Rig
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, LeaseKeeper, leases
from rmq_ordered.client.leases import RENEW_MS, TRUST_MS
from rmq_ordered.errors import (
    ConnectionLost,
    QueueLeaseLost,
    QueueLeaseUnavailable,
    TransportError,
)
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.net.system import SystemClock
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    ClusterDouble,
    DelayReply,
    HangUp,
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import Serve, reply_to
from rmq_ordered.testing.locks import LOCK_LIFETIME_MS

SOON_S = 10
LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


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


@proves("trust-ends-before-lease")
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


@proves("trust-ends-before-lease")
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


def test_a_member_takes_what_is_free_and_keeps_the_rest_for_later(rig: Rig) -> None:
    rig.lock_as("other#1", rig.queues[1])
    for _ in range(2):
        assert rig.keeper.try_acquire(rig.queues[:3]) == [rig.queues[0], rig.queues[2]]
    asked = [len(json.loads(one.body)["mqSet"]) for one in rig.network.requests(LOCK)]
    assert asked == [3, 1], "what is held is not asked for again"
    assert [rig.keeper.is_held(queue) for queue in rig.queues] == [True, False, True, False]
    rig.keeper.give_back(rig.queues[:1])
    assert rig.owners() == [None, "other#1", "me#1", None]
    assert rig.keeper.try_acquire(rig.queues[:1]) == [rig.queues[0]]


def test_a_lost_queue_can_be_given_back_and_taken_again(rig: Rig) -> None:
    rig.keeper.try_acquire(rig.queues)
    rig.clock.advance_ms(TRUST_MS + 1)
    assert not rig.keeper.is_held(rig.queues[0])
    rig.keeper.give_back(rig.queues[:1])
    assert rig.keeper.try_acquire(rig.queues[:1]) == [rig.queues[0]]
    assert rig.keeper.is_held(rig.queues[0])
    assert rig.keeper.try_acquire(rig.queues) == list(rig.queues), "asked for, so given back first"


@proves("leased-is-worked-on")
def test_a_grant_that_comes_too_late_to_be_trusted_is_given_back(rig: Rig) -> None:
    keeper = rig.new_keeper("me#2", trust_ms=1_000, renew_ms=999)
    rig.network.arm(DelayReply(rig.clock, 1_001), LOCK)
    assert keeper.try_acquire(rig.queues) == []
    assert rig.owners() == [None] * 4, "it would be renewed for ever, and nobody would work on it"
    assert keeper.try_acquire(rig.queues) == list(rig.queues)


def test_a_token_that_is_asked_for_while_the_queue_is_given_back_is_there_or_lost(
    rig: Rig,
) -> None:
    rig.keeper.acquire(rig.queues, 0)
    lock = rig.keeper._lock
    waiting = [lambda: rig.keeper.give_back(rig.queues[:1])]

    class InterruptedLock:
        """Somebody else's turn comes as soon as the lock is let go."""

        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()
            if waiting:
                waiting.pop()()

    rig.keeper._lock = InterruptedLock()  # type: ignore[assignment]
    assert rig.keeper.lease(rig.queues[0]).queue == rig.queues[0]
    with pytest.raises(QueueLeaseLost):
        rig.keeper.lease(rig.queues[0])


def test_a_queue_that_is_left_to_itself_during_a_renewal_is_not_unlocked_later(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues, 0)
    busy = rig.queues[2]

    class AbandonMeanwhile:
        def strike(
            self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve
        ) -> None:
            rig.keeper.abandon([busy])
            transport.answer(reply_to(request, serve(request)))

    rig.network.arm(AbandonMeanwhile(), LOCK)
    rig.keeper.renew()
    rig.keeper.renew()
    rig.keeper.release()
    assert rig.owners() == [None, None, "me#1", None]


class Frozen:
    """Two brokers with a queue each, both leased; then the first one stops to answer."""

    def __init__(self) -> None:
        self.cluster = ClusterDouble(brokers=2)
        queues = [broker.add_topic("orders", 1)[0] for broker in self.cluster.brokers]
        self.silent, self.lively = queues
        # Longer than any test may take: whatever is waited for must come without that answer.
        self.client = Client(
            self.cluster.name_servers,
            request_timeout_ms=600_000,
            clock=SystemClock(),
            connect=self.cluster.network.connect,
        )
        self.keeper = LeaseKeeper(self.client.broker, self.client.clock, "billing", "me#1")
        self.keeper.acquire(queues, 0)
        self.cluster.network.freeze(self.cluster.brokers[0].address)

    def owner(self, queue: MessageQueue) -> str | None:
        broker = next(b for b in self.cluster.brokers if b.name == queue.broker_name)
        return broker.locks.owner("billing", queue, self.cluster.clock.monotonic_ms())


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    frozen = Frozen()
    yield frozen
    frozen.client.close()
    frozen.keeper.release(timeout_ms=1_000)


def test_a_broker_that_does_not_answer_delays_no_renewal_at_another(frozen: Frozen) -> None:
    def renew() -> None:
        with suppress(TransportError):
            frozen.keeper.renew()

    def asked() -> set[str]:
        seen = list(frozen.cluster.network.seen)[before:]
        return {one.address for one in seen if one.command.code == LOCK}

    before = len(frozen.cluster.network.seen)
    threading.Thread(target=renew, daemon=True).start()
    both = {broker.address for broker in frozen.cluster.brokers}
    wait_until(lambda: asked() == both, "both brokers were asked", SOON_S)
    frozen.keeper.give_back([frozen.lively])
    assert frozen.owner(frozen.lively) is None, "no exchange with the other one is waited for"


def test_a_release_that_has_a_deadline_keeps_it_and_tells_what_stays_locked(
    frozen: Frozen, caplog: pytest.LogCaptureFixture
) -> None:
    frozen.keeper.release(timeout_ms=1_000)
    assert frozen.owner(frozen.lively) is None
    assert frozen.owner(frozen.silent) == "me#1"
    assert "until the lease ends" in caplog.text
    assert str(frozen.silent) in caplog.text
    assert str(frozen.lively) not in caplog.text


def test_queues_can_be_given_back_by_a_deadline(
    frozen: Frozen, caplog: pytest.LogCaptureFixture
) -> None:
    frozen.keeper.give_back([frozen.silent, frozen.lively], timeout_ms=1_000)
    assert frozen.owner(frozen.lively) is None
    assert not frozen.keeper.is_held(frozen.silent)
    assert "until the lease ends" in caplog.text


def test_a_closed_keeper_keeps_nothing_that_it_is_granted(rig: Rig) -> None:
    rig.keeper.acquire(rig.queues[:1], 0)
    rig.keeper.close(timeout_ms=5_000)
    assert rig.keeper.try_acquire(rig.queues) == []
    assert rig.owners() == [None] * 4
    assert rig.keeper._thread is None
