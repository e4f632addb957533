"""Texts kept by name servers: written to all, read from all, one is enough."""

import pytest

from rmq_ordered.client import Client
from rmq_ordered.errors import BrokerError, ConnectFailed
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.testing import ClusterDouble, NameServerDouble, Refuse

ONE, TWO = "names-1:9876", "names-2:9876"


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble(name_servers=[ONE, TWO])
    cluster.network.listen(TWO, NameServerDouble(cluster.brokers).serve)
    return cluster


def test_what_was_stored_is_listed_until_it_is_deleted(client: Client) -> None:
    assert client.kv.list("space") == {}
    client.kv.put("space", "a", "1")
    client.kv.put("space", "b", "2")
    client.kv.put("other", "c", "3")
    assert client.kv.list("space") == {"a": "1", "b": "2"}
    client.kv.delete("space", "a")
    client.kv.delete("space", "never there")
    assert client.kv.list("space") == {"b": "2"}


def test_every_name_server_is_written_to(client: Client, cluster: ClusterDouble) -> None:
    client.kv.put("space", "a", "1")
    cluster.network.take_down(ONE)
    assert client.kv.list("space") == {"a": "1"}


def test_what_only_one_name_server_knows_is_found(client: Client, cluster: ClusterDouble) -> None:
    cluster.network.take_down(ONE)
    client.kv.put("space", "a", "1")
    cluster.network.bring_up(ONE)
    client.kv.put("space", "b", "2")
    assert client.kv.list("space") == {"a": "1", "b": "2"}


def test_without_any_name_server_nothing_succeeds(client: Client, cluster: ClusterDouble) -> None:
    cluster.network.take_down(ONE)
    cluster.network.take_down(TWO)
    with pytest.raises(ConnectFailed):
        client.kv.put("space", "a", "1")
    with pytest.raises(ConnectFailed):
        client.kv.list("space")


def test_a_refusal_is_an_error(client: Client, cluster: ClusterDouble) -> None:
    refusal = Refuse(ResponseCode.NO_PERMISSION, "not you")
    cluster.network.arm(refusal, RequestCode.PUT_KV_CONFIG)
    with pytest.raises(BrokerError, match="not you"):
        client.kv.put("space", "a", "1")
