import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.columnar.samples import QUEUE, golden, inner_batch, message, records, rising

from rmq_ordered.columnar import (
    MESSAGE_COLUMNS,
    DecodeOptions,
    bodies,
    decode_in_parts,
    decode_pull_body,
    message_schema,
)
from rmq_ordered.columnar import decode as decode_module
from rmq_ordered.errors import LocalProtocolError, OptionError, QueueGap, RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.compression import ZLIB_FLAGS, expand_body

CAPTURE = golden("rocketmq-5.5.0-pull.json")


def millis(batch: pa.RecordBatch, column: str) -> list[int | None]:
    return [
        None if micros is None else micros // 1000
        for micros in batch.column(column).cast(pa.int64()).to_pylist()
    ]


@pytest.mark.parametrize("case", golden("messages.json"), ids=lambda case: case["name"])
def test_golden_records_become_rows(case: dict[str, Any]) -> None:
    stored = case["message"]
    queue = MessageQueue(stored["topic"], "broker-a", stored["queueId"])
    batch = decode_pull_body(
        bytes.fromhex(case["hex"]), queue, DecodeOptions(include_properties=True)
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
    queue = MessageQueue(java[0]["topic"], "broker-a", java[0]["queueId"])
    batch = decode_pull_body(
        bytes.fromhex(CAPTURE["bodyHex"]), queue, DecodeOptions(include_properties=True)
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
    batch = decode_pull_body(records(*rising(2, queue=asked)), asked)
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


@pytest.mark.parametrize("column", MESSAGE_COLUMNS)
def test_a_column_asked_for_alone_is_the_one_of_the_whole_batch(column: str) -> None:
    body = records(*rising(3, properties={"TAGS": "a", "__SHARDINGKEY": "k"}))
    alone = decode_pull_body(body, QUEUE, DecodeOptions(columns=frozenset({column})))
    whole = decode_pull_body(body, QUEUE)
    assert alone.column(column).equals(whole.column(column))
    assert alone.column("offset").to_pylist() == [0, 1, 2]
    assert set(alone.schema.names) == {column, "offset"}


def test_properties_are_not_looked_at_where_none_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("properties were parsed")

    monkeypatch.setattr(decode_module, "parse_properties", refuse)
    fixed = frozenset({"value", "topic", "broker", "queue", "timestamp", "reconsume_times"})
    batch = decode_pull_body(records(*rising(2)), QUEUE, DecodeOptions(columns=fixed))
    assert batch.column("value").to_pylist() == [b"hello", b"hello"]
    with pytest.raises(AssertionError, match="were parsed"):
        decode_pull_body(records(*rising(2)), QUEUE, DecodeOptions(columns=frozenset({"tags"})))


def test_an_unknown_column_is_a_wrong_option() -> None:
    with pytest.raises(OptionError, match=r"columns.*value.*valeu"):
        DecodeOptions(columns=frozenset({"valeu"}))


def test_tags_are_checked_even_where_they_are_no_column() -> None:
    body = records(*[message(queue_offset=n, properties={"TAGS": f"t{n}"}) for n in range(3)])
    asked = DecodeOptions(columns=frozenset({"value"}), tag_filter=frozenset({"t1"}))
    batch = decode_pull_body(body, QUEUE, asked)
    assert batch.schema.names == ["value", "offset"]
    assert batch.column("offset").to_pylist() == [1]


def test_damaged_bodies_are_rows_with_a_reason_where_that_is_asked_for() -> None:
    body = records(*rising(3)).replace(b"hello", b"jello", 1)
    batch = decode_pull_body(body, QUEUE, DecodeOptions(collect_errors=True))
    assert batch.column("value").to_pylist() == [None, b"hello", b"hello"]
    reason, *others = batch.column("_error").to_pylist()
    assert "orders@broker-a#3: the message at queue offset 0" in reason
    assert others == [None, None]


@pytest.mark.parametrize("position", [0, 4, 84, 100], ids=["size", "magic", "body", "properties"])
def test_a_record_that_lies_is_never_just_a_row_with_a_reason(position: int) -> None:
    spoiled = bytearray(records(*rising(2)))
    spoiled[position] ^= 0x40
    with pytest.raises(RemoteProtocolError):
        decode_pull_body(bytes(spoiled), QUEUE, DecodeOptions(collect_errors=True))


def test_an_inner_batch_is_as_many_rows_as_it_has_messages() -> None:
    body = records(message(queue_offset=9), inner_batch(b"a", b"b", queue_offset=10))
    batch = decode_pull_body(body, QUEUE)
    assert batch.column("offset").to_pylist() == [9, 10, 11]
    assert batch.column("value").to_pylist() == [b"hello", b"a", b"b"]
    assert batch.column("tags").to_pylist() == [None, "t0", "t1"]


def test_an_inner_batch_that_reaches_into_the_next_record_is_a_gap() -> None:
    body = records(inner_batch(b"a", b"b", queue_offset=10), message(queue_offset=11))
    with pytest.raises(QueueGap, match="expected queue offset 12, found 11"):
        decode_pull_body(body, QUEUE)


def test_a_damaged_inner_batch_is_refused_even_where_errors_are_collected() -> None:
    body = records(inner_batch(b"abc", b"b")).replace(b"abc", b"abd")
    with pytest.raises(RemoteProtocolError, match=r"queue offset 7 .*CRC"):
        decode_pull_body(body, QUEUE, DecodeOptions(collect_errors=True))


def test_what_expands_to_too_much_at_once_is_decoded_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = records(*rising(7, body=bytes(10_000), sys_flag=ZLIB_FLAGS))
    (whole,) = decode_in_parts(body, QUEUE)
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", 30_000)
    with pytest.raises(LocalProtocolError, match="decode fewer at once"):
        decode_pull_body(body, QUEUE)
    parts = list(decode_in_parts(body, QUEUE))
    assert [part.num_rows for part in parts] == [3, 2, 2]
    assert pa.concat_batches(parts).equals(whole)


def test_what_was_too_much_at_once_is_not_kept_while_its_parts_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = records(*rising(64, body=bytes(100_000), sys_flag=ZLIB_FLAGS))
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", 400_000)
    tracemalloc.start()
    try:
        held = [tracemalloc.get_traced_memory()[0] for _ in decode_in_parts(body, QUEUE)]
    finally:
        tracemalloc.stop()
    assert len(held) == 16
    assert max(held) < 300_000
