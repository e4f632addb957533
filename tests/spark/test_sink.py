"""The sink on both brokers: where rows go, in which order, and what is refused."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import Source, assert_in_order, failure_of, finish, produce
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client


def sent(client: Client, topic: str) -> int:
    return sum(span.maximum for span in client.broker.topic_stats(topic).values())


@pytest.mark.both_brokers
@proves("rows-reach-queue-in-order")
def test_a_pipeline_keeps_the_order_per_key(
    spark: SparkSession, broker: Broker, client: Client, tmp_path: Path
) -> None:
    topic, output = broker.create_topic("in", 3), broker.create_topic("out", 2)
    total = produce(client, topic, keys=50, sequences=range(20))
    source = Source(
        spark,
        {"nameServer": broker.name_server, "subscribe": topic, "group": broker.unique("group")},
    )
    query = (
        source.stream(maxOffsetsPerTrigger=300)
        .writeStream.format("rmq-ordered")
        .option("nameServer", broker.name_server)
        .option("topic", output)
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)
    wait_until(lambda: sent(client, output) == total, "all is visible", 10)
    assert_in_order(source.batch(subscribe=output).collect(), total)


@pytest.mark.both_brokers
@proves("key-to-javas-queue")
def test_the_sink_and_a_java_producer_put_the_same_keys_into_the_same_queues(
    spark: SparkSession, broker: Broker, client: Client, javaclients: JavaClients
) -> None:
    topic = broker.create_topic("selected", 7)
    keys = ["a", "order-1", "user:42", "polygenelubricants", "订单-1", "key😀", "Ünïcode"]
    keys += [f"order-{number}" for number in range(40)]
    rows = spark.createDataFrame([(key, "from spark") for key in keys], "key string, value string")
    (
        rows.coalesce(1)
        .write.format("rmq-ordered")
        .option("nameServer", broker.name_server)
        .option("topic", topic)
        .mode("append")
        .save()
    )
    by_java = javaclients.send_ordered(
        broker.name_server, topic, [(key, "from java") for key in keys]
    )
    wait_until(lambda: sent(client, topic) == 2 * len(keys), "all is visible", 10)
    source = Source(spark, {"nameServer": broker.name_server, "subscribe": topic})
    by_spark = {
        row.key: row.queue for row in source.batch().collect() if bytes(row.value) == b"from spark"
    }
    assert by_spark == {result.key: result.queue_id for result in by_java}


def test_any_key_goes_where_javas_selector_class_puts_it(
    spark: SparkSession, broker: Broker, client: Client, javaclients: JavaClients
) -> None:
    chance = random.Random(17)
    # All of Unicode but surrogates alone, which no column can hold; pairs of them come as one.
    points = [*range(3, 0xD800), *range(0xE000, 0x110000)]
    keys = {"".join(map(chr, chance.choices(points, k=chance.randint(1, 12)))) for _ in range(300)}
    keys |= {"", "\U00010000", "\U0010ffff\ue000", "polygenelubricants"}
    topic = broker.create_topic("any-key", 11)
    rows = spark.createDataFrame([(key, "v") for key in keys], "key string, value string")
    (
        rows.write.format("rmq-ordered")
        .options(nameServer=broker.name_server, topic=topic)
        .mode("append")
        .save()
    )
    wait_until(lambda: sent(client, topic) == len(keys), "all is visible", 10)
    source = Source(spark, {"nameServer": broker.name_server, "subscribe": topic})
    # RocketMQ has no empty properties, so readers see no key where it is the empty one.
    found = {row.key or "": row.queue for row in source.batch().collect()}
    with javaclients.selector_oracle() as oracle:
        assert found == {key: oracle.choose(key, 11).index for key in keys}


def test_tags_keys_and_properties_reach_the_message(
    spark: SparkSession, broker: Broker, client: Client
) -> None:
    topic = broker.create_topic("decorated", 1)
    schema = (
        "key string, value binary, tags string, index_keys string, properties map<string,string>"
    )
    rows = [
        ("k", bytearray(b"v"), "TagA", "i1 i2", {"colour": "红"}),
        ("k", bytearray(b"w"), None, None, None),
    ]
    (
        spark.createDataFrame(rows, schema)
        .coalesce(1)
        .write.format("rmq-ordered")
        .options(nameServer=broker.name_server, topic=topic)
        .mode("append")
        .save()
    )
    wait_until(lambda: sent(client, topic) == 2, "all is visible", 10)
    source = Source(spark, {"nameServer": broker.name_server, "subscribe": topic})
    first, second = source.batch(includeProperties="true").collect()
    assert (first.tags, first.index_keys, first.properties["colour"]) == ("TagA", "i1 i2", "红")
    assert (second.tags, second.index_keys, bytes(second.value)) == (None, None, b"w")


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
@pytest.mark.parametrize(
    ("schema", "row", "sentence"),
    [
        ("key string", ("k",), "a column 'value' (binary, string, or a struct"),
        ("value string", ("v",), "a column 'key' (string)"),
        ("key int, value string", (1, "v"), "column 'key' to be string; cast it first"),
        ("key string, value string, colour string", ("k", "v", "red"), "found 'colour'"),
        ("key string, value string", (None, "v"), "expected a key in every row"),
        ("key string, value string", ("k", None), "the row with key 'k' has the value null"),
        (
            "key string, value string, tags string",
            ("k", "v", "a\x01b"),
            "tags of the row with key 'k'",
        ),
    ],
)
def test_rows_that_cannot_be_sent_fail_with_the_reason(
    spark: SparkSession, broker: Broker, client: Client, schema: str, row: tuple, sentence: str
) -> None:
    topic = broker.create_topic("refused", 1)
    frame = spark.createDataFrame([row], schema)
    with pytest.raises(Exception, match=r"OptionError|LocalProtocolError") as raised:
        frame.write.format("rmq-ordered").options(nameServer=broker.name_server, topic=topic).mode(
            "append"
        ).save()
    assert sentence in str(raised.value)
    assert sent(client, topic) == 0


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_overwriting_a_topic_is_refused(spark: SparkSession, broker: Broker) -> None:
    topic = broker.create_topic("kept", 1)
    frame = spark.createDataFrame([("k", "v")], "key string, value string")
    writer = frame.write.format("rmq-ordered").options(nameServer=broker.name_server, topic=topic)
    with pytest.raises(Exception, match="messages of a topic cannot be replaced"):
        writer.mode("overwrite").save()


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_missing_output_topic_fails_with_what_to_do(
    spark: SparkSession, broker: Broker, client: Client, tmp_path: Path
) -> None:
    topic = broker.create_topic("in", 1)
    produce(client, topic, keys=1, sequences=range(1))
    options = {"nameServer": broker.name_server, "subscribe": topic, "group": broker.unique("g")}
    missing = broker.unique("missing")
    query = (
        Source(spark, options)
        .stream()
        .writeStream.format("rmq-ordered")
        .options(nameServer=broker.name_server, topic=missing)
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    text = failure_of(query)
    assert "TopicNotFound" in text
    assert f"rmq-ordered topic create {missing} --queues" in text
