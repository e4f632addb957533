"""Routes: fail-over between name servers, a memory of 30 s, and what it forgets."""

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.errors import (
    BrokerError,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    RemoteProtocolError,
    RequestTimedOut,
    TopicNotFound,
)
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    AnswerAs,
    ClusterDouble,
    CutMidFrame,
    DropReply,
    Fault,
    Garble,
    HangUp,
    Refuse,
)

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble(brokers=2, name_servers=("names-1:9876", "names-2:9876"))
    for broker in cluster.brokers:
        broker.add_topic("orders", 2)
    return cluster


def asked(cluster: ClusterDouble) -> list[str]:
    return [seen.address for seen in cluster.network.seen]


def test_queues_of_all_brokers_come_in_rocketmq_order(client: Client) -> None:
    expected = ["broker-a#0", "broker-a#1", "broker-b#0", "broker-b#1"]
    for queues in (client.routes.readable("orders"), client.routes.writable("orders")):
        assert [f"{queue.broker_name}#{queue.queue_id}" for queue in queues] == expected


def test_one_name_server_is_used_until_it_fails_then_the_next(
    cluster: ClusterDouble, client: Client
) -> None:
    client.routes.topics()
    cluster.network.take_down("names-1:9876")
    client.routes.topics()
    cluster.network.bring_up("names-1:9876")
    client.routes.topics()
    assert asked(cluster) == ["names-1:9876", "names-2:9876", "names-2:9876"]


@pytest.mark.parametrize("served", [True, False])
def test_a_name_server_that_hangs_up_or_stays_silent_is_passed_over(
    cluster: ClusterDouble, client: Client, served: bool
) -> None:
    cluster.network.arm(HangUp(is_served=served))
    assert client.routes.topics() == ("orders",)
    cluster.network.arm(DropReply(cluster.clock, 3_000, is_served=served))
    assert client.routes.topics() == ("orders",)
    assert asked(cluster) == ["names-1:9876", "names-2:9876", "names-2:9876", "names-1:9876"]


@proves("bad-name-server-passed-over")
@pytest.mark.parametrize(
    "fault",
    [Garble(), Garble(b"SSH-2.0-OpenSSH_9.6\r\n"), AnswerAs(4_711), CutMidFrame()],
    ids=["HTTP", "SSH", "another request's answer", "half an answer"],
)
def test_a_name_server_that_answers_nonsense_is_passed_over(
    cluster: ClusterDouble, client: Client, fault: Fault
) -> None:
    cluster.network.arm(fault)
    assert len(client.routes.readable("orders")) == 4
    assert asked(cluster) == ["names-1:9876", "names-2:9876"]


def test_a_name_server_whose_route_cannot_be_read_is_passed_over(
    cluster: ClusterDouble, client: Client
) -> None:
    nonsense = RemotingCommand(ResponseCode.SUCCESS, body=b"<html>")
    cluster.network.listen("names-1:9876", lambda _: nonsense)
    assert len(client.routes.readable("orders")) == 4
    cluster.network.listen("names-2:9876", lambda _: nonsense)
    with pytest.raises(RemoteProtocolError, match="route of topic payments"):
        client.routes.route("payments")


def test_a_name_server_that_was_just_started_and_knows_no_topic_is_not_believed(
    cluster: ClusterDouble, client: Client
) -> None:
    cluster.network.arm(Refuse(ResponseCode.TOPIC_NOT_EXIST), ROUTE)
    assert len(client.routes.readable("orders")) == 4
    cluster.network.take_down("names-2:9876")
    cluster.network.arm(Refuse(ResponseCode.TOPIC_NOT_EXIST), ROUTE)
    with pytest.raises(TopicNotFound, match="'payments'"):
        client.routes.route("payments")


def test_the_last_error_is_raised_when_every_name_server_fails(
    cluster: ClusterDouble, client: Client
) -> None:
    cluster.network.take_down("names-1:9876")
    cluster.network.arm(DropReply(cluster.clock, 3_000))
    with pytest.raises(RequestTimedOut, match="names-2:9876"):
        client.routes.topics()
    cluster.network.take_down("names-2:9876")
    with pytest.raises((ConnectFailed, ConnectionLost)):
        client.routes.topics()


