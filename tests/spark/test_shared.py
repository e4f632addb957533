"""A query that shares its group with Apache's Java orderly consumer, on both brokers."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from tests.clients.order import keyed_messages, wait_until_assigned
from tests.spark.harness import Source, assert_in_order, produce, start_collecting
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client

QUEUES, KEYS, EACH = 4, 8, 10
PATIENCE_S = 120


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("shared", QUEUES)


@proves("shared-mode")
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


class Pair:
    """Two queries of one group; what they deliver is kept in one list, as it happens."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self.queries: dict[str, Any] = {}
        self.delivered: list[tuple[str, Row]] = []

    def start(self, name: str) -> None:
        def keep(batch: DataFrame, batch_id: int) -> None:
            self.delivered.extend((name, row) for row in batch.collect())

        self.queries[name] = (
            self._source.stream(leaseMode="shared")
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self._folder / name))
            .trigger(processingTime="200 milliseconds")
            .start()
        )

    def wait_for(self, total: int) -> None:
        """Until so many rows were delivered."""
        wait_until(lambda: len(self.delivered) >= total or self._failed(), "rows came", PATIENCE_S)
        assert not self._failed()

    def readers(self, first: int = 0) -> dict[int, set[str]]:
        """Who has read which queue since so many rows were delivered."""
        found: dict[int, set[str]] = {}
        for name, row in self.delivered[first:]:
            found.setdefault(row.queue, set()).add(name)
        return found

    def stop(self) -> None:
        for query in self.queries.values():
            query.stop()

    def _failed(self) -> list[Any]:
        return [query.exception() for query in self.queries.values() if query.exception()]


@proves("shared-mode")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_two_queries_of_a_group_read_their_shares_and_the_one_that_is_left_reads_everything(
    client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    def owned() -> list[int]:
        """How many queues each member owns now."""
        live = [row.client_id for row in client.broker.leases(group=group)[0] if row.is_live]
        return sorted(live.count(member) for member in set(live))

    def is_all_committed() -> bool:
        spans = client.broker.topic_stats(topic)
        found = client.broker.committed_offsets(group, list(spans))
        return all(found[queue] == span.maximum for queue, span in spans.items())

    pair = Pair(source, tmp_path)
    try:
        alone = produce(client, topic, keys=16, sequences=range(3))
        pair.start("first")
        pair.wait_for(alone)
        pair.start("second")
        wait_until(lambda: owned() == [QUEUES // 2] * 2, "each has its share", PATIENCE_S)
        both = alone + produce(client, topic, keys=16, sequences=range(3, 6))
        pair.wait_for(both)
        assert (
            sorted(pair.readers(alone).values(), key=sorted) == [{"first"}] * 2 + [{"second"}] * 2
        )
        # What is committed by now is not read again by whoever takes the queue over.
        wait_until(is_all_committed, "all is committed", PATIENCE_S)
        pair.queries["first"].stop()
        total = both + produce(client, topic, keys=16, sequences=range(6, 9))
        pair.wait_for(total)
        wait_until(is_all_committed, "all is committed again", PATIENCE_S)
    finally:
        pair.stop()
    assert pair.readers(both) == {queue: {"second"} for queue in range(QUEUES)}
    assert_in_order([row for _, row in pair.delivered], total)
