import struct
import zlib
from typing import Any

import pytest
from tests.unit.columnar.samples import MESSAGE, golden, message, patched, records

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.compression import COMPRESSED_FLAG, LZ4_FLAGS, ZLIB_FLAGS, expand_body
from rmq_ordered.protocol.message import (
    decode_message,
    decode_messages,
    encode_batch,
    encode_message,
    offset_message_id,
)

RECORD = encode_message(MESSAGE)
STORED = pytest.mark.parametrize("case", golden("messages.json"), ids=lambda case: case["name"])
CAPTURE = golden("rocketmq-5.5.0-pull.json")


def decoded(data: bytes, **options: Any) -> list[Message]:
    return list(decode_messages(data, broker_name="b-a", **options))


def as_golden(found: Message) -> dict[str, Any]:
    return {
        "topic": found.queue.topic,
        "queueId": found.queue.queue_id,
        "flag": found.flag,
        "queueOffset": found.queue_offset,
        "commitLogOffset": found.commit_log_offset,
        "sysFlag": found.sys_flag,
        "bornTimestamp": found.born_timestamp_ms,
        "bornHost": found.born_host,
        "storeTimestamp": found.store_timestamp_ms,
        "storeHost": found.store_host,
        "reconsumeTimes": found.reconsume_times,
        "preparedTransactionOffset": found.prepared_transaction_offset,
        "bodyHex": found.body.hex(),
        "properties": dict(found.properties),
    }


@STORED
def test_golden_records_are_decoded_field_by_field(case: dict[str, Any]) -> None:
    expected = dict(case["message"])
    # The file has the body as stored; a decoded one is expanded.
    stored = bytes.fromhex(expected["bodyHex"])
    expected["bodyHex"] = expand_body(stored, expected["sysFlag"]).hex()
    del expected["bodyCrc"]
    record = bytes.fromhex(case["hex"])
    found, end = decode_message(record, 0, broker_name="b-a")
    assert as_golden(found) == expected
    assert list(found.properties) == list(expected["properties"])
    assert found.queue.broker_name == "b-a"
    assert end == len(record)


@STORED
def test_golden_records_are_encoded_byte_by_byte(case: dict[str, Any]) -> None:
    record = bytes.fromhex(case["hex"])
    found, _ = decode_message(record, 0, broker_name="b-a")
    assert encode_message(found) == record


def test_a_pull_captured_from_rocketmq_is_decoded_as_java_decodes_it() -> None:
    found = decoded(bytes.fromhex(CAPTURE["bodyHex"]))
    assert len(found) == len(CAPTURE["messages"])
    for ours, java in zip(found, CAPTURE["messages"], strict=True):
        # Java forgets that a body was compressed once it has expanded it.
        mine = as_golden(ours) | {"sysFlag": ours.sys_flag & ~COMPRESSED_FLAG}
        assert mine == {name: java[name] for name in mine}
        assert offset_message_id(ours.store_host, ours.commit_log_offset) == java["offsetMsgId"]


@pytest.mark.parametrize("case", golden("batches.json"), ids=lambda case: case["name"])
def test_golden_batches_are_encoded_byte_by_byte(case: dict[str, Any]) -> None:
    messages = [
        OutgoingMessage(bytes.fromhex(m["bodyHex"]), m["properties"], m["flag"])
        for m in case["messages"]
    ]
    assert encode_batch(messages).hex() == case["hex"]


def test_records_follow_one_another_without_separators() -> None:
    messages = [message(queue_offset=1), message(queue_offset=2, body=b""), message(queue_offset=3)]
    data = records(*messages)
    assert [m.queue_offset for m in decoded(data)] == [1, 2, 3]
    assert [m.queue_offset for m in decoded(memoryview(data))] == [1, 2, 3]  # type: ignore[arg-type]
    assert decoded(b"") == []


def test_the_topic_length_chooses_the_version() -> None:
    for length, magic in ((127, "daa320a7"), (128, "daa320ab")):
        record = encode_message(message(queue=MessageQueue("t" * length, "b-a", 0)))
        assert record[4:8].hex() == magic
        assert decoded(record)[0].queue.topic == "t" * length


def test_a_version_can_be_asked_for() -> None:
    record = encode_message(MESSAGE, version=2)
    assert record[4:8].hex() == "daa320ab"
    assert decoded(record)[0].queue.topic == "orders"


@pytest.mark.parametrize(
    ("born", "store", "flags"),
    [("[::1]:1", "10.0.0.2:2", 0x10), ("10.0.0.1:1", "[2001:db8::2]:2", 0x20)],
)
def test_either_host_may_be_ipv6(born: str, store: str, flags: int) -> None:
    (found,) = decoded(encode_message(message(born_host=born, store_host=store)))
    assert (found.born_host, found.store_host, found.sys_flag) == (born, store, flags)


def test_ids_name_host_port_and_commit_log_offset() -> None:
    assert offset_message_id("10.0.0.2:10911", 4096) == "0A00000200002A9F0000000000001000"
    assert len(offset_message_id("[2001:db8::2]:10911", 4096)) == 56


