from typing import Any

import pyarrow as pa
import pytest
from tests.unit.columnar.samples import QUEUE, golden, message, records, rising

from rmq_ordered.columnar import DecodeOptions, decode_pull_body, message_schema
from rmq_ordered.errors import OptionError, RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.compression import expand_body

CAPTURE = golden("rocketmq-5.5.0-pull.json")


def millis(batch: pa.RecordBatch, column: str) -> list[int | None]:
    return [
        None if micros is None else micros // 1000
        for micros in batch.column(column).cast(pa.int64()).to_pylist()
    ]


@pytest.mark.parametrize("case", golden("messages.json"), ids=lambda case: case["name"])
def test_golden_records_become_rows(case: dict[str, Any]) -> None:
    stored = case["message"]
    batch = decode_pull_body(
        bytes.fromhex(case["hex"]), QUEUE, DecodeOptions(include_properties=True)
    )
    batch.validate(full=True)
    (row,) = batch.drop_columns(["timestamp", "born_timestamp"]).to_pylist()
    properties = stored["properties"]
    assert dict(row["properties"]) == properties
    assert row["key"] == properties.get("__SHARDINGKEY")
    assert row["tags"] == properties.get("TAGS")
    assert row["index_keys"] == properties.get("KEYS")
    assert row["value"] == expand_body(bytes.fromhex(stored["bodyHex"]), stored["sysFlag"])
    assert row["offset"] == stored["queueOffset"]
    assert row["reconsume_times"] == stored["reconsumeTimes"]
    assert millis(batch, "timestamp") == [stored["storeTimestamp"]]
    assert millis(batch, "born_timestamp") == [stored["bornTimestamp"]]


def test_a_pull_captured_from_rocketmq_becomes_the_rows_that_java_sees() -> None:
    java = CAPTURE["messages"]
    batch = decode_pull_body(
        bytes.fromhex(CAPTURE["bodyHex"]), QUEUE, DecodeOptions(include_properties=True)
    )
    batch.validate(full=True)
    columns = batch.to_pydict()
    assert [value.hex() for value in columns["value"]] == [m["bodyHex"] for m in java]
    assert columns["offset"] == [m["queueOffset"] for m in java]
    assert columns["message_id"] == [m["msgId"] for m in java]
    assert columns["reconsume_times"] == [m["reconsumeTimes"] for m in java]
    assert [dict(row) for row in columns["properties"]] == [m["properties"] for m in java]
    for column, name in (("tags", "TAGS"), ("index_keys", "KEYS"), ("key", "__SHARDINGKEY")):
        assert columns[column] == [m["properties"].get(name) for m in java]
    assert millis(batch, "timestamp") == [m["storeTimestamp"] for m in java]
    assert millis(batch, "born_timestamp") == [m["bornTimestamp"] for m in java]


def test_topic_broker_and_queue_are_those_that_were_asked_for() -> None:
    asked = MessageQueue("%RETRY%标", "b-z", 9)
    batch = decode_pull_body(records(*rising(2)), asked)
    assert batch.column("topic").to_pylist() == ["%RETRY%标"] * 2
    assert batch.column("broker").to_pylist() == ["b-z"] * 2
    assert batch.column("queue").to_pylist() == [9, 9]


@pytest.mark.parametrize("include_properties", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_batch_has_the_promised_schema(count: int, *, include_properties: bool) -> None:
    options = DecodeOptions(include_properties=include_properties)
    batch = decode_pull_body(records(*rising(count)), QUEUE, options)
    assert batch.schema.equals(
        message_schema(include_properties=include_properties), check_metadata=True
    )
    assert batch.num_rows == count


def test_bodies_of_several_answers_decode_as_one() -> None:
    messages = rising(6, properties={"TAGS": "a"})
    first, second = records(*messages[:4]), records(*messages[4:])
    joined = decode_pull_body(first + second, QUEUE)
    parts = [decode_pull_body(part, QUEUE) for part in (first, second)]
    assert pa.Table.from_batches([joined]).equals(pa.Table.from_batches(parts).combine_chunks())


def test_a_memoryview_decodes_as_bytes_do() -> None:
    body = records(*rising(3))
    assert decode_pull_body(memoryview(b"xx" + body)[2:], QUEUE) == decode_pull_body(body, QUEUE)


@pytest.mark.parametrize(
    ("key_from", "expected"), [("__SHARDINGKEY", "k"), ("KEYS", "i"), ("my key", "m"), ("x", None)]
)
def test_any_property_can_be_the_key(key_from: str, expected: str | None) -> None:
    body = records(message(properties={"__SHARDINGKEY": "k", "KEYS": "i", "my key": "m"}))
    batch = decode_pull_body(body, QUEUE, DecodeOptions(key_from=key_from))
    assert batch.column("key").to_pylist() == [expected]
    assert batch.column("index_keys").to_pylist() == ["i"]


def test_a_key_name_without_a_utf8_form_is_a_wrong_option() -> None:
    with pytest.raises(OptionError, match="keyFrom"):
        DecodeOptions(key_from="\ud800")


@pytest.mark.parametrize(
    ("tag_filter", "expected"),
    [
        (None, [0, 1, 2, 3]),
        (frozenset[str](), [0, 1, 2, 3]),
        (frozenset({"a"}), [0]),
        (frozenset({"b", "a"}), [0, 2]),
        (frozenset({"absent"}), []),
    ],
)
def test_tags_are_checked_again_because_the_broker_compares_hashes(
    tag_filter: frozenset[str] | None, expected: list[int]
) -> None:
    tags = [{"TAGS": "a"}, {}, {"TAGS": "b"}, {"TAGS": "ab"}]
    body = records(*[message(queue_offset=i, properties=p) for i, p in enumerate(tags)])
    batch = decode_pull_body(body, QUEUE, DecodeOptions(tag_filter=tag_filter))
    assert batch.column("offset").to_pylist() == expected
    assert batch.schema.equals(message_schema())


@pytest.mark.parametrize("beyond", [2**63 - 1, -(2**63), 9_223_372_036_854_776])
def test_a_timestamp_that_microseconds_cannot_express_is_null(beyond: int) -> None:
    largest = 9_223_372_036_854_775
    body = records(
        message(queue_offset=0, born_timestamp_ms=beyond),
        message(queue_offset=1, born_timestamp_ms=largest),
        message(queue_offset=2, born_timestamp_ms=-largest),
    )
    batch = decode_pull_body(body, QUEUE)
    assert millis(batch, "born_timestamp") == [None, largest, -largest]
    assert batch.column("timestamp").null_count == 0


def test_checksums_are_verified_unless_switched_off() -> None:
    body = records(*rising(2))
    spoiled = body.replace(b"hello", b"jello", 1)
    with pytest.raises(RemoteProtocolError, match=r"orders@broker-a#3.*queue offset 0 .*CRC"):
        decode_pull_body(spoiled, QUEUE)
    batch = decode_pull_body(spoiled, QUEUE, DecodeOptions(verify_crc=False))
    assert batch.column("value").to_pylist() == [b"jello", b"hello"]
