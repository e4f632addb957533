"""Popping readers of a cluster in memory: everything is real but network, brokers and time."""

from collections.abc import Callable, Iterator

import pytest
from tests.support.popping import PoppingDouble, popping

from rmq_ordered.model import MessageQueue
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.popping.stream import PoppingStreamReader
from rmq_ordered.testing import ClusterDouble

NewPopper = Callable[..., PoppingStreamReader]
OPTIONS = {
    "nameServer": "names-1:9876",
    "subscribe": "orders",
    "group": "packing",
    "consumeMode": "pop",
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterDouble:
    """Two brokers with a topic `orders` of two queues each, fifty messages in every one."""
    double = ClusterDouble(brokers=2)
    for broker in double.brokers:
        for queue in broker.add_topic("orders", 2):
            broker.fill(queue, 50)
    # Stored at some time, popped at a later one.
    double.clock.advance_ms(1_000)
    for module in ("run", "executor"):
        monkeypatch.setattr(
            f"rmq_ordered.spark.popping.{module}.open_client", lambda options: double.client()
        )
    return double


@pytest.fixture
def brokers(cluster: ClusterDouble) -> list[PoppingDouble]:
    return popping(cluster)


@pytest.fixture
def queues(cluster: ClusterDouble) -> list[MessageQueue]:
    return sorted(queue for broker in cluster.brokers for queue in broker.queues)


@pytest.fixture
def new_popper(brokers: list[PoppingDouble]) -> Iterator[NewPopper]:
    readers: list[PoppingStreamReader] = []

    def make(**changes: str | None) -> PoppingStreamReader:
        given = {name: value for name, value in (OPTIONS | changes).items() if value is not None}
        options = SourceOptions.parse(given, streaming=True)
        assert options.popping is not None
        readers.append(PoppingStreamReader(options, options.popping))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()
