"""Clients of the brokers under contract; a RocketMQ of two brokers; brokers that trust nobody."""

from collections.abc import Iterator

import pytest
from tests.support.brokers import Broker
from tests.support.jvm import SMALL_HEAP
from tests.support.missing import running
from tests.support.rocketmq import RocketMq
from tests.support.secured import Secured, secured_broker

from rmq_ordered.client import Client

# Its start alone takes as long as all of its tests on the embedded broker.
SECURED_ROCKETMQ = pytest.param("rocketmq", marks=pytest.mark.proof)
PAIR = ("broker-a", "broker-b")


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    # Patience for busy machines; what is tested is what is answered, not how fast.
    with Client(broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture(scope="module")
def pair() -> Iterator[RocketMq]:
    """One name server and two masters in one cluster; a test that kills one starts it again."""
    yield from running(RocketMq(brokers=PAIR, broker_java_options=SMALL_HEAP))


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("rocketmq", marks=pytest.mark.proof)]
)
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """A broker with TLS, client certificates and access control all switched on."""
    yield from secured_broker(request.param, tmp_path_factory.mktemp("secured"), SMALL_HEAP)