def test_a_refusal_is_an_answer_and_not_a_reason_to_ask_elsewhere(
    cluster: ClusterDouble, client: Client
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR, "not ready"))
    with pytest.raises(BrokerError, match="not ready"):
        client.routes.route("orders")
    assert asked(cluster) == ["names-1:9876"]


def test_no_name_server_at_all_is_a_failed_connection(cluster: ClusterDouble) -> None:
    with (
        Client((), clock=cluster.clock, connect=cluster.network.connect) as client,
        pytest.raises(ConnectFailed, match="no name server was given"),
    ):
        client.routes.topics()


def test_a_topic_that_nobody_has_is_not_found_and_not_remembered(
    cluster: ClusterDouble, client: Client
) -> None:
    with pytest.raises(TopicNotFound, match=r"'payments'.*names-1:9876;names-2:9876"):
        client.routes.route("payments")
    cluster.brokers[0].add_topic("payments", 1)
    assert len(client.routes.readable("payments")) == 1


def test_a_route_is_remembered_for_thirty_seconds(cluster: ClusterDouble, client: Client) -> None:
    client.routes.route("orders")
    cluster.clock.advance_ms(29_999)
    client.routes.route("orders")
    assert len(cluster.network.requests(ROUTE)) == 1
    cluster.clock.advance_ms(1)
    client.routes.route("orders")
    assert len(cluster.network.requests(ROUTE)) == 2


def test_a_forgotten_route_is_asked_for_again(cluster: ClusterDouble, client: Client) -> None:
    client.routes.route("orders")
    client.routes.forget("orders")
    client.routes.route("orders")
    assert len(cluster.network.requests(ROUTE)) == 2


def test_a_known_route_serves_while_no_name_server_answers(
    cluster: ClusterDouble, client: Client
) -> None:
    known = client.routes.route("orders")
    client.routes.forget("orders")
    for address in ("names-1:9876", "names-2:9876"):
        cluster.network.take_down(address)
    assert client.routes.route("orders") == known
    with pytest.raises(ConnectFailed):
        client.routes.route("never-seen")


def test_a_topic_with_queues_on_a_broker_without_a_master_is_not_complete(
    cluster: ClusterDouble, client: Client
) -> None:
    client.routes.ensure_complete("orders")
    cluster.brokers[1].is_master = False
    client.routes.forget("orders")
    with pytest.raises(ConnectFailed, match=r"broker-b.*queues of topic orders have no master"):
        client.routes.ensure_complete("orders")


