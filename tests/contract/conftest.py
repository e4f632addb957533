"""A client of the broker under contract."""

from collections.abc import Iterator

import pytest
from tests.support.brokers import Broker

from rmq_ordered.client import Client


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.name_server) as connected:
        yield connected
