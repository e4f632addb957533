"""Clients of two generations, and brokers whose leases end soon."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.jvm import SMALL_JVM
from tests.support.maven import ROCKETMQ_4, ROCKETMQ_5, Release, ToolUnavailable
from tests.support.missing import give_up
from tests.support.rocketmq import RocketMq

from rmq_ordered.embedded import EmbeddedBroker

# Four renewals of the clients here, which makes them every 2 s. RocketMQ's default is a minute.
LEASE_MS = 8_000


@pytest.fixture(params=[ROCKETMQ_5, ROCKETMQ_4], ids=lambda release: f"client {release.version}")
def anyclients(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClients]:
    """Apache's Java clients, the test running once with the newest and once with 4.9."""
    release: Release = request.param
    try:
        clients = JavaClients(tmp_path_factory.mktemp("java"), release)
    except ToolUnavailable as missing:
        give_up(missing)
    with clients:
        yield clients


@pytest.fixture(scope="module", params=["embedded", "rocketmq"])
def short_leases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Either broker, where the queues of a consumer that vanished are free after `LEASE_MS`."""
    data = tmp_path_factory.mktemp("short-leases")
    running = _embedded(data) if request.param == "embedded" else _rocketmq()
    yield from running


def _embedded(data: Path) -> Iterator[Broker]:
    with EmbeddedBroker(data=data, settings={"lockMaxLiveTimeMs": str(LEASE_MS)}) as embedded:
        yield Broker(embedded.name_server, embedded.name_server, "embedded")


def _rocketmq() -> Iterator[Broker]:
    lease = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LEASE_MS}"
    options = (*SMALL_JVM, "-Xmx512m", "-XX:MaxDirectMemorySize=512m", lease)
    cluster = RocketMq(broker_java_options=options)
    try:
        cluster.start()
    except ToolUnavailable as missing:
        give_up(missing)
    yield Broker(cluster.name_server, cluster.broker_address, "rocketmq")
    cluster.stop()
