"""This project's consumer in the hands of Apache's mqadmin, and when its broker is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.waiting import wait_until

from rmq_ordered.client import (
    Client,
    ConsumeResult,
    ConsumerSettings,
    MessageBatch,
    OrderedConsumer,
    OrderedProducer,
)
from rmq_ordered.embedded import EmbeddedBroker

SOON_S = 60
QUICK = ConsumerSettings(rebalance_ms=1_000, heartbeat_ms=1_000, commit_ms=100)


class Handled:
    """A listener that remembers bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, batch: MessageBatch) -> ConsumeResult:
        self.bodies += [message.body for message in batch]
        return ConsumeResult.SUCCESS

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.bodies) >= count, f"{count} were handled", SOON_S)


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.name_server, request_timeout_ms=15_000) as client:
        yield client


def test_mqadmin_sees_the_consumer_and_what_it_does(
    broker: Broker, client: Client, javaclients: JavaClients
) -> None:
    topic, group, handled = broker.create_topic("seen", 1), broker.unique("seen"), Handled()
    OrderedProducer(client, topic).send("key", b"one")
    with OrderedConsumer(client, group, [topic], handled, QUICK) as consumer:
        handled.wait_for(1)

        def ask(command: str, *more: str) -> str:
            return javaclients.mqadmin(broker.name_server, command, "-g", group, *more)

        assert consumer.client_id in ask("consumerConnection")
        details = ask("consumerStatus", "-i", consumer.client_id)
    assert "PROP_CONSUMEORDERLY" in details
    assert topic in details


def test_an_operator_sets_the_offsets_of_a_running_consumer_back(
    broker: Broker, client: Client, javaclients: JavaClients
) -> None:
    topic, group, handled = broker.create_topic("reset", 1), broker.unique("reset"), Handled()
    producer = OrderedProducer(client, topic)
    for number in range(3):
        producer.send("key", b"%d" % number)
    (queue,) = client.routes.readable(topic)
    with OrderedConsumer(client, group, [topic], handled, QUICK):
        handled.wait_for(3)
        wait_until(
            lambda: client.broker.committed_offset(group, queue) == 3, "all is committed", SOON_S
        )
        arguments = ["-g", group, "-t", topic, "-s", "0"]
        javaclients.mqadmin(broker.name_server, "resetOffsetByTime", *arguments)
        handled.wait_for(6)
        wait_until(lambda: client.broker.committed_offset(group, queue) == 3, "all again", SOON_S)
    assert handled.bodies == [b"0", b"1", b"2"] * 2


def test_the_consumer_outlives_a_crash_of_its_broker(tmp_path: Path) -> None:
    data, handled = tmp_path / "broker", Handled()
    with EmbeddedBroker(data=data) as first:
        broker = Broker(first.name_server, first.name_server, "embedded")
        topic, group = broker.create_topic("outlived", 2), broker.unique("outlived")
        client = Client(broker.name_server, request_timeout_ms=5_000)
        producer = OrderedProducer(client, topic)
        producer.send("key", b"before")
        consumer = OrderedConsumer(client, group, [topic], handled, QUICK).start()
        handled.wait_for(1)
        first.kill()
    with EmbeddedBroker(data=data, listen=broker.name_server):
        producer.send("key", b"after")
        handled.wait_for(2)
        wait_until(lambda: b"after" in handled.bodies, "what came later was handled", SOON_S)
        consumer.close()
    client.close()
    # What was not committed before the crash may come twice; the order of first deliveries holds.
    assert list(dict.fromkeys(handled.bodies)) == [b"before", b"after"]