def test_queues_of_a_broker_that_left_the_name_server_are_told_until_it_is_back(
    cluster: ClusterDouble, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.routes.unreachable("orders") == ()
    away = cluster.name_server.brokers.pop()
    for _ in range(2):
        client.routes.forget("orders")
        assert list(map(str, client.routes.unreachable("orders"))) == [
            "orders@broker-b#0",
            "orders@broker-b#1",
        ]
    (warning,) = caplog.messages
    assert "brokers ['broker-b'] are away" in warning
    assert "orders@broker-b#0, orders@broker-b#1" in warning
    assert [queue.broker_name for queue in client.routes.readable("orders")] == ["broker-a"] * 2
    with pytest.raises(ConnectFailed, match=r"broker-b.*2 queues of topic orders.*broker-b#1"):
        client.routes.ensure_complete("orders")
    cluster.name_server.brokers.append(away)
    assert client.routes.unreachable("orders") == (), "asked again without being told to"
    client.routes.ensure_complete("orders")


def test_queues_that_a_running_broker_no_longer_has_are_not_waited_for(
    cluster: ClusterDouble, client: Client
) -> None:
    client.routes.route("orders")
    del cluster.brokers[1].topics["orders"]
    client.routes.forget("orders")
    assert client.routes.unreachable("orders") == ()
    assert len(client.routes.readable("orders")) == 2


def test_a_topic_whose_brokers_are_all_away_may_come_back(
    cluster: ClusterDouble, client: Client
) -> None:
    client.routes.route("orders")
    away = [*cluster.name_server.brokers]
    cluster.name_server.brokers.clear()
    client.routes.forget("orders")
    with pytest.raises(ConnectFailed, match=r"broker-a, broker-b.*brokers of topic orders") as gone:
        client.routes.route("orders")
    assert gone.value.retryable
    cluster.name_server.brokers.extend(away)
    assert len(client.routes.readable("orders")) == 4


def test_a_topic_that_was_deleted_under_us_is_not_found(
    cluster: ClusterDouble, client: Client
) -> None:
    client.routes.route("orders")
    for broker in cluster.brokers:
        broker.topics.clear()
    client.routes.forget("orders")
    for _ in range(2):
        with pytest.raises(TopicNotFound):
            client.routes.route("orders")


def test_a_missing_broker_is_away_as_long_as_nobody_can_tell(
    cluster: ClusterDouble, client: Client
) -> None:
    client.routes.route("orders")
    cluster.name_server.brokers.pop()
    client.routes.forget("orders")
    cluster.network.arm(HangUp(), RequestCode.GET_BROKER_CLUSTER_INFO, times=2)
    assert len(client.routes.unreachable("orders")) == 2


def test_requests_go_to_the_slave_that_was_made_master(
    cluster: ClusterDouble, client: Client
) -> None:
    assert client.routes.master("orders", "broker-b") == "broker-b:10911"
    cluster.brokers[1].address = "replica-b:10911"
    client.routes.forget("orders")
    assert client.routes.master("orders", "broker-b") == "replica-b:10911"


def test_the_master_of_a_broker_is_where_requests_go(client: Client) -> None:
    assert client.routes.master("orders", "broker-b") == "broker-b:10911"


def test_a_broker_without_a_master_may_have_one_later(
    cluster: ClusterDouble, client: Client
) -> None:
    cluster.brokers[1].is_master = False
    with pytest.raises(ConnectFailed, match=r"broker-b.*no master of this name"):
        client.routes.master("orders", "broker-b")
    cluster.brokers[1].is_master = True
    assert client.routes.master("orders", "broker-b") == "broker-b:10911"


def test_a_topic_without_writable_queues_cannot_be_written(
    cluster: ClusterDouble, client: Client
) -> None:
    for broker in cluster.brokers:
        broker.permissions["orders"] = 4
    assert len(client.routes.readable("orders")) == 4
    with pytest.raises(BrokerError, match="no writable queue"):
        client.routes.writable("orders")


def test_an_order_conf_fixes_where_keys_go(cluster: ClusterDouble, client: Client) -> None:
    cluster.name_server.order_confs["orders"] = "broker-b:1"
    (queue,) = client.routes.writable("orders")
    assert queue.broker_name == "broker-b"


def test_brokers_topics_and_features_are_told(cluster: ClusterDouble, client: Client) -> None:
    cluster.brokers[0].features = frozenset({"leaseEpoch"})
    assert [broker.name for broker in client.routes.brokers()] == ["broker-a", "broker-b"]
    assert client.routes.topics() == ("orders",)
    assert client.routes.features("orders") == {"leaseEpoch"}


def test_every_name_server_is_made_to_forget_a_deleted_topic(
    cluster: ClusterDouble, client: Client
) -> None:
    client.routes.delete("orders")
    assert asked(cluster) == ["names-1:9876", "names-2:9876"]
    cluster.network.arm(Refuse(ResponseCode.TOPIC_NOT_EXIST))
    client.routes.delete("orders")
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR, "no"))
    with pytest.raises(BrokerError, match="forgetting topic orders"):
        client.routes.delete("orders")


def test_a_closed_client_serves_no_route_from_before(client: Client) -> None:
    client.routes.route("orders")
    client.routes.forget("orders")
    client.close()
    with pytest.raises(ClientClosed):
        client.routes.route("orders")


@pytest.mark.parametrize(("topic", "answers"), [("payments", 1), ("orders", 2)])
def test_a_client_that_is_closed_while_it_asks_hears_that_and_not_what_is_unknown(
    client: Client, monkeypatch: pytest.MonkeyPatch, topic: str, answers: int
) -> None:
    client.routes.route("orders")
    client.routes.forget("orders")
    left = iter(range(answers))

    def answer_then_close(address: str, *_: object) -> RemotingCommand:
        if next(left, None) is None:
            raise ClientClosed(address)
        return RemotingCommand(ResponseCode.TOPIC_NOT_EXIST)

    monkeypatch.setattr(client.remoting, "call", answer_then_close)
    # Instead of the second name server's answer, or of which brokers run.
    with pytest.raises(ClientClosed):
        client.routes.route(topic)
