"""The name server in memory, read with the real parsers."""

import pytest

from rmq_ordered.model import BrokerData, QueueData
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.routes import (
    cluster_request,
    forget_topic_request,
    parse_cluster,
    parse_route,
    parse_topic_list,
    route_request,
    topic_list_request,
)
from rmq_ordered.testing import BrokerDouble, ManualClock, NameServerDouble


@pytest.fixture
def brokers() -> list[BrokerDouble]:
    clock = ManualClock()
    brokers = [BrokerDouble(clock, f"{name}:1", name, frozenset({"x"})) for name in ("a", "b")]
    brokers[0].add_topic("orders", 4)
    return brokers


@pytest.fixture
def server(brokers: list[BrokerDouble]) -> NameServerDouble:
    return NameServerDouble(brokers)


def test_a_route_lists_the_brokers_that_have_the_topic(server: NameServerDouble) -> None:
    route = parse_route(server.serve(route_request("orders")), "orders")
    assert route.brokers == (BrokerData("a", "a:1"),)
    assert route.queues == (QueueData("a", 4, 4, True, True),)
    assert route.features == {"x"}
    assert route.order_conf is None


def test_masters_permissions_and_order_conf_are_the_test_s_to_set(
    server: NameServerDouble, brokers: list[BrokerDouble]
) -> None:
    brokers[0].is_master = False
    brokers[0].permissions["orders"] = 4
    server.order_confs["orders"] = "a:4"
    route = parse_route(server.serve(route_request("orders")), "orders")
    assert route.brokers == (BrokerData("a", None),)
    assert not route.queues[0].is_writable
    assert route.order_conf == "a:4"


def test_a_topic_that_no_broker_has_is_unknown(server: NameServerDouble) -> None:
    assert server.serve(route_request("nope")).code == ResponseCode.TOPIC_NOT_EXIST


def test_brokers_and_topics_are_listed_and_forgotten(server: NameServerDouble) -> None:
    assert [b.name for b in parse_cluster(server.serve(cluster_request()))] == ["a", "b"]
    assert parse_topic_list(server.serve(topic_list_request())) == ("orders",)
    assert server.serve(forget_topic_request("orders")).code == 0
    assert server.forgotten == ["orders"]


def test_anything_else_is_not_supported(server: NameServerDouble) -> None:
    assert server.serve(RemotingCommand(11)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
