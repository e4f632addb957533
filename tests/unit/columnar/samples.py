"""Stored messages for the codec tests, and ways to spoil them."""

import json
import struct
from dataclasses import replace
from typing import Any

from tests.support.paths import GOLDEN

from rmq_ordered.columnar.alike import AlikeProperties
from rmq_ordered.columnar.boundaries import split_records
from rmq_ordered.columnar.fields import read_fields
from rmq_ordered.columnar.properties import Properties, parse_properties
from rmq_ordered.model import Message, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.message import INNER_BATCH_FLAGS, encode_batch, encode_message

QUEUE = MessageQueue("orders", "broker-a", 3)

MESSAGE = Message(
    queue=QUEUE,
    queue_offset=7,
    commit_log_offset=4096,
    body=b"hello",
    properties={},
    born_timestamp_ms=1_700_000_000_000,
    store_timestamp_ms=1_700_000_000_001,
    born_host="10.0.0.1:5555",
    store_host="10.0.0.2:10911",
)


def message(**changes: Any) -> Message:
    return replace(MESSAGE, **changes)


def records(*messages: Message) -> bytes:
    return b"".join(map(encode_message, messages))


def rising(count: int, **changes: Any) -> list[Message]:
    """Messages at queue offsets 0, 1, 2, ..."""
    return [message(queue_offset=offset, **changes) for offset in range(count)]


def inner_batch(*bodies: bytes, sys_flag: int = 0, **changes: Any) -> Message:
    """One stored record with several messages, each with a tag of its own."""
    inner = [OutgoingMessage(body, {"TAGS": f"t{n}"}, n) for n, body in enumerate(bodies)]
    return message(body=encode_batch(inner), sys_flag=sys_flag | INNER_BATCH_FLAGS, **changes)


def with_raw_properties(record: bytes, raw: bytes) -> bytes:
    """A record without properties, given a properties string that no encoder would write."""
    assert record.endswith(b"\0\0")
    longer = record[:-2] + struct.pack(">h", len(raw)) + raw
    return struct.pack(">i", len(longer)) + longer[4:]


def patched(record: bytes, position: int, layout: str, *values: int) -> bytes:
    """A copy of a record with a field overwritten."""
    spoiled = bytearray(record)
    struct.pack_into(layout, spoiled, position, *values)
    return bytes(spoiled)


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text())


def parsed_properties(*raws: bytes) -> Properties | AlikeProperties:
    """The properties of rows that have these bytes for them."""
    body = b"".join(with_raw_properties(records(MESSAGE), raw) for raw in raws)
    found = split_records(body, QUEUE)
    return parse_properties(found, read_fields(found))
