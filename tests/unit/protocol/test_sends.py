"""Send requests, and where messages landed."""

import pytest

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.model import MessageQueue, OutgoingMessage, QueueReceipt
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import encode_batch
from rmq_ordered.protocol.sends import (
    STORED_CODES,
    is_put_off,
    parse_receipt,
    send_batch_request,
    send_record_request,
    send_request,
    send_stamped_request,
)

QUEUE = MessageQueue("OT", "b-a", 2)
LANDED = {"queueId": "2", "queueOffset": "40"}


def test_a_send_has_the_short_names_that_java_uses() -> None:
    request = send_request(
        QUEUE,
        b"hello",
        {"KEYS": "K1", "TAGS": "TagA"},
        producer_group="PG1",
        born_ms=1_794_785_297_002,
        flag=5,
        sys_flag=1,
    )
    assert request.code == RequestCode.SEND_MESSAGE_V2
    assert request.body == b"hello"
    assert request.ext_fields == {
        "a": "PG1",
        "b": "OT",
        "c": "TBW102",
        "d": "4",
        "e": "2",
        "f": "1",
        "g": "1794785297002",
        "h": "5",
        "i": "KEYS\x01K1\x02TAGS\x01TagA\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "b-a",
    }


def test_the_header_of_a_batch_has_wait_and_nothing_else() -> None:
    request = send_batch_request(QUEUE, b"batch", producer_group="PG1", born_ms=1)
    assert request.code == RequestCode.SEND_BATCH_MESSAGE
    assert request.body == b"batch"
    assert request.ext("i") == "WAIT\x01true\x02"
    assert (request.ext("m"), request.ext("f"), request.ext("h")) == ("true", "0", "0")
    assert request.ext("briefReceipt") == "true"


def test_a_stamped_batch_has_its_stamp_in_the_header() -> None:
    batch = send_batch_request(QUEUE, b"both", producer_group="PG1", born_ms=1, sys_flag=769)
    request = send_stamped_request(
        QUEUE, b"both", "s/1/2/3", 4, producer_group="PG1", born_ms=1, sys_flag=769
    )
    assert (request.code, request.body) == (RequestCode.SEND_BATCH_MESSAGE, b"both")
    stamp = {"stamp": "s/1/2/3", "digests": "4"}
    assert request.ext_fields == {**(batch.ext_fields or {}), **stamp}


def test_a_property_that_would_inject_others_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="0x01 or 0x02"):
        send_request(QUEUE, b"x", {"KEYS": "a\x02TAGS\x01b"}, producer_group="PG1", born_ms=1)


def test_the_answer_tells_where_the_messages_landed() -> None:
    result = parse_receipt(RemotingCommand(0, ext_fields=LANDED), QUEUE, 2)
    assert result == QueueReceipt(QUEUE, 2, 0, 40, 41)


def test_a_message_that_the_broker_put_elsewhere_is_reported_where_it_is() -> None:
    elsewhere = RemotingCommand(0, ext_fields=LANDED | {"queueId": "3"})
    assert parse_receipt(elsewhere, QUEUE, 1).queue == MessageQueue("OT", "b-a", 3)


@pytest.mark.parametrize("missing", sorted(LANDED))
def test_an_answer_without_a_place_is_a_remote_protocol_error(missing: str) -> None:
    fields = {name: value for name, value in LANDED.items() if name != missing}
    with pytest.raises(RemoteProtocolError, match=f"'{missing}'"):
        parse_receipt(RemotingCommand(0, ext_fields=fields), QUEUE, 1)


def test_stored_but_less_durable_than_wished_counts_as_stored() -> None:
    assert sorted(STORED_CODES) == [0, 10, 11, 12]


def test_a_record_alone_is_sent_as_a_message() -> None:
    record = encode_batch([OutgoingMessage(b"hello", {"KEYS": "grün"}, 5)])
    request = send_record_request(QUEUE, record, producer_group="PG1", born_ms=1, sys_flag=769)
    assert request.code == RequestCode.SEND_MESSAGE_V2
    assert request.body == b"hello"
    assert request.ext("i") == "KEYS\x01grün\x02WAIT\x01true\x02"
    assert (request.ext("m"), request.ext("f"), request.ext("h")) == ("false", "769", "5")


def test_the_system_flag_of_a_batch_is_that_of_its_records() -> None:
    request = send_batch_request(QUEUE, b"batch", producer_group="PG1", born_ms=1, sys_flag=769)
    assert request.ext("f") == "769"


@pytest.mark.parametrize(
    ("fields", "receipt"),
    [
        ({}, QueueReceipt(QUEUE, 2, 0, 40, 41)),
        ({"landed": "0"}, QueueReceipt(QUEUE, 2, 0, 40, 41)),
        ({"landed": "1"}, QueueReceipt(QUEUE, 1, 1, 40, None)),
        ({"landed": "2", "queueOffset": "-1"}, QueueReceipt(QUEUE, 0, 2, None, None)),
    ],
    ids=["no stamps", "all new", "some new", "none new"],
)
def test_a_receipt_tells_new_messages_from_repeats(
    fields: dict[str, str], receipt: QueueReceipt
) -> None:
    assert parse_receipt(RemotingCommand(0, ext_fields=LANDED | fields), QUEUE, 2) == receipt


@pytest.mark.parametrize(
    ("code", "remark", "expected"),
    [
        (ResponseCode.SERVICE_NOT_AVAILABLE, None, True),
        (ResponseCode.SYSTEM_ERROR, "[PC_SYNCHRONIZED]broker busy", True),
        (ResponseCode.SYSTEM_ERROR, "create mapped file failed, server is busy or broken.", True),
        (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough", False),
        (ResponseCode.SYSTEM_ERROR, None, False),
        (ResponseCode.MESSAGE_ILLEGAL, "create mapped file failed", False),
    ],
)
def test_only_a_store_that_appended_nothing_puts_a_send_off(
    code: int, remark: str | None, expected: bool
) -> None:
    assert is_put_off(RemotingCommand(code, remark=remark)) is expected
