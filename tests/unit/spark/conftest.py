"""Readers of a cluster in memory: everything is real but the network, the broker and the time."""

from collections.abc import Callable, Iterator

import pytest
from tests.support.calls import NewReader

from rmq_ordered.client import Client
from rmq_ordered.model import MessageQueue
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.batch import OrderedBatchReader
from rmq_ordered.spark.stream import OrderedStreamReader
from rmq_ordered.testing import ClusterDouble

OPTIONS = {"nameServer": "names-1:9876", "subscribe": "orders", "group": "billing"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterDouble:
    """One broker with a topic `orders` of two queues, ten messages each."""
    double = ClusterDouble()
    for queue in double.brokers[0].add_topic("orders", 2):
        double.brokers[0].fill(queue, 10)
    # Stored at some time, read at a later one.
    double.clock.advance_ms(1_000)
    for module in ("ownership", "executor"):
        monkeypatch.setattr(
            f"rmq_ordered.spark.{module}.open_client", lambda options: double.client()
        )
    return double


@pytest.fixture
def queues(cluster: ClusterDouble) -> tuple[MessageQueue, ...]:
    return tuple(sorted(cluster.brokers[0].queues))


@pytest.fixture
def client(cluster: ClusterDouble) -> Iterator[Client]:
    with cluster.client() as connected:
        yield connected


@pytest.fixture
def new_reader(cluster: ClusterDouble) -> Iterator[NewReader]:
    readers: list[OrderedStreamReader] = []

    def make(**changes: str | None) -> OrderedStreamReader:
        given = {name: value for name, value in (OPTIONS | changes).items() if value is not None}
        readers.append(OrderedStreamReader(SourceOptions.parse(given, streaming=True)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


@pytest.fixture
def new_batch(cluster: ClusterDouble) -> Callable[..., OrderedBatchReader]:
    def make(**changes: str | None) -> OrderedBatchReader:
        given = {name: value for name, value in (OPTIONS | changes).items() if value is not None}
        return OrderedBatchReader(SourceOptions.parse(given, streaming=False))

    return make
