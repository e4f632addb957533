"""Clients of the brokers under contract; a RocketMQ of two brokers; brokers that trust nobody."""

from collections.abc import Iterator

import pytest
from tests.support.brokers import Broker
from tests.support.jvm import SMALL_JVM
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.rocketmq import RocketMq
from tests.support.secured import Secured, secured_embedded, secured_rocketmq

from rmq_ordered.client import Client

PAIR = ("broker-a", "broker-b")
# Several more JVMs on a machine that runs some already.
SMALL_HEAP = (*SMALL_JVM, "-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m")


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    # Patience for busy machines; what is tested is what is answered, not how fast.
    with Client(broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture(scope="module")
def pair() -> Iterator[RocketMq]:
    """One name server and two masters in one cluster; a test that kills one starts it again."""
    cluster = RocketMq(brokers=PAIR, broker_java_options=SMALL_HEAP)
    try:
        cluster.start()
    except ToolUnavailable as missing:
        give_up(missing)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module", params=["embedded", "rocketmq"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """A broker with TLS, client certificates and access control all switched on."""
    folder = tmp_path_factory.mktemp("secured")
    if request.param == "embedded":
        yield from secured_embedded(folder)
        return
    try:
        yield from secured_rocketmq(folder, SMALL_HEAP)
    except ToolUnavailable as missing:
        give_up(missing)
