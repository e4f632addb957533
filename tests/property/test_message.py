import struct
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.messages import (
    I32,
    encoded_messages,
    messages,
    odd_properties,
    outgoing,
    property_maps,
    relabelled_bodies,
    spoiled_bodies,
)

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import Message, OutgoingMessage
from rmq_ordered.protocol.message import (
    INNER_BATCH_FLAGS,
    decode_message,
    decode_messages,
    encode_batch,
    encode_message,
)
from rmq_ordered.protocol.properties import decode_properties, encode_properties


def attempt(body: bytes, verify_crc: bool) -> list[Message] | RemoteProtocolError:
    try:
        return list(decode_messages(body, broker_name="b", verify_crc=verify_crc))
    except RemoteProtocolError as refusal:
        return refusal


@given(messages())
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    record = encode_message(message)
    assert decode_message(record, 0, broker_name="broker-a") == (message, len(record))


@given(messages(), st.binary(max_size=20), st.binary(max_size=20))
def test_a_record_is_decoded_from_the_middle_of_other_bytes(
    message: Message, before: bytes, after: bytes
) -> None:
    record = encode_message(message)
    data = before + record + after
    found = decode_message(data, len(before), broker_name="broker-a")
    assert found == (message, len(before) + len(record))


@given(st.lists(encoded_messages(), max_size=5))
def test_many_records_decode_as_one_by_one(records: list[bytes]) -> None:
    one_by_one = [
        message for record in records for message in decode_messages(record, broker_name="b")
    ]
    assert list(decode_messages(b"".join(records), broker_name="b")) == one_by_one


@given(messages(), st.lists(outgoing, min_size=1, max_size=5))
def test_an_inner_batch_comes_back_as_its_messages(
    outer: Message, batch: list[OutgoingMessage]
) -> None:
    outer = replace(
        outer,
        queue_offset=outer.queue_offset % 2**62,
        sys_flag=outer.sys_flag | INNER_BATCH_FLAGS,
        body=encode_batch(batch),
    )
    found = list(decode_messages(encode_message(outer), broker_name="broker-a"))
    assert found == [
        replace(
            outer,
            queue_offset=outer.queue_offset + number,
            body=one.body,
            properties=one.properties,
            flag=one.flag,
        )
        for number, one in enumerate(batch)
    ]


@given(st.binary(max_size=300) | spoiled_bodies() | relabelled_bodies(), st.booleans())
def test_garbage_raises_nothing_but_a_protocol_error(body: bytes, verify_crc: bool) -> None:
    found = attempt(body, verify_crc)
    if isinstance(found, RemoteProtocolError):
        assert "broker b: the message at queue offset" in str(found)
    elif body:
        assert {message.queue.broker_name for message in found} == {"b"}


@given(property_maps)
def test_properties_come_back_as_they_were(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@given(odd_properties | st.binary())
@example(b"\x01\x02\x01")
def test_properties_read_from_any_bytes_can_be_read_again(raw: bytes) -> None:
    found = decode_properties(raw)
    assert all(name and value for name, value in found.items())
    assert not any("\x02" in name + value or "\x01" in name for name, value in found.items())
    again = "".join(f"{name}\x01{value}\x02" for name, value in found.items()).encode()
    assert decode_properties(again) == found


@given(st.lists(st.builds(OutgoingMessage, st.binary(), property_maps, I32), min_size=1))
def test_a_batch_holds_every_message_in_order(batch: list[OutgoingMessage]) -> None:
    data, found = encode_batch(batch), []
    while data:
        total, magic, crc, flag, body_length = struct.unpack_from(">5i", data)
        properties_at = 20 + body_length
        (length,) = struct.unpack_from(">h", data, properties_at)
        assert (magic, crc, total) == (0, 0, properties_at + 2 + length)
        properties = decode_properties(data[properties_at + 2 : total])
        found.append(OutgoingMessage(data[20:properties_at], properties, flag))
        data = data[total:]
    assert found == batch
