import pytest
from tests.unit.columnar.samples import MESSAGE, QUEUE, message, patched, records

from rmq_ordered.columnar.boundaries import split_records
from rmq_ordered.columnar.fields import Fields, read_fields
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.message import encode_message

RECORD = records(MESSAGE)


def fields_of(body: bytes) -> Fields:
    return read_fields(split_records(body, QUEUE))


def test_fixed_fields_are_read_from_every_record() -> None:
    body = records(
        message(queue_offset=2**40, commit_log_offset=2**50, reconsume_times=16, sys_flag=4),
        message(queue_offset=2**40 + 1, born_timestamp_ms=-5, store_timestamp_ms=2**62),
    )
    found = fields_of(body)
    assert found.queue_offsets.tolist() == [2**40, 2**40 + 1]
    assert found.commit_log_offsets.tolist() == [2**50, 4096]
    assert found.reconsume_times.tolist() == [16, 0]
    assert found.sys_flags.tolist() == [4, 0]
    assert found.born_ms.tolist() == [1_700_000_000_000, -5]
    assert found.store_ms.tolist() == [1_700_000_000_001, 2**62]


def test_bodies_and_properties_are_found_behind_hosts_and_topics_of_any_width() -> None:
    messages = [
        message(properties={"a": "1"}),
        message(properties={"a": "2"}, born_host="[::1]:1"),
        message(properties={"a": "3"}, store_host="[::2]:2"),
        message(properties={"a": "4"}, born_host="[::1]:1", store_host="[::2]:2"),
        message(properties={"a": "5"}, queue=MessageQueue("t" * 300, "b", 0)),
    ]
    body = b"".join(map(encode_message, messages))
    cut = split_records(body, QUEUE)
    found = read_fields(cut)
    bodies = zip(found.body_starts, found.body_ends, strict=True)
    assert [body[start:end] for start, end in bodies] == [b"hello"] * 5
    properties = zip(found.properties_starts, cut.ends, strict=True)
    assert [body[start:end] for start, end in properties] == [
        f"a\x01{number}\x02".encode() for number in range(1, 6)
    ]
    assert found.store_ms.tolist() == [1_700_000_000_001] * 5
    hosts = zip(found.store_host_starts, found.store_host_bytes, strict=True)
    assert [body[start : start + size][-4:].hex() for start, size in hosts] == [
        "00002a9f",
        "00002a9f",
        "00000002",
        "00000002",
        "00002a9f",
    ]


@pytest.mark.parametrize(
    ("position", "layout", "value", "complaint"),
    [
        (4, ">I", 0xCBD43194, "expected magic 0xDAA320A7 or 0xDAA320AB, found 0xCBD43194"),
        (36, ">i", 0x10, "found totalSize 102 where 103 are needed"),
        (36, ">i", 0x30, "found totalSize 102 where 115 are needed"),
        (84, ">i", -1, "found bodyLen -1 where 0 to 11 fit"),
        (84, ">i", 12, "found bodyLen 12 where 0 to 11 fit"),
        (84, ">i", 2**31 - 1, "found bodyLen 2147483647 where 0 to 11 fit"),
        (93, ">b", -1, "found topicLen -1 where 0 to 6 fit"),
        (93, ">b", 7, "found topicLen 7 where 0 to 6 fit"),
        (93, ">b", 5, "found propertiesLen 29440 where 1 bytes are left"),
        (100, ">h", -1, "found propertiesLen -1 where 0 bytes are left"),
        (100, ">h", 1, "found propertiesLen 1 where 0 bytes are left"),
    ],
)
@pytest.mark.parametrize("after", [0, 3])
def test_a_record_that_lies_is_refused_by_queue_offset_and_position(
    position: int, layout: str, value: int, complaint: str, after: int
) -> None:
    body = RECORD + patched(RECORD, position, layout, value) + RECORD * after
    with pytest.raises(RemoteProtocolError) as refusal:
        fields_of(body)
    assert "orders@broker-a#3: the message at queue offset 7 (byte 102 of" in str(refusal.value)
    assert complaint in str(refusal.value)


def test_a_second_version_record_has_a_wider_topic_length() -> None:
    record = encode_message(MESSAGE, version=2)
    with pytest.raises(RemoteProtocolError, match="found topicLen -1 where 0 to 6 fit"):
        fields_of(patched(record, 93, ">h", -1))
