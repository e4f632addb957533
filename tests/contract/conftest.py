"""A client of the broker under contract."""

from collections.abc import Iterator

import pytest
from tests.support.brokers import Broker

from rmq_ordered.client import Client


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    # Patience for busy machines; what is tested is what is answered, not how fast.
    with Client(broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected
