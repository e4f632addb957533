"""Readers of one topic on the embedded broker, made and stopped without a Spark."""

from collections.abc import Iterator

import pytest
from tests.support.brokers import unique_name
from tests.support.calls import NewReader

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.stream import OrderedStreamReader


@pytest.fixture
def client(embedded_broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(embedded_broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def topic(client: Client) -> str:
    name = unique_name("called")
    client.broker.create_topic(name, 2)
    return name


@pytest.fixture
def group() -> str:
    return unique_name("group")


@pytest.fixture
def source_options(embedded_broker: EmbeddedBroker, topic: str, group: str) -> dict[str, str]:
    return {
        "nameServer": embedded_broker.name_server,
        "subscribe": topic,
        "group": group,
        "requestTimeout": "15s",
    }


@pytest.fixture
def new_reader(source_options: dict[str, str]) -> Iterator[NewReader]:
    """Makes readers of the topic, as a new run would, and stops them at the end."""
    readers: list[OrderedStreamReader] = []

    def make(**changes: str | None) -> OrderedStreamReader:
        merged = source_options | {"leaseTimeout": "5s"} | changes
        given = {name: value for name, value in merged.items() if value is not None}
        readers.append(OrderedStreamReader(SourceOptions.parse(given, streaming=True)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()
