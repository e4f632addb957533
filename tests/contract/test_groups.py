"""Consumer groups: members and committed offsets, on both brokers."""

import pytest
from tests.contract.divergences import diverges
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.errors import OffsetWentBack, QueueLeaseLost
from rmq_ordered.model import QueueLease


def test_a_group_that_never_committed_has_no_offset(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("uncommitted", 1))
    producer.send("k", b"m")
    assert client.broker.committed_offset(broker.unique("group"), producer.queues[0]) is None


def test_a_committed_offset_is_read_back_per_group_and_queue(
    broker: Broker, client: Client
) -> None:
    topic = broker.create_topic("committed", 2)
    producer = OrderedProducer(client, topic)
    first, second = producer.queues
    producer.send_all({q: [producer.message(b"m") for _ in range(9)] for q in producer.queues})
    group, other = broker.unique("group"), broker.unique("other")
    client.broker.heartbeat("client-1", group, [topic])
    client.broker.heartbeat("client-1", other, [topic])
    client.broker.commit_offset(group, first, 7)
    client.broker.commit_offset(other, first, 3)
    assert client.broker.committed_offset(group, first) == 7
    assert client.broker.committed_offset(other, first) == 3
    assert client.broker.committed_offset(group, second) is None


def test_the_first_commits_of_a_group_are_all_there_although_they_go_together(
    broker: Broker, client: Client
) -> None:
    topic = broker.create_topic("together", 16)
    queues = client.routes.readable(topic)
    for _ in range(20):
        group = broker.unique("together")
        client.broker.heartbeat("somebody", group, [topic])
        client.broker.commit_offsets(group, dict.fromkeys(queues, 0))
        assert client.broker.committed_offsets(group, queues) == dict.fromkeys(queues, 0)


def test_a_plain_commit_may_go_back_as_java_consumers_seek(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("seeking", 1)
    producer = OrderedProducer(client, topic)
    queue = producer.queues[0]
    producer.send_all({queue: [producer.message(b"m") for _ in range(9)]})
    group = broker.unique("group")
    client.broker.heartbeat("client-1", group, [topic])
    client.broker.commit_offset(group, queue, 7)
    client.broker.commit_offset(group, queue, 2)
    assert client.broker.committed_offset(group, queue) == 2


def test_members_appear_with_their_heartbeat_and_leave_when_they_say_so(
    broker: Broker, client: Client
) -> None:
    topic = broker.create_topic("members", 1)
    group = broker.unique("group")
    with Client(broker.name_server) as second:
        client.broker.heartbeat("client-b", group, [topic])
        second.broker.heartbeat("client-a", group, [topic])
        assert client.broker.group_members(group, [topic]) == ("client-a", "client-b")
        client.broker.leave_group("client-b", group, [topic])
        assert second.broker.group_members(group, [topic]) == ("client-a",)


def test_a_member_whose_connection_ends_is_forgotten(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("disconnected", 1)
    group = broker.unique("group")
    client.broker.heartbeat("stays", group, [topic])
    with Client(broker.name_server) as leaving:
        leaving.broker.heartbeat("leaves", group, [topic])
        assert client.broker.group_members(group, [topic]) == ("leaves", "stays")
    wait_until(
        lambda: client.broker.group_members(group, [topic]) == ("stays",), "the member is gone", 10
    )


def test_a_heartbeat_makes_the_groups_retry_topic(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("retried", 1)
    group = broker.unique("group")
    client.broker.heartbeat("client-1", group, [topic])
    retry = f"%RETRY%{group}"
    wait_until(lambda: retry in client.routes.topics(), "the retry topic has a route", 40)


@proves("stale-lease-refused")
def test_a_commit_under_a_stale_lease_is_refused(
    request: pytest.FixtureRequest, broker: Broker, client: Client
) -> None:
    diverges(request, broker, "fenced commits")
    topic = broker.create_topic("fenced", 1)
    group = broker.unique("group")
    queue = client.routes.readable(topic)[0]
    client.broker.heartbeat("client-1", group, [topic])
    (granted,) = client.broker.lock(group, "client-1", [queue])
    stale = QueueLease(group, queue, "client-1", granted.epoch)
    client.broker.unlock(group, "client-1", [queue])
    client.broker.lock(group, "client-2", [queue])
    with pytest.raises(QueueLeaseLost, match="client-2"):
        client.broker.commit_offset(group, queue, 1, lease=stale)
    assert client.broker.committed_offset(group, queue) is None


@proves("lease-commit-never-back")
def test_a_commit_under_a_lease_never_goes_back(
    request: pytest.FixtureRequest, broker: Broker, client: Client
) -> None:
    diverges(request, broker, "fenced commits")
    topic = broker.create_topic("monotonic", 1)
    producer = OrderedProducer(client, topic)
    queue = producer.queues[0]
    producer.send_all({queue: [producer.message(b"m") for _ in range(9)]})
    group = broker.unique("group")
    client.broker.heartbeat("client-1", group, [topic])
    (granted,) = client.broker.lock(group, "client-1", [queue])
    lease = QueueLease(group, queue, "client-1", granted.epoch)
    client.broker.commit_offset(group, queue, 5, lease=lease)
    client.broker.commit_offset(group, queue, 5, lease=lease)
    with pytest.raises(OffsetWentBack, match="committed offset is 5"):
        client.broker.commit_offset(group, queue, 4, lease=lease)
    assert client.broker.committed_offset(group, queue) == 5
