"""The client as a whole: addresses, laziness, closing."""

import pytest

from rmq_ordered.client import Client
from rmq_ordered.errors import ConnectionLost, OptionError
from rmq_ordered.net.system import SystemClock
from rmq_ordered.testing import ClusterDouble


def test_nothing_is_connected_before_it_is_needed() -> None:
    cluster = ClusterDouble()
    with cluster.client() as client:
        assert cluster.network.transports == []
        client.routes.topics()
        assert len(cluster.network.transports) == 1


def test_leaving_the_context_closes_every_connection() -> None:
    cluster = ClusterDouble()
    cluster.brokers[0].add_topic("orders", 1)
    with cluster.client() as client:
        client.broker.topic_stats("orders")
    assert len(cluster.network.transports) == 2
    assert all(transport.is_closed for transport in cluster.network.transports)
    with pytest.raises(ConnectionLost, match="closed"):
        client.routes.topics()
    client.close()


def test_name_servers_are_text_or_a_tuple() -> None:
    assert Client("a:1; b:2").routes.name_servers == "a:1;b:2"
    assert Client(("a:1", "b:2")).routes.name_servers == "a:1;b:2"


def test_an_address_that_cannot_be_read_is_an_option_error() -> None:
    with pytest.raises(OptionError, match=r"nameServer.*host:port") as caught:
        Client("nowhere")
    assert caught.value.found == "nowhere"


def test_the_machine_is_the_default_clock() -> None:
    client = Client("a:1")
    assert isinstance(client.clock, SystemClock)
    assert client.request_timeout_ms == 3_000
