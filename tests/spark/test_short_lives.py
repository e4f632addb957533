"""A RocketMQ of the test's own, where locks do not live long."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.drivers import Driver, assert_whole_and_in_order, committed
from tests.spark.harness import produce
from tests.support.brokers import Broker
from tests.support.jvm import SMALL_JVM
from tests.support.missing import running
from tests.support.promises import proves
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered.client import Client

pytestmark = pytest.mark.proof

# RocketMQ's own is a minute. Shorter than the time between two renewals is no harm while nobody
# else asks, and harder on the sleeper than it will ever be: it trusts its lock for 30 s.
LOCK_MS = 5_000


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMq]:
    """Locks end after seconds."""
    heap = (*SMALL_JVM, "-Xmx256m", "-XX:MaxDirectMemorySize=256m")
    lock = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LOCK_MS}"
    yield from running(RocketMq(broker_java_options=(*heap, lock)))


@pytest.fixture
def broker(rocketmq: RocketMq) -> Broker:
    return Broker(rocketmq.name_server, rocketmq.broker_address, "rocketmq")


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("short-lived", 2)


@proves("sleeping-driver-no-harm")
def test_a_driver_that_slept_while_another_took_its_queues_over_does_no_harm_on_rocketmq(
    broker: Broker, client: Client, topic: str, group: str, tmp_path: Path
) -> None:
    options = {
        "nameServer": broker.name_server,
        "subscribe": topic,
        "group": group,
        "requestTimeout": "15s",
    }

    def is_all_committed() -> bool:
        return sum(committed(client, topic, group).values()) == total

    total = produce(client, topic, keys=10, sequences=range(5))
    with Driver(options, tmp_path / "sleeper", tmp_path / "first") as sleeper:
        sleeper.wait_for_rows(total)
        wait_until(is_all_committed, "the first has committed", 60)
        sleeper.send(signal.SIGSTOP)
        total += produce(client, topic, keys=10, sequences=range(5, 8))
        # With a checkpoint of its own: begins where the group stands.
        with Driver(options, tmp_path / "other", tmp_path / "second") as successor:
            successor.wait_for_rows(30)
            wait_until(is_all_committed, "the second has committed", 60)
            before = committed(client, topic, group)
            sleeper.send(signal.SIGCONT)
            assert sleeper.wait_for_end() == 3
            assert "QueueLeaseLost" in str(sleeper.failure)
            assert committed(client, topic, group) == before
            total += produce(client, topic, keys=10, sequences=range(8, 9))
            wait_until(is_all_committed, "the second goes on", 60)
    assert_whole_and_in_order(sleeper.rows + successor.rows, total)
