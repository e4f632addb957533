"""The source on both brokers: rows, order, offsets, limits, restarts."""

from pathlib import Path

import pytest
from chispa.schema_comparer import assert_schema_equality
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.spark.harness import (
    Source,
    assert_in_order,
    collect_available,
    failure_of,
    finish,
    owners,
    produce,
    start_collecting,
)
from tests.support.brokers import Broker
from tests.support.ports import free_base_port
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("source", 3)


def committed(client: Client, group: str, topic: str) -> list[int | None]:
    queues = client.routes.readable(topic)
    return [client.broker.committed_offset(group, queue) for queue in queues]


def ends(client: Client, topic: str) -> list[int]:
    return [span.maximum for span in client.broker.topic_stats(topic).values()]


def test_a_batch_read_gives_every_message_in_queue_order(
    client: Client, topic: str, source: Source
) -> None:
    total = produce(client, topic, keys=20, sequences=range(10))
    rows = source.batch().collect()
    assert_in_order(rows, total)
    assert {row.topic for row in rows} == {topic}
    expected = StructType.fromDDL(
        "key string, value binary, topic string, broker string, queue int, offset bigint, "
        "timestamp timestamp, born_timestamp timestamp, tags string, index_keys string, "
        "message_id string, reconsume_times int"
    )
    assert_schema_equality(source.batch().schema, expected)
    with_properties = source.batch(includeProperties="true").first()
    assert with_properties.properties["__SHARDINGKEY"] == with_properties.key


@pytest.mark.both_brokers
@proves("rows-in-offset-order", "commit-finished-only")
def test_a_stream_reads_everything_once_in_limited_batches_and_commits_for_the_group(
    client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=30, sequences=range(10))
    collected = collect_available(source.stream(maxOffsetsPerTrigger=100), tmp_path / "cp")
    assert_in_order(collected.rows, total)
    assert [len(batch) for batch in collected.batches] == [100, 100, 100]
    assert committed(client, group, topic) == ends(client, topic)
    wait_until(lambda: owners(client, group, topic) == {True}, "the queues are free", 20)


@pytest.mark.both_brokers
@proves("next-batch-continues")
def test_a_restarted_stream_goes_on_where_it_stopped(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    first = produce(client, topic, keys=10, sequences=range(5))
    before = collect_available(source.stream(), tmp_path / "cp")
    second = produce(client, topic, keys=10, sequences=range(5, 9))
    after = collect_available(source.stream(), tmp_path / "cp")
    assert len(before.rows) == first
    assert_in_order(before.rows + after.rows, first + second)


def test_a_new_query_of_the_group_begins_at_the_committed_offsets(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    produce(client, topic, keys=10, sequences=range(3))
    collect_available(source.stream(), tmp_path / "first")
    later = produce(client, topic, keys=10, sequences=range(3, 5))
    collected = collect_available(source.stream(), tmp_path / "second")
    assert sorted({int(bytes(row.value)) for row in collected.rows}) == [3, 4]
    assert len(collected.rows) == later


def test_latest_reads_only_what_comes_after_the_start(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    produce(client, topic, keys=10, sequences=range(3))
    query, collected = start_collecting(
        source.stream(startingOffsets="latest"), tmp_path / "cp", processingTime="200 milliseconds"
    )
    try:
        # The start is fixed once the first offsets are in the log of the checkpoint.
        wait_until(lambda: query.lastProgress is not None or query.exception(), "it has begun", 180)
        later = produce(client, topic, keys=10, sequences=range(3, 4))
        wait_until(lambda: len(collected.rows) >= later or query.exception(), "rows came", 180)
    finally:
        query.stop()
    assert [int(bytes(row.value)) for row in collected.rows] == [3] * later


@proves("stop-frees-queues")
def test_a_stopped_query_gives_its_queues_back_at_once(
    client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    query, collected = start_collecting(
        source.stream(), tmp_path / "cp", processingTime="200 milliseconds"
    )
    wait_until(lambda: len(collected.rows) >= total or query.exception(), "rows came", 180)
    # The next trigger commits what this one finished.
    wait_until(lambda: committed(client, group, topic) == ends(client, topic), "committed", 20)
    assert owners(client, group, topic) == {False}
    query.stop()
    wait_until(lambda: owners(client, group, topic) == {True}, "the queues are free", 20)


def test_queues_added_to_the_topic_are_read_from_their_beginning(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    first = produce(client, topic, keys=10, sequences=range(2))
    collect_available(source.stream(), tmp_path / "cp")
    client.broker.create_topic(topic, 5)
    wait_until(lambda: len(_fresh_queues(client, topic)) == 5, "the route shows five queues", 10)
    second = produce(client, topic, keys=50, sequences=range(1))
    after = collect_available(source.stream(), tmp_path / "cp")
    assert len(after.rows) == second
    assert {row.queue for row in after.rows} >= {3, 4}
    assert first == 20


def _fresh_queues(client: Client, topic: str) -> tuple[object, ...]:
    client.routes.forget(topic)
    return client.routes.readable(topic)


def test_a_missing_topic_fails_with_what_to_do(
    broker: Broker, source: Source, tmp_path: Path
) -> None:
    missing = broker.unique("missing")
    query, _ = start_collecting(source.stream(subscribe=missing), tmp_path / "cp")
    text = failure_of(query)
    assert "TopicNotFound" in text
    assert f"rmq-ordered topic create {missing} --queues" in text


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_an_unreachable_name_server_fails_with_its_address(source: Source, tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_base_port((0,))}"
    query, _ = start_collecting(source.stream(nameServer=nobody), tmp_path / "cp")
    text = failure_of(query)
    assert "ConnectFailed" in text
    assert nobody in text


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"maxOffsetPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'"),
        ({"maxOffsetsPerTrigger": "many"}, "expected a whole number above 0, found 'many'"),
        ({"startingOffsets": "middle"}, "found 'middle'"),
        ({"minPartitions": "8"}, "a queue is read by one task so that its order is kept"),
    ],
)
def test_a_wrong_option_fails_when_the_stream_is_loaded(
    source: Source, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Exception, match="OptionError") as raised:
        source.stream(**options)
    assert sentence in str(raised.value)


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_stream_without_a_group_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    source = Source(spark, {"nameServer": broker.name_server, "subscribe": topic})
    query, _ = start_collecting(source.stream(), tmp_path / "cp")
    assert "option 'group': expected a consumer group" in failure_of(query)


@proves("lost-range-fails")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_expired_or_recreated_topics_fail_instead_of_skipping(
    client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    produce(client, topic, keys=10, sequences=range(3))
    collect_available(source.stream(), tmp_path / "cp")
    client.broker.delete_topic(topic)
    client.broker.create_topic(topic, 3)
    query, _ = start_collecting(source.stream(), tmp_path / "cp")
    text = failure_of(query)
    assert "OffsetOutOfRange" in text
    assert topic in text
    # What was finished in the old topic says nothing about the new one.
    assert committed(client, group, topic) == [None] * 3


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_without_leases_two_queries_may_read_the_same_queues(
    client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    free = source.stream(leaseMode="none", startingOffsets="earliest")
    one, first = start_collecting(free, tmp_path / "one")
    two, second = start_collecting(free, tmp_path / "two")
    finish(one)
    finish(two)
    assert_in_order(first.rows, total)
    assert_in_order(second.rows, total)
    assert committed(client, group, topic) == [None] * 3
