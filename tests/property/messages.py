"""Strategies for stored messages, honest and spoiled."""

import struct
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from hypothesis import strategies as st
from tests.unit.columnar.samples import with_raw_properties

from rmq_ordered.model import Message, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.compression import LZ4_FLAGS, ZLIB_FLAGS, ZSTD_FLAGS
from rmq_ordered.protocol.message import (
    INNER_BATCH_FLAGS,
    decode_messages,
    encode_batch,
    encode_message,
)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)
names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "__SHARDINGKEY", "WAIT"]) | texts
property_maps = st.dictionaries(names, texts, max_size=6)
hosts = st.builds("{}:{}".format, st.ip_addresses(v=4).map(str), I32) | st.builds(
    "[{}]:{}".format, st.ip_addresses(v=6).map(str), I32
)
topics = st.text(st.characters(codec="utf-8"), max_size=40) | st.just("t" * 200)
# Plain, each codec, zlib without a type, a prepared transaction.
sys_flags = st.sampled_from([0, ZLIB_FLAGS, LZ4_FLAGS, ZSTD_FLAGS, 0x1, 0x4])


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = Message(
        queue=MessageQueue(draw(topics), "broker-a", draw(I32)),
        queue_offset=draw(I64),
        commit_log_offset=draw(I64),
        body=draw(st.binary(max_size=200)),
        properties=draw(property_maps),
        born_timestamp_ms=draw(I64),
        store_timestamp_ms=draw(I64),
        born_host=draw(hosts),
        store_host=draw(hosts),
        sys_flag=draw(sys_flags),
        flag=draw(I32),
        reconsume_times=draw(I32),
        prepared_transaction_offset=draw(I64),
    )
    v6_flags = 0x10 * message.born_host.startswith("[") | 0x20 * message.store_host.startswith("[")
    return replace(message, sys_flag=message.sys_flag | v6_flags)


# Strings of separators, known names and noise: what a hostile producer would put there.
odd_properties = st.lists(
    st.sampled_from(
        [b"\x01", b"\x02", b"TAGS", b"KEYS", b"a", b"\x00", b"\xff", b"\xe4\xb8", "标".encode()]
    )
    | st.binary(max_size=3),
    max_size=20,
).map(b"".join)


outgoing = st.builds(OutgoingMessage, st.binary(max_size=60), property_maps, I32)


@st.composite
def inner_batches(draw: st.DrawFn) -> Message:
    """A record that holds several messages, some of them with odd properties."""
    message = draw(messages())
    batch = [
        encode_batch([one]) if draw(st.booleans()) else _with_odd_properties(one, draw)
        for one in draw(st.lists(outgoing, min_size=1, max_size=5))
    ]
    return replace(
        message,
        queue_offset=draw(st.integers(0, 2**40)),
        body=b"".join(batch),
        sys_flag=message.sys_flag | INNER_BATCH_FLAGS,
    )


def _with_odd_properties(message: OutgoingMessage, draw: st.DrawFn) -> bytes:
    raw = draw(odd_properties)
    head = (22 + len(message.body) + len(raw), 0, 0, message.flag, len(message.body))
    return struct.pack(">5i", *head) + message.body + struct.pack(">h", len(raw)) + raw


@st.composite
def encoded_messages(draw: st.DrawFn) -> bytes:
    """One record of either version, with proper or odd properties; sometimes an inner batch."""
    message = draw(messages() | messages() | inner_batches())
    version: Literal[1, 2] = 2
    if len(message.queue.topic.encode()) <= 127 and draw(st.booleans()):
        version = 1
    if draw(st.booleans()):
        return encode_message(message, version=version)
    record = encode_message(replace(message, properties={}), version=version)
    return with_raw_properties(record, draw(odd_properties))


@st.composite
def pull_bodies(draw: st.DrawFn, min_size: int = 0) -> bytes:
    """Records at rising queue offsets; sometimes many of one size."""
    records = draw(st.lists(encoded_messages(), min_size=min_size, max_size=6))
    is_repeated = draw(st.booleans())
    if records and is_repeated:
        records += [records[-1]] * draw(st.integers(1, 120))
    holes = st.integers(0, 2) if len(records) < 20 else st.just(0)
    steps = [message_count(record) + draw(holes) for record in records[:-1]]
    offsets = accumulate([draw(st.integers(0, 2**40)), *steps])
    return b"".join(
        record[:20] + struct.pack(">q", offset) + record[28:]
        for record, offset in zip(records, offsets, strict=False)
    )


def message_count(record: bytes) -> int:
    at_zero = record[:20] + bytes(8) + record[28:]
    return len(list(decode_messages(at_zero, broker_name="broker-a")))


HOSTILE_NUMBERS = [0, 1, -1, 2, 90, 91, 127, 128, 255, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31)]


@st.composite
def spoiled_bodies(draw: st.DrawFn) -> bytes:
    """A body with a few bytes changed, cut out, put in or repeated, lengths above all."""
    body = bytearray(draw(pull_bodies(min_size=1)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["number", "byte", "cut", "insert", "repeat", "end"])):
            case "number":
                number = draw(st.sampled_from(HOSTILE_NUMBERS) | st.integers(-300, 300))
                body[at : at + 4] = struct.pack(">i", number)
            case "byte":
                body[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del body[at : at + draw(st.integers(1, 120))]
            case "insert":
                body[at:at] = draw(st.binary(max_size=12))
            case "repeat":
                body[at:at] = body[at : at + draw(st.integers(1, 200))]
            case _:
                del body[at:]
    return bytes(body)


@st.composite
def relabelled_bodies(draw: st.DrawFn) -> bytes:
    """Records whose fixed fields, sizes and flags above all, are overwritten one by one."""
    body = bytearray(draw(pull_bodies(min_size=1)))
    for _ in range(draw(st.integers(1, 2))):
        field = draw(st.sampled_from([0, 4, 8, 20, 36, 40, 56, 84, 96]))
        flag = draw(
            st.sampled_from([*HOSTILE_NUMBERS, 0x10, 0x20, 0x30, 0xC0, 0x101, 0x201, 0x501])
        )
        start = 0
        for _ in range(draw(st.integers(0, 3))):
            (size,) = struct.unpack_from(">i", body, start)
            start = start + size if 91 <= size <= len(body) - start - 91 else start
        struct.pack_into(">i", body, min(start + field, len(body) - 4), flag)
    return bytes(body)
