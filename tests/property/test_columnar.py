"""The columnar decoder and the reference decoder are two readings of the same bytes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property.messages import (
    I32,
    inner_batches,
    messages,
    pull_bodies,
    relabelled_bodies,
    spoiled_bodies,
    topics,
)
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.columnar import MESSAGE_COLUMNS, DecodeOptions, decode_pull_body
from rmq_ordered.errors import QueueGap, RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.message import decode_messages, encode_message, offset_message_id

QUEUE = MessageQueue("asked", "broker-a", 5)
MAX_MILLIS = (2**63 - 1) // 1000

Rows = list[dict[str, Any]]

options = st.builds(
    DecodeOptions,
    key_from=st.sampled_from(["__SHARDINGKEY", "KEYS", "a", "标", "\ufffd"]),
    include_properties=st.booleans(),
    verify_crc=st.booleans(),
    verify_origin=st.just(False),
    columns=st.none() | st.frozensets(st.sampled_from(MESSAGE_COLUMNS)),
)


def expected_row(message: Message, asked: DecodeOptions) -> dict[str, Any]:
    properties = message.properties
    row: dict[str, Any] = {
        "key": properties.get(asked.key_from),
        "value": message.body,
        "topic": QUEUE.topic,
        "broker": QUEUE.broker_name,
        "queue": QUEUE.queue_id,
        "offset": message.queue_offset,
        "timestamp": micros(message.store_timestamp_ms),
        "born_timestamp": micros(message.born_timestamp_ms),
        "tags": properties.get("TAGS"),
        "index_keys": properties.get("KEYS"),
        "message_id": properties.get("UNIQ_KEY")
        or offset_message_id(message.store_host, message.commit_log_offset),
        "reconsume_times": message.reconsume_times,
    }
    row["properties"] = dict(properties)
    return {name: row[name] for name in asked.schema.names}


def micros(millis: int) -> int | None:
    return millis * 1000 if abs(millis) <= MAX_MILLIS else None


def rows(batch: pa.RecordBatch) -> Rows:
    # Timestamps as numbers: Python's calendar ends long before Arrow's.
    batch.validate(full=True)
    columns = {
        name: (
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        ).to_pylist()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    if "properties" in columns:
        assert all(len(row) == len(dict(row)) for row in columns["properties"])
        columns["properties"] = [dict(row) for row in columns["properties"]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def by_reference(body: bytes, asked: DecodeOptions) -> Rows:
    found = decode_messages(body, broker_name=QUEUE.broker_name, verify_crc=asked.verify_crc)
    return [expected_row(message, asked) for message in found]


def columnar(body: bytes, asked: DecodeOptions) -> Rows:
    return rows(decode_pull_body(body, QUEUE, asked))


def attempt(decode: Callable[[bytes, DecodeOptions], Rows], *arguments: Any) -> Rows | Exception:
    try:
        return decode(*arguments)
    except (RemoteProtocolError, QueueGap) as refusal:
        return refusal


@given(pull_bodies(), options)
def test_every_row_equals_its_message(body: bytes, asked: DecodeOptions) -> None:
    batch = decode_pull_body(body, QUEUE, asked)
    assert rows(batch) == by_reference(body, asked)
    assert batch.schema.equals(asked.schema)


@given(pull_bodies(), st.frozensets(st.sampled_from(["a", "TAGS", "\ufffd", "x"]), min_size=1))
def test_a_tag_filter_keeps_the_rows_that_have_one_of_the_tags(
    body: bytes, tags: frozenset[str]
) -> None:
    kept = [row for row in by_reference(body, DecodeOptions()) if row["tags"] in tags]
    assert columnar(body, DecodeOptions(tag_filter=tags, verify_origin=False)) == kept


@settings(max_examples=examples(400))
@given(st.binary(max_size=400) | spoiled_bodies() | relabelled_bodies(), options)
def test_garbage_is_refused_by_both_or_read_alike(body: bytes, asked: DecodeOptions) -> None:
    expected = attempt(by_reference, body, asked)
    found = attempt(columnar, body, asked)
    match found:
        case QueueGap():
            assert found.queue == QUEUE
        case RemoteProtocolError():
            assert isinstance(expected, RemoteProtocolError)
            assert f"{QUEUE}: the message at queue offset" in str(found)
        case _:
            # Bodies that are not asked for are not expanded, so their damage is not noticed.
            if "value" in asked.schema.names or not isinstance(expected, RemoteProtocolError):
                assert found == expected


@settings(max_examples=examples(300))
@given(pull_bodies() | spoiled_bodies() | relabelled_bodies(), st.booleans())
def test_collected_errors_are_those_of_the_rows_that_would_be_refused(
    body: bytes, verify_crc: bool
) -> None:
    strict = DecodeOptions(verify_crc=verify_crc, verify_origin=False)
    lenient = replace(strict, collect_errors=True)
    found = attempt(columnar, body, lenient)
    expected = attempt(columnar, body, strict)
    if not isinstance(found, list):
        assert isinstance(expected, type(found)), "what is no damage of one body is refused alike"
        return
    reasons = [row.pop("_error") for row in found]
    if not any(reasons):
        assert found == expected
        return
    assert isinstance(expected, RemoteProtocolError)
    for row, reason in zip(found, reasons, strict=True):
        assert (row["value"] is None) == (reason is not None)
        if reason is not None:
            assert f"{QUEUE}: the message at queue offset {row['offset']} " in reason
    assert str(expected) in reasons


@given(st.lists(messages(), min_size=1, max_size=6), st.data())
def test_one_damaged_body_leaves_the_other_rows_alone(
    honest: list[Message], data: st.DataObject
) -> None:
    victim = data.draw(st.integers(0, len(honest) - 1))
    records = [
        bytearray(encode_message(replace(message, queue_offset=number)))
        for number, message in enumerate(honest)
    ]
    strict = DecodeOptions(verify_origin=False)
    whole = columnar(b"".join(records), strict)
    records[victim][11] ^= 1  # the last byte of the checksum
    found = columnar(b"".join(records), replace(strict, collect_errors=True))
    reasons = [row.pop("_error") for row in found]
    assert [number for number, reason in enumerate(reasons) if reason] == [victim]
    whole[victim]["value"] = None
    assert found == whole


@proves("foreign-record-never-a-row")
@given(st.lists(messages() | inner_batches(), min_size=1, max_size=6), st.data(), options)
def test_a_record_of_another_queue_is_never_a_row_of_this_one(
    honest: list[Message], data: st.DataObject, asked: DecodeOptions
) -> None:
    strict = replace(asked, verify_origin=True)
    rising = [
        replace(message, queue=QUEUE, queue_offset=100 * number)
        for number, message in enumerate(honest)
    ]
    body = b"".join(map(encode_message, rising))
    assert columnar(body, strict) == columnar(body, asked)

    stray = data.draw(st.integers(0, len(rising) - 1))
    elsewhere = data.draw(
        st.builds(MessageQueue, st.just(QUEUE.topic) | topics, st.just("broker-a"), I32)
    )
    assume((elsewhere.topic, elsewhere.queue_id) != (QUEUE.topic, QUEUE.queue_id))
    rising[stray] = replace(rising[stray], queue=elsewhere)
    refused = attempt(columnar, b"".join(map(encode_message, rising)), strict)
    assert isinstance(refused, RemoteProtocolError)
    assert f"{QUEUE}: the message at queue offset {100 * stray} " in str(refused)
    assert f"queue {elsewhere.queue_id}" in str(refused)
