"""Routes: what name servers say, and which queues follow from it."""

import json
from typing import Any

import pytest
from tests.support.paths import GOLDEN

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import BrokerData, MessageQueue, QueueData, TopicRoute
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.routes import (
    cluster_request,
    forget_topic_request,
    parse_cluster,
    parse_route,
    parse_topic_list,
    readable_queues,
    route_request,
    topic_list_request,
    writable_queues,
)

RECORDED = json.loads((GOLDEN / "rocketmq-5.5.0-topic-stats.json").read_text())


def response(body: Any) -> RemotingCommand:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return RemotingCommand(0, body=data)


def queue_data(name: str, queues: int, perm: int = 6) -> dict[str, Any]:
    return {"brokerName": name, "perm": perm, "readQueueNums": queues, "writeQueueNums": queues}


def route(*queues: QueueData, masters: str = "ab", order_conf: str | None = None) -> TopicRoute:
    brokers = tuple(BrokerData(name, f"{name}:1" if name in masters else None) for name in "abc")
    return TopicRoute("orders", brokers, queues, order_conf)


def names(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


def test_requests_carry_the_topic_and_ask_for_strict_json() -> None:
    request = route_request("orders")
    assert request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
    assert request.ext_fields == {"acceptStandardJsonOnly": "true", "topic": "orders"}
    assert request.version >= 401
    assert cluster_request().code == RequestCode.GET_BROKER_CLUSTER_INFO
    assert topic_list_request().code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    assert forget_topic_request("orders").code == RequestCode.DELETE_TOPIC_IN_NAMESRV
    assert forget_topic_request("orders").ext("topic") == "orders"


@pytest.mark.parametrize(
    "name", ["GET_ROUTEINFO_BY_TOPIC", "GET_ROUTEINFO_BY_TOPIC asked by an old client"]
)
def test_the_route_of_a_real_name_server_is_read(name: str) -> None:
    parsed = parse_route(response(RECORDED[name].encode()), "golden")
    (broker,) = parsed.brokers
    assert broker.name == "broker-a"
    assert broker.master is not None
    assert broker.master.startswith("127.0.0.1:")
    assert parsed.queues == (QueueData("broker-a", 2, 2, True, True),)
    assert parsed.order_conf is None
    assert parsed.features == frozenset()


def test_the_cluster_table_of_a_real_name_server_is_read() -> None:
    (broker,) = parse_cluster(response(RECORDED["GET_BROKER_CLUSTER_INFO"].encode()))
    assert (broker.name, broker.master is not None) == ("broker-a", True)


def test_features_and_order_conf_are_read_when_they_are_there() -> None:
    body = {"orderTopicConf": "a:4", "rmqOrderedFeatures": ["leaseEpoch"]}
    parsed = parse_route(response(body), "orders")
    assert parsed.order_conf == "a:4"
    assert parsed.features == {"leaseEpoch"}


@pytest.mark.parametrize("conf", [None, "", 5])
def test_an_empty_order_conf_is_none(conf: Any) -> None:
    assert parse_route(response({"orderTopicConf": conf}), "orders").order_conf is None


def test_a_broker_without_id_0_has_no_master() -> None:
    body = {"brokerDatas": [{"brokerName": "a", "brokerAddrs": {"1": "slave:1"}}]}
    assert parse_route(response(body), "orders").brokers == (BrokerData("a", None),)


@pytest.mark.parametrize(
    ("perm", "readable", "writable"),
    [(7, True, True), (6, True, True), (4, True, False), (2, False, True), (0, False, False)],
)
def test_permission_bits_tell_what_may_be_done(perm: int, readable: bool, writable: bool) -> None:
    (data,) = parse_route(response({"queueDatas": [queue_data("a", 1, perm)]}), "orders").queues
    assert (data.is_readable, data.is_writable) == (readable, writable)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        {"brokerDatas": 5},
        {"brokerDatas": [{}]},
        {"brokerDatas": [{"brokerName": "a"}]},
        {"queueDatas": [{"brokerName": "a"}]},
        {"queueDatas": [queue_data("a", 1) | {"perm": "6"}]},
        {"rmqOrderedFeatures": 5},
        {"rmqOrderedFeatures": "leaseEpoch"},
    ],
)
def test_a_route_that_makes_no_sense_is_a_remote_protocol_error(body: Any) -> None:
    with pytest.raises(RemoteProtocolError, match=r"route of topic orders|JSON"):
        parse_route(response(body), "orders")


def test_the_cluster_lists_brokers_by_name() -> None:
    table = {
        "b": {"brokerName": "b", "brokerAddrs": {"0": "b:1"}},
        "a": {"brokerName": "a", "brokerAddrs": {"0": "a:1"}},
        "odd": 5,
    }
    parsed = parse_cluster(response({"brokerAddrTable": table}))
    assert parsed == (BrokerData("a", "a:1"), BrokerData("b", "b:1"))
    with pytest.raises(RemoteProtocolError, match="brokerAddrTable"):
        parse_cluster(response({}))


def test_the_topic_list_is_sorted() -> None:
    assert parse_topic_list(response({"topicList": ["b", "a"]})) == ("a", "b")
    assert parse_topic_list(response({})) == ()
    with pytest.raises(RemoteProtocolError, match="topicList"):
        parse_topic_list(response({"topicList": 5}))


def test_queues_come_in_rocketmq_order_whatever_the_order_of_the_route() -> None:
    both = route(QueueData("b", 2, 1, True, True), QueueData("a", 1, 2, True, True))
    assert names(readable_queues(both)) == ["a0", "b0", "b1"]
    assert names(writable_queues(both)) == ["a0", "a1", "b0"]


def test_queues_without_permission_or_master_are_left_out() -> None:
    odd = route(
        QueueData("a", 1, 1, False, True),
        QueueData("b", 1, 1, True, False),
        QueueData("c", 1, 1, True, True),
    )
    assert names(readable_queues(odd)) == ["b0"]
    assert names(writable_queues(odd)) == ["a0"]


def test_an_order_conf_fixes_the_writable_queues_even_while_a_broker_is_away() -> None:
    data = QueueData("a", 4, 4, True, True)
    assert names(writable_queues(route(data, order_conf="a:2;c:1"))) == ["a0", "a1", "c0"]
    assert names(writable_queues(route(data, order_conf="a:1;"))) == ["a0"]


@pytest.mark.parametrize("conf", ["a", "a:x", "a:1;;b:1", "a:-1"])
def test_an_order_conf_that_cannot_be_read_is_an_error_not_other_queues(conf: str) -> None:
    with pytest.raises(RemoteProtocolError, match="orderTopicConf of topic orders"):
        writable_queues(route(order_conf=conf))
