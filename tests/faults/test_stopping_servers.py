"""Servers that stop in good order say GO_AWAY: nothing is lost, nothing is done twice."""

from collections.abc import Iterator

import pytest

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.model import MessageQueue, QueueRange
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import ClusterDouble, Refuse, ScriptedTransport
from rmq_ordered.testing.faults import Serve

GO_AWAY = Refuse(ResponseCode.GO_AWAY, "please go away")


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble()
    (queue,) = cluster.brokers[0].add_topic("orders", 1)
    cluster.brokers[0].fill(queue, 200)
    return cluster


@pytest.fixture
def client(cluster: ClusterDouble) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@pytest.fixture
def queue(client: Client) -> MessageQueue:
    (queue,) = client.routes.readable("orders")
    return queue


class StopForGood:
    """Sends the request away and is then found at another address only."""

    def __init__(self, cluster: ClusterDouble, new_address: str) -> None:
        self._cluster = cluster
        self._new_address = new_address

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        GO_AWAY.strike(transport, request, serve)
        broker = self._cluster.brokers[0]
        self._cluster.network.listen(self._new_address, broker.serve)
        self._cluster.network.refuse(broker.address)
        broker.address = self._new_address


def read(client: Client, queue: MessageQueue) -> list[int]:
    batches = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 200)))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_send_that_was_sent_away_is_stored_once(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(GO_AWAY, RequestCode.SEND_MESSAGE_V2)
    assert OrderedProducer(client, "orders").send("order-1", b"created").first_offset == 200
    assert cluster.brokers[0].queues[queue].maximum == 201
    assert cluster.clock.pauses == [], "there is nothing to wait for"


@pytest.mark.parametrize("times", [1, 5])
def test_pulls_that_were_sent_away_leave_no_hole(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, times: int
) -> None:
    cluster.network.arm(GO_AWAY, RequestCode.PULL_MESSAGE, times=times)
    assert read(client, queue) == list(range(200))


def test_commits_that_were_sent_away_land(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(GO_AWAY, RequestCode.UPDATE_CONSUMER_OFFSET)
    client.broker.commit_offsets("billing", {queue: 7})
    assert client.broker.committed_offset("billing", queue) == 7


def test_a_broker_that_went_to_another_address_is_followed_there(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(StopForGood(cluster, "broker-a:20911"), RequestCode.PULL_MESSAGE)
    assert read(client, queue) == list(range(200))
    assert cluster.network.seen[-1].address == "broker-a:20911"