def test_the_checksum_is_that_of_the_stored_bytes() -> None:
    (found,) = decoded(encode_message(message(body=b"x" * 5000, sys_flag=ZLIB_FLAGS)))
    assert found.body == b"x" * 5000
    assert found.sys_flag == ZLIB_FLAGS


def test_a_changed_body_fails_its_checksum_unless_that_is_switched_off() -> None:
    spoiled = patched(RECORD, 88, ">B", 0)
    found = zlib.crc32(b"\0ello") & 0x7FFFFFFF
    with pytest.raises(RemoteProtocolError) as refusal:
        decoded(spoiled)
    assert str(refusal.value) == (
        "queue 3 of broker b-a: the message at queue offset 7 (byte 0 of 102 received) is "
        f"malformed: expected a body with CRC 907060870, found CRC {found}"
    )
    assert decoded(spoiled, verify_crc=False)[0].body == b"\0ello"


def test_a_checksum_with_its_highest_bit_set_is_not_masked_away() -> None:
    (crc,) = struct.unpack_from(">I", RECORD, 8)
    with pytest.raises(RemoteProtocolError, match="CRC"):
        decoded(patched(RECORD, 8, ">I", crc | 0x8000_0000))


def test_a_body_that_is_not_compressed_as_its_flag_says_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"queue offset 7 .* bytes that are not lz4"):
        decoded(patched(RECORD, 36, ">i", LZ4_FLAGS))


@pytest.mark.parametrize(
    ("position", "layout", "value", "complaint"),
    [
        (0, ">i", 90, "found totalSize 90"),
        (0, ">i", 103, "found totalSize 103 and 102 bytes at the end"),
        (0, ">i", -1, "found totalSize -1"),
        (0, ">i", 101, "expected propertiesLen of 0 to 1 bytes, found 2"),
        (4, ">I", 0xCBD43194, "found 0xCBD43194"),
        (36, ">i", 0xC0, "expected the messages of an inner batch, found 5 bytes where"),
        (36, ">i", 0x30, "is malformed"),
        (84, ">i", -1, "expected body of 0 to 14 bytes, found -1"),
        (84, ">i", 15, "expected body of 0 to 14 bytes, found 15"),
        (84, ">i", 2**31 - 1, "expected body"),
        (93, ">b", -1, "expected topic of 0 to 8 bytes, found -1"),
        (93, ">b", 9, "expected topic of 0 to 8 bytes, found 9"),
        (100, ">h", -1, "expected properties of 0 to 0 bytes, found -1"),
        (100, ">h", 1, "expected properties of 0 to 0 bytes, found 1"),
    ],
)
def test_a_record_that_lies_is_refused(
    position: int, layout: str, value: int, complaint: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint) as refusal:
        decoded(patched(RECORD, position, layout, value))
    assert "queue 3 of broker b-a: the message at queue offset 7 (byte 0 of" in str(refusal.value)


def test_a_record_longer_than_its_parts_is_refused() -> None:
    padded = patched(RECORD + b"\0", 0, ">i", len(RECORD) + 1)
    with pytest.raises(RemoteProtocolError, match="expected a record of 102 bytes, the sum of"):
        decoded(padded)


def test_every_cut_is_refused_and_tells_the_queue_offset_once_it_is_there() -> None:
    for length in range(1, len(RECORD)):
        with pytest.raises(RemoteProtocolError) as refusal:
            decoded(RECORD + RECORD[:length])
        known = "queue offset 7" if length >= 28 else "queue offset unknown"
        assert f"{known} (byte 102 of {102 + length} received)" in str(refusal.value)


def test_a_topic_that_is_not_utf8_is_read_with_replacements() -> None:
    assert decoded(patched(RECORD, 94, ">B", 0xFF))[0].queue.topic == "\ufffdrders"


@pytest.mark.parametrize(
    "changes",
    [
        {"queue": MessageQueue("orders", "b-a", 2**31)},
        {"queue": MessageQueue("t" * 0x8000, "b-a", 0)},
        {"queue_offset": 2**63},
        {"flag": -(2**31) - 1},
    ],
)
def test_a_field_that_does_not_fit_is_our_own_error(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError, match="does not fit its place on the wire"):
        encode_message(message(**changes))


@pytest.mark.parametrize("host", ["nowhere:1", "10.0.0.1", "10.0.0.1:x", f"10.0.0.1:{2**31}"])
def test_a_host_that_is_no_address_is_our_own_error(host: str) -> None:
    with pytest.raises(LocalProtocolError, match="expected a host"):
        encode_message(message(store_host=host))


def test_an_empty_batch_is_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match="at least one message"):
        encode_batch([])


def test_a_batch_names_what_does_not_fit() -> None:
    with pytest.raises(LocalProtocolError, match="flag 2147483648 does not fit"):
        encode_batch([OutgoingMessage(b"x", {}, 2**31)])
    with pytest.raises(LocalProtocolError, match="'k'"):
        encode_batch([OutgoingMessage(b"x", {"k": "\x02"})])
