"""A query that shares its group with Apache's Java orderly consumer, on both brokers."""

from pathlib import Path

import pytest
from tests.clients.order import keyed_messages, wait_until_assigned
from tests.spark.harness import Source, start_collecting
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients
from tests.support.waiting import wait_until

QUEUES, KEYS, EACH = 4, 8, 10
PATIENCE_S = 120


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("shared", QUEUES)


def test_a_query_joins_a_java_consumer_shares_its_queues_and_gives_them_back(
    broker: Broker,
    topic: str,
    group: str,
    source: Source,
    javaclients: JavaClients,
    tmp_path: Path,
) -> None:
    sent: list[str] = []

    def send() -> None:
        more = keyed_messages(KEYS, EACH, first=len(sent) // KEYS)
        javaclients.send_ordered(broker.name_server, topic, more)
        sent.extend(value for _, value in more)

    def handled(consumer: Consumer) -> list[str]:
        return [message.body for message in consumer.received]

    java = javaclients.orderly_consumer(broker.name_server, topic, group)
    wait_until_assigned(java, QUEUES)
    send()
    java.wait_for_messages(len(sent), PATIENCE_S)
    query, collected = start_collecting(
        source.stream(leaseMode="shared"), tmp_path / "cp", processingTime="200 milliseconds"
    )

    def ours() -> list[str]:
        return [bytes(row.value).decode() for row in collected.rows]

    def is_through() -> bool:
        return {*handled(java), *ours()} >= set(sent) or query.exception() is not None

    try:
        wait_until(lambda: len(java.assigned_queue_ids or []) == 2, "java left half", PATIENCE_S)
        send()
        wait_until(is_through, "everything was handled by somebody", PATIENCE_S)
        assert query.exception() is None
        assert {row.queue for row in collected.rows}.isdisjoint(java.assigned_queue_ids or [])
        assert len({row.queue for row in collected.rows}) == QUEUES // 2
    finally:
        query.stop()
    wait_until_assigned(java, QUEUES)
    send()
    wait_until(is_through, "java handles everything again", PATIENCE_S)
    once = [*handled(java), *ours()]
    # What was finished just before the stop may not have been committed: java sees it again.
    assert set(once) == set(sent)
    per_key: dict[str, list[int]] = {}
    for value in dict.fromkeys(ours()):
        key, _, number = value.partition("#")
        per_key.setdefault(key, []).append(int(number))
    assert all(numbers == sorted(numbers) for numbers in per_key.values())
    assert len(ours()) == len(set(ours()))
