"""Queries that pop, on a real Spark and both brokers: sharing, restarts, kills, order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.spark.drivers import Driver
from tests.spark.harness import (
    Collected,
    Source,
    collect_available,
    failure_of,
    finish,
    produce,
    start_collecting,
)
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer, PopConsumer
from rmq_ordered.spark.lag import OffsetCommitListener

PATIENCE_S = 180
OFTEN = {"processingTime": "200 milliseconds"}
SELDOM = {"processingTime": "1 hour"}
# Long beside the pauses of a busy machine, which would bring messages back too early.
SHORT_MS = 10_000


@pytest.fixture
def popped(spark: SparkSession, pop_options: dict[str, str]) -> Source:
    """A popping source of the topic."""
    return Source(spark, pop_options | {"invisibleTime": f"{SHORT_MS}ms"})


def values(rows: list[Any]) -> list[tuple[str, int]]:
    return [(row.key, int(bytes(row.value))) for row in rows]


def all_values(keys: int, count: int) -> list[tuple[str, int]]:
    return sorted((f"key-{key}", number) for key in range(keys) for number in range(count))


def is_through(query: StreamingQuery, done: Callable[[], bool]) -> Callable[[], bool]:
    """Whether it is done, or will never be because the query has failed."""
    return lambda: done() or query.exception() is not None


def expect_settled(client: Client, topic: str, group: str) -> None:
    """Nothing that was popped before comes again: a message popped later comes again alone."""
    OrderedProducer(client, topic).send("last", b"marker")
    consumer = PopConsumer(client, group, topic, invisible_ms=SHORT_MS)
    seen: list[tuple[bytes, int]] = []

    def is_back() -> bool:
        seen.extend((m.message.body, m.message.reconsume_times) for m in consumer.pop(wait_ms=500))
        return any(times > 0 for _, times in seen)

    wait_until(is_back, "the marker came again", PATIENCE_S)
    assert {body for body, _ in seen} == {b"marker"}


@proves("pop-ack-after-finish")
def test_available_now_pops_everything_in_limited_batches_and_acknowledges_the_last_too(
    client: Client, topic: str, group: str, popped: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=6, sequences=range(20))
    collected = collect_available(popped.stream(maxOffsetsPerTrigger=50), tmp_path / "cp")
    assert sorted(values(collected.rows)) == all_values(6, 20)
    assert max(len(batch) for batch in collected.batches) <= 50
    assert total == len(collected.rows)
    assert {row.topic for row in collected.rows} == {topic}
    expect_settled(client, topic, group)


@proves("pop-repeated-batch-same-rows")
def test_a_failed_batch_is_repeated_to_the_letter_and_its_messages_come_once_more(
    client: Client, topic: str, popped: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=4, sequences=range(10))
    attempts: list[list[Any]] = []

    def fail(batch: DataFrame, batch_id: int) -> None:
        attempts.append(batch.collect())
        raise RuntimeError("the disk is full")

    query = (
        popped.stream()
        .writeStream.foreachBatch(fail)
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    assert "the disk is full" in failure_of(query)
    again, collected = start_collecting(popped.stream(), tmp_path / "cp", **OFTEN)
    try:
        done = is_through(again, lambda: len(collected.rows) >= 2 * total)
        wait_until(done, "the batch and its messages came again", PATIENCE_S)
        assert again.exception() is None
    finally:
        again.stop()
    assert collected.batches[0] == attempts[0]
    later = [row for batch in collected.batches[1:] for row in batch]
    assert sorted(values(later)) == sorted(values(attempts[0])) == all_values(4, 10)
    assert {row.reconsume_times for row in attempts[0]} == {0}
    assert {row.reconsume_times for row in later} == {1}
    assert {row.topic for row in later} == {topic}


@pytest.mark.both_brokers
@proves("pop-queries-share")
def test_two_queries_of_a_group_share_everything(
    client: Client, topic: str, popped: Source, tmp_path: Path
) -> None:
    running = [
        start_collecting(popped.stream(maxOffsetsPerTrigger=10), tmp_path / name, **OFTEN)
        for name in ("one", "other")
    ]
    sent = 0

    def rows() -> list[Any]:
        return [row for _, collected in running for row in collected.rows]

    def is_shared() -> bool:
        nonlocal sent
        for query, _ in running:
            assert query.exception() is None
        if len(rows()) < sent * 4:
            return False
        if all(len(collected.batches) >= 2 for _, collected in running):
            return True
        produce(client, topic, keys=4, sequences=range(sent, sent + 15))
        sent += 15
        return False

    try:
        wait_until(is_shared, "both had their part", PATIENCE_S)
    finally:
        for query, _ in running:
            query.stop()
    assert sorted(values(rows())) == all_values(4, sent)


@pytest.mark.proof
@proves("pop-killed-query")
def test_what_a_killed_query_had_popped_comes_to_the_other_after_the_invisible_time(
    client: Client,
    topic: str,
    popped: Source,
    tmp_path: Path,
) -> None:
    produce(client, topic, keys=4, sequences=range(10))
    options = popped.options | {"maxOffsetsPerTrigger": "25"}
    checkpoint = tmp_path / "killed"
    with Driver(options, checkpoint, tmp_path / "out", stuck=True) as driver:
        planned = (checkpoint / "offsets" / "0").is_file
        wait_until(planned, "a batch was planned", PATIENCE_S)
        over_ms = client.clock.monotonic_ms() + 2 * SHORT_MS
        query, collected = start_collecting(popped.stream(), tmp_path / "cp", **OFTEN)
        try:
            done = is_through(query, lambda: len(collected.rows) >= 15)
            wait_until(done, "the rest came to the other query", PATIENCE_S)
            # Hidden anew for as long as its owner lives, however long its batch takes.
            is_over = is_through(query, lambda: client.clock.monotonic_ms() > over_ms)
            wait_until(is_over, "the invisible time was over twice", PATIENCE_S)
            assert len(collected.rows) == 15
            driver.kill()
            done = is_through(query, lambda: len(collected.rows) >= 40)
            wait_until(done, "the killed query's messages came too", PATIENCE_S)
            assert query.exception() is None
        finally:
            query.stop()
    assert sorted(values(collected.rows)) == all_values(4, 10)
    assert sum(row.reconsume_times == 1 for row in collected.rows) == 25
    assert driver.rows == []


@proves("pop-queue-order")
def test_orderly_queries_of_a_group_keep_the_order_of_every_queue(
    client: Client, topic: str, popped: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=6, sequences=range(30))
    together = Collected()
    mine: dict[str, list[Any]] = {"one": [], "other": []}

    def keep(name: str) -> Callable[[DataFrame, int], None]:
        def kept(batch: DataFrame, batch_id: int) -> None:
            rows = batch.collect()
            together.batches.append(rows)
            mine[name] += rows

        return kept

    queries = [
        popped.stream(popOrder="queue", maxOffsetsPerTrigger=12, invisibleTime="60s")
        .writeStream.foreachBatch(keep(name))
        .option("checkpointLocation", str(tmp_path / name))
        .trigger(**OFTEN)
        .start()
        for name in mine
    ]
    try:

        def is_done() -> bool:
            assert all(query.exception() is None for query in queries)
            return len(together.rows) >= total

        wait_until(is_done, "everything came", PATIENCE_S)
    finally:
        for query in queries:
            query.stop()
    for queue in client.routes.readable(topic):
        found = [row.offset for row in together.rows if row.queue == queue.queue_id]
        assert found == list(range(client.broker.max_offset(queue)))
    assert all(mine.values())


@proves("pop-listener-acks")
def test_a_listener_has_a_batch_acknowledged_although_the_next_trigger_is_far_away(
    client: Client, topic: str, group: str, popped: Source, spark: SparkSession, tmp_path: Path
) -> None:
    produce(client, topic, keys=4, sequences=range(5))
    listener = OffsetCommitListener(popped.options)
    spark.streams.addListener(listener)
    try:
        query, collected = start_collecting(popped.stream(), tmp_path / "cp", **SELDOM)
        try:
            done = is_through(query, lambda: len(collected.rows) >= 20)
            wait_until(done, "the batch is through", PATIENCE_S)
            told = f"rmq-ordered-pop@{group}"
            wait_until(lambda: client.kv.list(told) != {}, "the listener has told", PATIENCE_S)
        finally:
            query.stop()
    finally:
        spark.streams.removeListener(listener)
        listener.close()
    expect_settled(client, topic, group)


def test_once_and_batch_reads_are_refused_with_the_reason(popped: Source, tmp_path: Path) -> None:
    query, _ = start_collecting(popped.stream(), tmp_path / "cp", once=True)
    assert "availableNow or processingTime" in failure_of(query)
    with pytest.raises(Exception, match="nothing could be acknowledged; use readStream"):
        popped.batch().collect()
    with pytest.raises(Exception, match="a duration from 5s to 12h"):
        popped.stream(invisibleTime="1s")
    with pytest.raises(Exception, match="no leaseMode with consumeMode=pop"):
        popped.stream(leaseMode="exclusive")


def test_a_query_that_is_stopped_leaves_the_topic_to_the_next_one(
    client: Client, topic: str, popped: Source, tmp_path: Path
) -> None:
    produce(client, topic, keys=4, sequences=range(5))
    query, collected = start_collecting(popped.stream(), tmp_path / "cp")
    finish(query)
    assert len(collected.rows) == 20
    produce(client, topic, keys=4, sequences=range(5, 8))
    after = collect_available(popped.stream(), tmp_path / "cp")
    assert sorted(values(collected.rows + after.rows)) == all_values(4, 8)
