"""What the sink takes of a frame, and what it refuses before any row is sent."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from rmq_ordered.errors import LocalProtocolError, OptionError
from rmq_ordered.options import SinkOptions, ValueFormat
from rmq_ordered.spark.writing.columns import SinkColumns

TEXT, NUMBER = StringType(), IntegerType()
# Parsing these texts would need a running Spark.
KINDS: dict[str, DataType] = {
    "string": TEXT,
    "int": NUMBER,
    "bigint": LongType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "array<int>": ArrayType(NUMBER),
    "map<string,string>": MapType(TEXT, TEXT),
    "map<string,int>": MapType(TEXT, NUMBER),
    "struct<a:int>": StructType().add("a", NUMBER),
    "struct<a:map<int,string>>": StructType().add("a", MapType(NUMBER, TEXT)),
    "struct<a:interval day>": StructType().add("a", DayTimeIntervalType(0, 0)),
}


def options(**given: str) -> SinkOptions:
    return SinkOptions.parse({"nameServer": "mq1:9876", **given})


def columns(ddl: str, **given: str) -> SinkColumns:
    schema = StructType()
    for column in ddl.split(", "):
        name, _, kind = column.partition(" ")
        schema = schema.add(name, KINDS[kind])
    return SinkColumns.of(schema, options(**given))


@pytest.mark.parametrize(
    ("ddl", "given", "sentence"),
    [
        ("key string", {"topic": "t"}, "a column 'value'"),
        ("value string", {"topic": "t"}, "a column 'key' (string); it decides the queue"),
        ("value string", {"topic": "t", "keyColumn": "order"}, "a column 'order' (string)"),
        ("key string, value string", {}, "a column 'topic' (string), or the option 'topic'"),
        ("value string", {"topic": "t", "selector": "queue"}, "'queue' (int), because of selector"),
        ("key int, value string", {"topic": "t"}, "column 'key' to be string; cast it first"),
        ("key string, value int", {"topic": "t"}, "column 'value' to be binary, string"),
        ("key string, value string, queue string", {"topic": "t"}, "column 'queue' to be int"),
        (
            "key string, value string, properties map<string,int>",
            {"topic": "t"},
            "'properties' to be map<string,string>",
        ),
        ("key string, value string, colour string", {"topic": "t"}, "found 'colour'"),
        ("key string, value struct<a:int>", {"topic": "t"}, "json or msgpack, because 'value' is"),
        ("key string, value string", {"topic": "t", "valueFormat": "json"}, "to be a struct"),
        (
            "key string, value struct<a:map<int,string>>",
            {"topic": "t", "valueFormat": "json"},
            "value.a map<int,string>",
        ),
        (
            "key string, value struct<a:interval day>",
            {"topic": "t", "valueFormat": "json"},
            "types that JSON and MessagePack can hold",
        ),
        ("key string, value string", {"topic": "t", "sequenceColumn": "n"}, "a column 'n' of"),
        (
            "key string, value string, n array<int>",
            {"topic": "t", "sequenceColumn": "n"},
            "n array<int>",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_with_what_to_do(
    ddl: str, given: dict[str, str], sentence: str
) -> None:
    with pytest.raises(OptionError) as raised:
        columns(ddl, **given)
    assert sentence in str(raised.value)


def test_the_columns_of_the_source_may_be_passed_on() -> None:
    ddl = (
        "key string, value binary, topic string, broker string, queue int, offset bigint, "
        "timestamp timestamp, born_timestamp timestamp, tags string, index_keys string, "
        "message_id string, reconsume_times int, properties map<string,string>"
    )
    taken = dict(columns(ddl, topic="out").taken)
    assert set(taken) == {"key", "value", "tags", "index_keys", "properties"}
    assert "topic" in dict(columns(ddl).taken)
    assert {"queue", "broker"} <= dict(columns(ddl, topic="out", selector="queue").taken).keys()


def test_another_column_may_be_the_key() -> None:
    found = columns("order string, value string", topic="t", keyColumn="order")
    rows = found.prepare(pa.record_batch({"order": ["a"], "value": ["v"]}))
    assert rows.to_pylist() == [{"value": "v", "key": "a"}]
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_struct_becomes_a_body() -> None:
    found = columns("key string, value struct<a:int>", topic="t", valueFormat="json")
    assert found.value_format is ValueFormat.JSON
    rows = pa.record_batch({"key": ["k"], "value": pa.array([{"a": 1}])})
    assert found.prepare(rows).column("value").to_pylist() == [b'{"a":1}']


def test_rows_go_to_the_topic_of_their_column_in_order() -> None:
    found = columns("key string, value string, topic string")
    rows = found.prepare(
        pa.record_batch(
            {"key": ["a", "b", "c"], "value": ["1", "2", "3"], "topic": ["x", "y", "x"]}
        )
    )
    parts = {topic: part.column("value").to_pylist() for topic, part in found.by_topic(rows, None)}
    assert parts == {"x": ["1", "3"], "y": ["2"]}
    (only,) = found.by_topic(rows, "z")
    assert only[0] == "z"


@pytest.mark.parametrize("topic", [None, "", "a b", "ä", " x", "x" * 128])
def test_an_illegal_topic_in_a_row_is_refused_with_the_rows_key(topic: str | None) -> None:
    found = columns("key string, value string, topic string")
    rows = found.prepare(
        pa.record_batch({"key": ["a", "b"], "value": ["1", "2"], "topic": pa.array(["x", topic])})
    )
    with pytest.raises(LocalProtocolError, match="the row with key 'b' names the topic"):
        found.by_topic(rows, None)
