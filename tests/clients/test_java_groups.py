"""Apache's Java clients and what a consumer group is more than order: retries, delays, filters."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients
from tests.support.waiting import wait_until

CONSUME_TIMEOUT_S = 60.0
# A broker may deliver at a full second before the time asked for (RocketMQ's timer wheel).
PRECISION_MS = 1000


class Groups:
    """Consumers and producers of one test, on one broker."""

    def __init__(self, broker: Broker, javaclients: JavaClients, home: Path) -> None:
        self._broker = broker
        self._clients = javaclients
        self._home = home
        self._consumers: list[Consumer] = []

    def consumer(self, topic: str, group: str, *extra: str) -> Consumer:
        """Starts a push consumer with a concurrent listener."""
        arguments = [*self._arguments(topic), "--group", group, *extra]
        consumer = Consumer("GroupConsumer", arguments, self._home)
        self._consumers.append(consumer)
        return consumer

    def send(self, topic: str, lines: Sequence[str]) -> list[int]:
        """Sends messages; returns when each was sent, in wall-clock milliseconds."""
        events = self._clients.run("DelayedProducer", self._arguments(topic), lines)
        return [event["at"] for event in events if event["event"] == "sent"]

    def kill(self) -> None:
        """Kills what is still running."""
        for consumer in self._consumers:
            consumer.kill()

    def _arguments(self, topic: str) -> list[str]:
        return ["--name-server", self._broker.name_server, "--topic", topic]


@pytest.fixture
def groups(broker: Broker, javaclients: JavaClients, tmp_path: Path) -> Iterator[Groups]:
    """Clients of the broker under test; killed at the test's end."""
    started = Groups(broker, javaclients, tmp_path)
    yield started
    started.kill()


def test_a_message_that_always_fails_is_retried_and_then_a_dead_letter(
    broker: Broker, groups: Groups
) -> None:
    topic, group = broker.create_topic("failing", 1), broker.unique("failing")
    groups.send(topic, ["n=1\tbad", "n=2\tgood"])

    fails = ["--fail-body", "bad", "--max-reconsume-times", "2"]
    with groups.consumer(topic, group, *fails) as consumer:
        consumer.wait_for_messages(1, CONSUME_TIMEOUT_S)
        consumer.wait_for_event("suspended", CONSUME_TIMEOUT_S, count=3)
        dead = f"%DLQ%{group}"
        wait_until(
            lambda: b"bad" in frames.pull(broker.broker_address, dead, 0, 0).body,
            f"{dead} has the message",
            CONSUME_TIMEOUT_S,
        )

    tries = consumer.suspended
    assert [message.reconsume_times for message in tries] == [0, 1, 2]
    waits = [
        after.started_at_ms - before.ended_at_ms for before, after in itertools.pairwise(tries)
    ]
    assert all(wait >= PRECISION_MS - 1 for wait in waits)


def test_delayed_messages_come_at_their_time_and_in_its_order(
    broker: Broker, groups: Groups
) -> None:
    topic, group = broker.create_topic("delayed", 1), broker.unique("delayed")
    with groups.consumer(topic, group) as consumer:
        consumer.wait_for_event("started", CONSUME_TIMEOUT_S)
        sent = groups.send(
            topic, ["level=2\tfive seconds", "after=3000\tthree seconds", "n=1\tat once"]
        )
        received = consumer.wait_for_messages(3, CONSUME_TIMEOUT_S)

    assert [message.body for message in received] == ["at once", "three seconds", "five seconds"]
    assert received[1].started_at_ms - sent[1] >= 3000 - 2 * PRECISION_MS
    assert received[2].started_at_ms - sent[0] >= 5000 - PRECISION_MS


def test_an_sql_filter_is_applied_by_the_broker(broker: Broker, groups: Groups) -> None:
    topic, group = broker.create_topic("filtered", 1), broker.unique("filtered")
    groups.send(topic, [f"size={size}\tsize {size}" for size in range(10)])

    with groups.consumer(topic, group, "--sql", "size BETWEEN 3 AND 5 OR size = 9") as consumer:
        received = consumer.wait_for_messages(4, CONSUME_TIMEOUT_S)

    # A concurrent listener handles them in any order.
    bodies = sorted(message.body for message in received)
    assert bodies == ["size 3", "size 4", "size 5", "size 9"]


def test_mqadmin_resets_a_group_and_its_consumer_starts_over(
    broker: Broker, groups: Groups, javaclients: JavaClients
) -> None:
    topic, group = broker.create_topic("reset", 1), broker.unique("reset")
    groups.send(topic, [f"n={n}\tmessage {n}" for n in range(3)])

    with groups.consumer(topic, group) as consumer:
        consumer.wait_for_messages(3, CONSUME_TIMEOUT_S)
        javaclients.mqadmin(
            broker.name_server, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0"
        )
        received = consumer.wait_for_messages(6, CONSUME_TIMEOUT_S)

    assert sorted(message.body for message in received[3:]) == [
        "message 0",
        "message 1",
        "message 2",
    ]
