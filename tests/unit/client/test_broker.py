"""Single questions to brokers: what is asked where, what is repeated, what each refusal means."""

import pytest

from rmq_ordered.client import Client
from rmq_ordered.errors import (
    BrokerError,
    ConnectFailed,
    RequestTimedOut,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH, RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.groups import heartbeat_request
from rmq_ordered.testing import ClusterDouble, CutMidFrame, DropReply, HangUp, Refuse

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


def test_a_topic_is_created_on_every_broker_and_its_route_is_new(
    cluster: ClusterDouble, client: Client
) -> None:
    assert len(client.routes.readable("orders")) == 4
    client.broker.create_topic("orders", 3)
    assert len(client.routes.readable("orders")) == 6
    refused = Refuse(ResponseCode.NO_PERMISSION, "read only")
    cluster.network.arm(refused, RequestCode.UPDATE_AND_CREATE_TOPIC)
    with pytest.raises(BrokerError, match=r"the creation of topic payments.*read only"):
        client.broker.create_topic("payments", 1, ordered=False)


def test_a_topic_is_deleted_from_brokers_and_name_servers(
    cluster: ClusterDouble, client: Client
) -> None:
    client.broker.delete_topic("orders")
    assert all(broker.topics == {} for broker in cluster.brokers)
    assert cluster.name_server.forgotten == ["orders"]
    with pytest.raises(TopicNotFound):
        client.broker.delete_topic("orders")


def test_statistics_cost_one_request_per_broker_and_cover_silent_queues(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.brokers[1].queues[queue].minimum = 4
    spans = client.broker.topic_stats("orders")
    assert len(cluster.network.requests(RequestCode.GET_TOPIC_STATS_INFO)) == 2
    assert len(spans) == 4
    assert (spans[queue].minimum, spans[queue].maximum) == (4, 10)
    assert spans[queue].last_stored_ms == cluster.clock.wall_ms()
    assert spans[MessageQueue("orders", "broker-a", 0)] == OffsetSpan(0, 0)


def test_statistics_of_a_topic_that_went_away_meanwhile_are_not_found(
    cluster: ClusterDouble, client: Client
) -> None:
    cluster.network.arm(Refuse(ResponseCode.TOPIC_NOT_EXIST), RequestCode.GET_TOPIC_STATS_INFO)
    with pytest.raises(TopicNotFound, match="broker-a:10911"):
        client.broker.topic_stats("orders")


def test_the_ends_of_a_queue_and_the_offset_at_a_time(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    then = cluster.clock.wall_ms() + 5
    cluster.clock.advance_ms(10)
    cluster.brokers[1].fill(queue, 5)
    cluster.brokers[1].queues[queue].minimum = 2
    assert client.broker.min_offset(queue) == 2
    assert client.broker.max_offset(queue) == 15
    assert client.broker.offset_at(queue, then) == 10
    assert client.broker.offset_at(queue, cluster.clock.wall_ms() + 1) == 15
    silent = MessageQueue("orders", "broker-a", 0)
    assert client.broker.offsets_at([silent, queue], then) == {silent: 0, queue: 10}


@pytest.mark.parametrize("fault", [HangUp(), CutMidFrame(), HangUp(is_served=True)])
def test_a_question_is_asked_again_after_a_lost_connection(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, fault: HangUp
) -> None:
    cluster.network.arm(fault, RequestCode.GET_MAX_OFFSET)
    assert client.broker.max_offset(queue) == 10
    assert cluster.clock.pauses == [50]


def test_a_question_follows_the_broker_to_its_new_address(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    client.broker.max_offset(queue)
    moved = cluster.brokers[1]
    cluster.network.take_down(moved.address)
    moved.address = "elsewhere:10911"
    cluster.network.listen(moved.address, moved.serve)
    assert client.broker.max_offset(queue) == 10


def test_a_question_that_timed_out_has_used_its_time_up(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(DropReply(cluster.clock, 3_000), RequestCode.GET_MAX_OFFSET)
    with pytest.raises(RequestTimedOut, match="the end of orders@broker-b#1"):
        client.broker.max_offset(queue)


def test_a_broker_that_stays_away_is_an_error_after_the_timeout(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.take_down("broker-b:10911")
    before = cluster.clock.monotonic_ms()
    with pytest.raises(ConnectFailed):
        client.broker.max_offset(queue)
    assert cluster.clock.monotonic_ms() - before <= 3_000


def test_a_committed_offset_is_told_apart_from_none(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    assert client.broker.committed_offset("billing", queue) is None
    client.broker.commit_offset("billing", queue, 0)
    assert client.broker.committed_offset("billing", queue) == 0
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR), RequestCode.QUERY_CONSUMER_OFFSET)
    with pytest.raises(BrokerError):
        client.broker.committed_offset("billing", queue)


def test_statistics_of_several_topics_are_one_request_per_broker_and_topic(
    cluster: ClusterDouble, client: Client
) -> None:
    for broker in cluster.brokers:
        broker.add_topic("payments", 1)
    assert len(client.broker.topics_stats(["orders", "payments"])) == 6
    assert len(cluster.network.requests(RequestCode.GET_TOPIC_STATS_INFO)) == 4


def test_locks_are_asked_for_once_per_broker(cluster: ClusterDouble, client: Client) -> None:
    queues = client.routes.readable("orders")
    cluster.brokers[1].locks.lock("billing", "other#1", queues[2], cluster.clock.monotonic_ms())
    answers = client.broker.lock("billing", "me#1", queues)
    assert [answer.granted for answer in answers] == [True, True, False, True]
    assert answers[2].owner == "other#1"
    assert len(cluster.network.requests(RequestCode.LOCK_BATCH_MQ)) == 2
    client.broker.unlock("billing", "me#1", queues)
    assert len(cluster.network.requests(RequestCode.UNLOCK_BATCH_MQ)) == 2
    assert cluster.brokers[1].locks.owner(
        "billing", queues[2], cluster.clock.monotonic_ms()
    ) == "other#1"  # fmt: skip


def test_the_lease_tables_of_all_brokers_are_one(client: Client) -> None:
    queues = client.routes.readable("orders")
    client.broker.lock("billing", "me#1", queues)
    table, history = client.broker.leases(group="billing")
    assert {row.queue for row in table} == set(queues)
    assert {(row.client_id, row.epoch, row.is_live) for row in table} == {("me#1", 1, True)}
    assert history == ()
    assert client.broker.leases(group="audit") == ((), ())


def test_a_broker_that_cannot_tell_its_leases_says_so(cluster: ClusterDouble) -> None:
    plain = ClusterDouble()
    with plain.client() as client, pytest.raises(BrokerError, match="only the embedded broker"):
        client.broker.leases()


def test_members_of_a_group_are_those_of_all_brokers(client: Client) -> None:
    assert client.broker.group_members("billing", ["orders"]) == ()
    client.broker.heartbeat("me#1", "billing", ["orders"])
    client.broker.heartbeat("me#2", "billing", ["orders"])
    assert client.broker.group_members("billing", ["orders"]) == ("me#1", "me#2")
    client.broker.leave_group("me#1", "billing", ["orders"])
    assert client.broker.group_members("billing", ["orders"]) == ("me#2",)


def test_a_group_is_known_by_the_brokers_that_answer(
    cluster: ClusterDouble, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.broker.heartbeat("me#1", "billing", ["orders"])
    client.broker.heartbeat("me#2", "billing", ["orders"])
    cluster.brokers[1].members["billing"] = {"me#2"}  # it came back a moment ago
    for away in ("broker-a:10911", "broker-b:10911"):
        cluster.network.take_down(away)
        found = client.broker.group_members("billing", ["orders"])
        assert found == (("me#2",) if away.startswith("broker-a") else ("me#1", "me#2"))
        assert away in caplog.text
        cluster.network.bring_up(away)
    cluster.network.take_down("broker-a:10911")
    cluster.network.take_down("broker-b:10911")
    with pytest.raises(TransportError, match="members of billing"):
        client.broker.group_members("billing", ["orders"])


def test_a_broker_that_is_away_keeps_no_other_from_hearing_who_comes_and_leaves(
    cluster: ClusterDouble, client: Client
) -> None:
    client.broker.heartbeat("me#1", "billing", ["orders"])
    cluster.network.take_down("broker-a:10911")
    with pytest.raises(TransportError, match="broker-a:10911"):
        client.broker.heartbeat("me#2", "billing", ["orders"])
    with pytest.raises(TransportError, match="broker-a:10911"):
        client.broker.leave_group("me#1", "billing", ["orders"])
    assert cluster.brokers[1].members["billing"] == {"me#2"}


def test_who_does_not_answer_in_time_is_told_as_such() -> None:
    cluster = ClusterDouble(brokers=2)
    for broker in cluster.brokers:
        broker.add_topic("orders", 1)
    cluster.network.freeze("broker-a:10911")
    with Client(
        cluster.name_servers, request_timeout_ms=600_000, connect=cluster.network.connect
    ) as client:
        request = heartbeat_request("me#1", "billing", ["orders"], version_ms=1)
        addresses = [broker.address for broker in cluster.brokers]
        told = client.broker.ask_each(addresses, request, "a heartbeat", timeout_ms=1_000)
    assert isinstance(told["broker-a:10911"], RequestTimedOut)
    assert isinstance(told["broker-b:10911"], RemotingCommand)


def test_starting_a_request_at_a_broker_that_is_away_asks_for_a_new_route(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    client.routes.route("orders")
    cluster.network.take_down("broker-b:10911")
    with pytest.raises(ConnectFailed):
        client.broker.start(queue, RemotingCommand(11), "a pull", 3_000)
    client.routes.route("orders")
    assert len(cluster.network.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2
