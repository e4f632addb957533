"""Committing offsets: each sent once, refusals by name, one failure costs no other queue."""

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.errors import (
    BrokerError,
    ConnectionLost,
    OffsetWentBack,
    QueueLeaseLost,
    RequestTimedOut,
)
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH, RequestCode, ResponseCode
from rmq_ordered.testing import ClusterDouble, DropReply, HangUp, Refuse

FENCED = frozenset({FEATURE_LEASE_EPOCH})


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble(brokers=2, features=FENCED)
    for broker in cluster.brokers:
        broker.add_topic("orders", 2)
    return cluster


@pytest.fixture
def queue(cluster: ClusterDouble) -> MessageQueue:
    queue = MessageQueue("orders", "broker-b", 1)
    cluster.brokers[1].fill(queue, 10)
    return queue


@proves("stale-lease-refused")
def test_a_commit_under_a_lease_carries_its_epoch(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    (answer,) = client.broker.lock("billing", "me#1", [queue])
    lease = QueueLease("billing", queue, "me#1", answer.epoch)
    client.broker.commit_offset("billing", queue, 5, lease=lease)
    assert cluster.brokers[1].committed["billing", queue] == 5
    with pytest.raises(OffsetWentBack) as back:
        client.broker.commit_offset("billing", queue, 4, lease=lease)
    assert (back.value.committed, back.value.proposed) == (5, 4)


@proves("stale-lease-refused")
def test_a_commit_under_a_stale_lease_is_a_lost_lease(client: Client, queue: MessageQueue) -> None:
    client.broker.lock("billing", "me#1", [queue])
    stale = QueueLease("billing", queue, "me#1", epoch=99)
    with pytest.raises(QueueLeaseLost, match="the epoch is 1"):
        client.broker.commit_offset("billing", queue, 5, lease=stale)
    assert client.broker.committed_offset("billing", queue) is None


@pytest.mark.parametrize(
    ("code", "error"),
    [(ResponseCode.OFFSET_WENT_BACK, OffsetWentBack), (ResponseCode.STALE_LEASE, BrokerError)],
)
def test_refusals_without_a_lease_are_told_as_they_are(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, code: int, error: type[Exception]
) -> None:
    cluster.network.arm(Refuse(code), RequestCode.UPDATE_CONSUMER_OFFSET)
    with pytest.raises(error):
        client.broker.commit_offset("billing", queue, 5)


def test_a_commit_is_sent_once_even_if_its_answer_is_lost(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(HangUp(is_served=True), RequestCode.UPDATE_CONSUMER_OFFSET)
    with pytest.raises(ConnectionLost):
        client.broker.commit_offset("billing", queue, 5)
    assert len(cluster.network.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == 1


def test_many_offsets_are_committed_and_asked_for_together(
    cluster: ClusterDouble, client: Client
) -> None:
    queues = client.routes.readable("orders")
    positions = {queue: index for index, queue in enumerate(queues)}
    client.broker.commit_offsets("billing", dict(list(positions.items())[1:]))
    assert client.broker.committed_offsets("billing", queues) == {**positions, queues[0]: None}
    assert len(cluster.network.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == 3
    assert client.broker.committed_offsets("billing", []) == {}


def test_one_refused_commit_does_not_keep_the_others_from_landing(
    cluster: ClusterDouble, client: Client
) -> None:
    queues = client.routes.readable("orders")
    answers = client.broker.lock("billing", "me#1", queues)
    leases = {
        answer.queue: QueueLease("billing", answer.queue, "me#1", answer.epoch)
        for answer in answers
    }
    leases[queues[1]] = QueueLease("billing", queues[1], "me#1", epoch=99)
    with pytest.raises(QueueLeaseLost, match=str(queues[1])):
        client.broker.commit_offsets("billing", dict.fromkeys(queues, 5), leases=leases)
    landed = client.broker.committed_offsets("billing", queues)
    assert [landed[queue] for queue in queues] == [5, None, 5, 5]


def test_commits_that_fail_are_told_by_queue_and_the_others_land(
    cluster: ClusterDouble, client: Client
) -> None:
    queues = client.routes.readable("orders")
    answers = client.broker.lock("billing", "me#1", queues)
    leases = {a.queue: QueueLease("billing", a.queue, "me#1", a.epoch) for a in answers}
    leases[queues[1]] = QueueLease("billing", queues[1], "me#1", epoch=99)
    cluster.network.take_down("broker-b:10911")
    failures = client.broker.try_commit_offsets(
        "billing", dict.fromkeys(queues, 5), leases=leases, timeout_ms=60_000
    )
    assert sorted(failures) == list(queues[1:])
    assert isinstance(failures[queues[1]], QueueLeaseLost)
    assert failures[queues[2]] is failures[queues[3]], "a broker that is away is tried once"
    assert cluster.brokers[0].committed == {("billing", queues[0]): 5}
    cluster.network.bring_up("broker-b:10911")
    assert client.broker.try_commit_offsets("billing", {queues[2]: 6, queues[3]: 7}) == {}
    assert client.broker.committed_offset("billing", queues[3]) == 7


def test_a_broker_that_does_not_answer_a_commit_is_not_sent_another(
    cluster: ClusterDouble, client: Client
) -> None:
    queues = client.routes.readable("orders")
    cluster.network.arm(DropReply(cluster.clock, 3_000), RequestCode.UPDATE_CONSUMER_OFFSET)
    failures = client.broker.try_commit_offsets("billing", dict.fromkeys(queues[:2], 5))
    assert list(failures) == list(queues[:2])
    assert isinstance(failures[queues[0]], RequestTimedOut)
    assert len(cluster.network.requests(RequestCode.UPDATE_CONSUMER_OFFSET)) == 1
