"""What frames the sink takes, and in which order rows leave: topics, structs, shuffles, modes."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming import StreamingQuery
from tests.clients.order import (
    assert_first_deliveries_follow_send_order,
    assert_queue_offsets_rise,
    keyed_messages,
)
from tests.spark.harness import finish
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.model import QueueRange
from rmq_ordered.spark import by_key

EMBEDDED = pytest.mark.parametrize("broker", ["embedded"], indirect=True)


def save(frame: DataFrame, broker: Broker, **options: object) -> None:
    (
        frame.write.format("rmq-ordered")
        .options(nameServer=broker.name_server, requestTimeout="15s", **options)
        .mode("append")
        .save()
    )


def stored(client: Client, topic: str, count: int) -> list[tuple[str | None, bytes]]:
    """Keys and values queue by queue, once so many can be seen."""

    def read() -> list[tuple[str | None, bytes]]:
        found: list[tuple[str | None, bytes]] = []
        for queue, span in client.broker.topic_stats(topic).items():
            for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, span.maximum))):
                columns = (batch.column(name).to_pylist() for name in ("key", "value"))
                found += zip(*columns, strict=True)
        return found

    wait_until(lambda: len(read()) >= count, f"{count} messages can be seen", 20)
    return read()


@proves("java-reads-sink-in-order")
def test_a_java_orderly_consumer_reads_what_the_sink_wrote_in_order_per_key(
    spark: SparkSession, broker: Broker, javaclients: JavaClients
) -> None:
    topic, group = broker.create_topic("for-java", 4), broker.unique("java")
    pairs = keyed_messages(keys=8, each=25)
    save(spark.createDataFrame(pairs, "key string, value string").coalesce(1), broker, topic=topic)
    with javaclients.orderly_consumer(broker.name_server, topic, group) as consumer:
        received = consumer.wait_for_messages(len(pairs), 90)
    assert len(received) == len(pairs)
    assert_queue_offsets_rise(received)
    assert_first_deliveries_follow_send_order(received, pairs)


def test_a_column_says_where_rows_go_and_a_struct_becomes_json(
    spark: SparkSession, broker: Broker, client: Client
) -> None:
    topics = [broker.create_topic(f"place-{number}", 2) for number in range(2)]
    frame = spark.range(40).select(
        F.element_at(F.array(*map(F.lit, topics)), (F.col("id") % 2 + 1).cast("int")).alias(
            "topic"
        ),
        F.concat(F.lit("key-"), F.col("id") % 4).alias("order"),
        F.struct(F.col("id"), F.lit("ä").alias("name")).alias("value"),
    )
    save(frame.coalesce(1), broker, keyColumn="order", valueFormat="json")
    for number, topic in enumerate(topics):
        found = stored(client, topic, 20)
        ids = [json.loads(value)["id"] for _, value in found]
        assert sorted(ids) == list(range(number, 40, 2))
        for key in (f"key-{number}", f"key-{number + 2}"):
            mine = [json.loads(value)["id"] for name, value in found if name == key]
            assert mine == sorted(mine)
            assert len(mine) == 10


@proves("sequence-column")
@EMBEDDED
def test_a_frame_that_was_shuffled_is_put_in_order_again(
    spark: SparkSession, broker: Broker, client: Client
) -> None:
    topic = broker.create_topic("sorted", 3)
    frame = spark.range(300).select(
        F.concat(F.lit("key-"), F.col("id") % 7).alias("key"),
        F.col("id").cast("string").alias("value"),
        F.col("id").alias("number"),
    )
    mixed = by_key(frame.orderBy(F.rand(seed=3)), "key", partitions=3)
    save(mixed, broker, topic=topic, sequenceColumn="number")
    found = stored(client, topic, 300)
    for key in range(7):
        mine = [int(value) for name, value in found if name == f"key-{key}"]
        assert mine == list(range(key, 300, 7))


@EMBEDDED
def test_queues_can_be_named_and_rows_without_keys_spread(
    spark: SparkSession, broker: Broker, client: Client
) -> None:
    named, spread = broker.create_topic("named", 3), broker.create_topic("spread", 3)
    frame = spark.range(9).select(
        F.col("id").cast("string").alias("value"), (F.col("id") % 3).cast("int").alias("queue")
    )
    save(frame.coalesce(1), broker, topic=named, selector="queue")
    assert [int(value) for _, value in stored(client, named, 9)] == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    save(frame.drop("queue").coalesce(1), broker, topic=spread, selector="roundrobin")
    assert [span.maximum for span in client.broker.topic_stats(spread).values()] == [3, 3, 3]


@EMBEDDED
def test_complete_mode_appends_each_result_and_update_mode_is_refused_by_spark(
    spark: SparkSession, broker: Broker, client: Client, tmp_path: Path
) -> None:
    topic = broker.create_topic("counted", 1)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"key": "a"}\n{"key": "b"}\n{"key": "a"}\n')
    counts = (
        spark.readStream.schema("key string")
        .json(str(tmp_path / "in"))
        .groupBy("key")
        .count()
        .select("key", F.col("count").cast("string").alias("value"))
    )

    def start(mode: str) -> StreamingQuery:
        return (
            counts.writeStream.format("rmq-ordered")
            .options(nameServer=broker.name_server, topic=topic)
            .option("checkpointLocation", str(tmp_path / mode))
            .outputMode(mode)
            .trigger(availableNow=True)
            .start()
        )

    finish(start("complete"))
    assert sorted(stored(client, topic, 2)) == [("a", b"2"), ("b", b"1")]
    with pytest.raises(Exception, match=r"(?i)update"):
        finish(start("update"))
    assert len(stored(client, topic, 2)) == 2


@proves("unsendable-row-named")
@EMBEDDED
@pytest.mark.parametrize(
    ("values", "options", "sentence"),
    [
        (
            "'k' AS key, 'v' AS value, map('DELAY', '3') AS properties",
            {},
            "cannot be sent in order",
        ),
        ("'k' AS key, repeat('x', 5000000) AS value", {}, "with key 'k' is over RocketMQ's limit"),
        ("repeat('k', 40000) AS key, 'v' AS value", {}, "properties of the row with key 'kkk"),
        ("'k' AS key, 'v' AS value, 'a b' AS topic", {"topic": None}, "names the topic 'a b'"),
        ("'k' AS key, 'v' AS value, CAST(NULL AS int) AS n", {"sequenceColumn": "n"}, "null in"),
        (
            "'k' AS key, named_struct('x', double('nan')) AS value",
            {"valueFormat": "json"},
            "the row with key 'k' has a value that cannot be written as json",
        ),
        ("'k' AS key, 'v' AS value", {"selector": "roundrobin"}, "roundrobin is for rows without"),
        ("'v' AS value, 7 AS queue", {"selector": "queue"}, "names queue 7 of broker"),
    ],
)
def test_a_row_that_cannot_be_sent_fails_with_its_key_and_the_reason(
    spark: SparkSession, broker: Broker, client: Client, values: str, options: dict, sentence: str
) -> None:
    topic = broker.create_topic("strict", 1)
    given = {"topic": topic, **options}
    chosen = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(Exception, match="LocalProtocolError") as raised:
        save(spark.sql(f"SELECT {values}"), broker, **chosen)
    assert sentence in str(raised.value)
    assert sum(span.maximum for span in client.broker.topic_stats(topic).values()) == 0
