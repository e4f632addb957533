"""The end of work on queues: nothing is unlocked before it is committed."""

import threading
from collections.abc import Iterator

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client, LeaseKeeper
from rmq_ordered.client.batches import Record
from rmq_ordered.client.settling import Owned, Settlement
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.progress import QueueProgress
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH, RequestCode, ResponseCode
from rmq_ordered.protocol.members import Subscription
from rmq_ordered.testing import ClusterDouble, Refuse

COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
BUSY = Refuse(ResponseCode.SYSTEM_BUSY, "busy")
PATIENCE_MS = 30_000


class Rig:
    """Two leased queues at each of two brokers, all of them stopped at offset 5."""

    def __init__(self) -> None:
        features = frozenset({FEATURE_LEASE_EPOCH})
        self.cluster = ClusterDouble(brokers=2, features=features)
        self.queues = [q for b in self.cluster.brokers for q in b.add_topic("orders", 2)]
        self.client: Client = self.cluster.client()
        self.keeper = LeaseKeeper(self.client.broker, self.cluster.clock, "billing", "me#1")
        self.keeper.acquire(self.queues, 0)
        self.owned = {queue: stopped_at(queue, 5) for queue in self.queues}
        self.lost: list[MessageQueue] = []
        self.settlement = Settlement(
            self.client,
            self.keeper,
            self.owned,
            threading.RLock(),
            lose=self.lose,
            patience_ms=PATIENCE_MS,
        )

    def lose(self, one: Owned, error: RmqOrderedError) -> None:
        self.lost.append(one.progress.queue)
        one.is_void = True
        one.resume_at = None

    def committed(self) -> list[int | None]:
        return list(self.client.broker.committed_offsets("billing", self.queues).values())

    def owners(self) -> list[str | None]:
        now_ms = self.cluster.clock.monotonic_ms()
        brokers = {broker.name: broker for broker in self.cluster.brokers}
        return [brokers[q.broker_name].locks.owner("billing", q, now_ms) for q in self.queues]


def stopped_at(queue: MessageQueue, offset: int) -> Owned:
    progress: QueueProgress[Record] = QueueProgress(queue, 0)
    progress.fetched([], offset)
    progress.stop()
    return Owned(Subscription("orders"), progress, 0)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.keeper.release()
    rig.client.close()


def test_what_has_stopped_is_committed_and_given_back(rig: Rig) -> None:
    assert sorted(rig.settlement.finish()) == rig.queues
    assert rig.committed() == [5] * 4
    assert rig.owners() == [None] * 4
    assert rig.owned == {}


@proves("unlock-after-commit")
def test_a_queue_whose_commit_fails_stays_locked_and_is_tried_again(rig: Rig) -> None:
    rig.cluster.network.take_down("broker-b:10911")
    assert rig.settlement.finish() == rig.queues[:2]
    assert rig.owners() == [None, None, "me#1", "me#1"]
    rig.cluster.network.bring_up("broker-b:10911")
    assert rig.settlement.finish() == rig.queues[2:]
    assert rig.committed() == [5] * 4
    assert rig.owners() == [None] * 4


@proves("unlock-after-commit")
def test_after_a_while_a_queue_whose_commit_fails_is_left_to_its_lock(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.cluster.network.arm(BUSY, COMMIT, times=100)
    assert rig.settlement.finish() == []
    for _ in range(2):
        rig.cluster.clock.advance_ms(PATIENCE_MS // 2)
        rig.keeper.renew()
        assert rig.keeper.is_held(rig.queues[0])
        gone = rig.settlement.finish()
    assert sorted(gone) == rig.queues
    assert "offset 5 could not be committed, what was handled after 0 will be" in caplog.text
    assert rig.owned == {}
    assert not rig.keeper.is_held(rig.queues[0]), "nobody renews it any more"
    rig.keeper.release()
    assert rig.owners() == ["me#1"] * 4


def test_where_an_operator_wants_to_go_on_is_committed_even_if_that_is_back(rig: Rig) -> None:
    rig.settlement.commit()
    for one in rig.owned.values():
        one.is_void, one.resume_at = True, 2
    rig.cluster.network.arm(BUSY, COMMIT)
    assert len(rig.settlement.finish()) == 3
    assert len(rig.settlement.finish()) == 1
    assert rig.committed() == [2] * 4
    assert rig.lost == []


def test_what_is_lost_is_not_committed_and_given_back(rig: Rig) -> None:
    broker, (stolen, moved) = rig.cluster.brokers[0], rig.queues[:2]
    broker.locks.unlock("billing", "me#1", stolen)
    broker.locks.lock("billing", "thief", stolen, rig.cluster.clock.monotonic_ms())
    broker.committed["billing", moved] = 9
    assert sorted(rig.settlement.finish()) == rig.queues
    assert rig.lost == [stolen, moved]
    assert rig.committed() == [None, 9, 5, 5]
    assert rig.owners() == ["thief", None, None, None]


def test_a_lease_that_ran_out_is_lost_before_anything_is_sent(rig: Rig) -> None:
    rig.cluster.clock.advance_ms(PATIENCE_MS + 1)
    rig.settlement.commit()
    assert sorted(rig.lost) == rig.queues
    assert rig.committed() == [None] * 4


def test_who_is_being_committed_is_not_committed_by_somebody_else(rig: Rig) -> None:
    rig.owned[rig.queues[0]].is_settling = True
    assert sorted(rig.settlement.finish()) == rig.queues[1:]
    assert rig.committed()[0] is None
    assert rig.owners()[0] == "me#1"
    rig.owned[rig.queues[0]].is_settling = False
    assert rig.settlement.finish() == rig.queues[:1]
