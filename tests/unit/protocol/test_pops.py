"""POP on the wire: requests, handles, answers."""

import json

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import encode_message
from rmq_ordered.protocol.pops import (
    ANY_QUEUE,
    InitMode,
    PopHandle,
    PopState,
    RequestMode,
    ack_request,
    assignment_request,
    batch_ack_request,
    change_invisible_request,
    original_topic,
    parse_assignment,
    parse_changed,
    parse_pop,
    parse_pop_state,
    pop_request,
    pop_state_request,
    request_mode_request,
)

QUEUE = MessageQueue("OT", "b-a", ANY_QUEUE)
TEXT = "100 1700000000000 60000 3 0 b-a 2 101"
HANDLE = PopHandle(100, 1_700_000_000_000, 60_000, 3, "0", "b-a", 2, 101)
FIELDS = {"popTime": "1700000000000", "invisibleTime": "60000", "reviveQid": "3", "restNum": "0"}


def record(offset: int, *, topic: str = "OT", queue_id: int = 2, handle: str = "") -> bytes:
    host = "10.0.0.1:10911"
    properties = {"POP_CK": handle} if handle else {}
    queue = MessageQueue(topic, "b-a", queue_id)
    return encode_message(Message(queue, offset, 0, b"x", properties, 1, 2, host, host))


def test_a_pop_asks_as_java_s_client_does() -> None:
    request = pop_request(QUEUE, group="PG", max_messages=32, invisible_ms=60_000, wait_ms=15_000)
    assert request.code == RequestCode.POP_MESSAGE
    assert request.ext_fields == {
        "bname": "b-a", "bornTime": "0", "consumerGroup": "PG", "exp": "*", "expType": "TAG",
        "initMode": "0", "invisibleTime": "60000", "maxMsgNums": "32", "order": "false",
        "pollTime": "15000", "queueId": "-1", "topic": "OT",
    }  # fmt: skip
    later = pop_request(
        QUEUE,
        group="PG",
        max_messages=1,
        invisible_ms=1,
        init_mode=InitMode.LAST,
        is_orderly=True,
    )
    assert (later.ext("initMode"), later.ext("order")) == ("1", "true")


def test_a_handle_is_text_and_back() -> None:
    assert PopHandle.parse(TEXT) == HANDLE
    assert str(HANDLE) == TEXT
    assert PopHandle.parse(f"{TEXT} 4096") == HANDLE, "the proxy adds a part"


@pytest.mark.parametrize("text", ["", "1 2 3", "a 1700000000000 60000 3 0 b-a 2 101"])
def test_a_handle_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="8 parts"):
        PopHandle.parse(text)


@pytest.mark.parametrize(
    ("kind", "topic"), [("0", "OT"), ("1", "%RETRY%PG_OT"), ("2", "%RETRY%PG+OT")]
)
def test_a_message_is_acknowledged_where_it_lies(kind: str, topic: str) -> None:
    handle = PopHandle.parse(TEXT.replace(" 3 0 ", f" 3 {kind} "))
    request = ack_request("PG", "OT", handle)
    assert request.code == RequestCode.ACK_MESSAGE
    assert request.ext_fields == {
        "bname": "b-a", "consumerGroup": "PG", "extraInfo": str(handle), "offset": "101",
        "queueId": "2", "topic": topic,
    }  # fmt: skip


def test_another_invisible_time_gives_another_handle() -> None:
    request = change_invisible_request("PG", "OT", HANDLE, 5_000)
    assert request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    assert request.ext("invisibleTime") == "5000"
    answer = RemotingCommand(
        0, ext_fields={"popTime": "1700000000009", "invisibleTime": "5000", "reviveQid": "7"}
    )
    assert str(parse_changed(answer, HANDLE)) == "101 1700000000009 5000 7 0 b-a 2 101"


def test_messages_get_handles_from_the_header_or_bring_their_own() -> None:
    own = TEXT.replace(" 3 0 ", " 5 1 ")
    body = (
        record(101)
        + record(103)
        + record(7, queue_id=4)
        + record(8, queue_id=4)
        + record(9, topic="%RETRY%PG_OT", queue_id=0)
        + record(9, topic="%RETRY%PG+OT", queue_id=0)
        + record(200, handle=own)
    )
    fields = FIELDS | {"startOffsetInfo": "0 2 100;1 0 5"}
    popped = parse_pop(RemotingCommand(0, ext_fields=fields, body=body), QUEUE)
    assert [str(one.handle) for one in popped] == [
        "100 1700000000000 60000 3 0 b-a 2 101",
        "100 1700000000000 60000 3 0 b-a 2 103",
        "7 1700000000000 60000 3 0 b-a 4 7",
        "7 1700000000000 60000 3 0 b-a 4 8",
        "5 1700000000000 60000 3 1 b-a 0 9",
        "9 1700000000000 60000 3 2 b-a 0 9",
        own,
    ]


def test_start_offsets_that_make_no_sense_are_refused() -> None:
    fields = FIELDS | {"startOffsetInfo": "0 2"}
    with pytest.raises(RemoteProtocolError, match="startOffsetInfo"):
        parse_pop(RemotingCommand(0, ext_fields=fields, body=record(1)), QUEUE)


def test_a_group_can_be_told_to_pop() -> None:
    request = request_mode_request("PG", "OT", RequestMode.POP, shared_queues=8)
    assert request.code == RequestCode.SET_MESSAGE_REQUEST_MODE
    assert json.loads(request.body) == {
        "consumerGroup": "PG", "mode": "POP", "popShareQueueNum": 8, "topic": "OT",
    }  # fmt: skip


def test_an_assignment_names_queues_and_how_to_consume_them() -> None:
    request = assignment_request("PG", "OT", "me#1")
    assert request.code == RequestCode.QUERY_ASSIGNMENT
    assert json.loads(request.body)["strategyName"] == "AVG"
    row = b'{"messageQueue":{"brokerName":"b-a","queueId":-1,"topic":"OT"},"mode":"%s"}'
    body = b'{"messageQueueAssignments":[%s]}'
    answer = RemotingCommand(0, body=body % (row % b"POP"))
    assert parse_assignment(answer) == {QUEUE: RequestMode.POP}
    assert parse_assignment(RemotingCommand(0, body=b"{}")) == {}
    with pytest.raises(RemoteProtocolError, match="PULL or POP"):
        parse_assignment(RemotingCommand(0, body=body % (row % b"PUSH")))


def test_acks_of_what_was_popped_at_once_are_one_bit_set() -> None:
    handles = [PopHandle(100, 1700000000000, 60000, 3, "0", "b-a", 2, at) for at in (100, 102, 109)]
    other = PopHandle(5, 1700000000000, 60000, 3, "1", "b-a", 0, 5)
    request = batch_ack_request("G", "T", "b-a", [*handles, other])
    assert request.code == RequestCode.BATCH_ACK_MESSAGE
    body = json.loads(request.body)
    assert body["brokerName"] == "b-a"
    assert body["acks"] == [
        {
            "b": "BQI=", "c": "G", "it": 60000, "pt": 1700000000000,
            "q": 2, "r": "0", "rq": 3, "so": 100, "t": "T",
        },
        {
            "b": "AQ==", "c": "G", "it": 60000, "pt": 1700000000000,
            "q": 0, "r": "1", "rq": 3, "so": 5, "t": "T",
        },
    ]  # fmt: skip


def test_an_orderly_answer_says_how_often_messages_came_before() -> None:
    body = record(100, queue_id=2) + record(101, queue_id=2)
    fields = FIELDS | {"orderCountInfo": "0 qo2%100 3;0 2 1"}
    popped = parse_pop(RemotingCommand(0, ext_fields=fields, body=body), QUEUE)
    assert [one.message.reconsume_times for one in popped] == [3, 1]
    with pytest.raises(RemoteProtocolError, match="orderCountInfo"):
        parse_pop(RemotingCommand(0, ext_fields=FIELDS | {"orderCountInfo": "0"}, body=b""), QUEUE)


@pytest.mark.parametrize("kind", ["0", "1", "2"])
def test_the_topic_of_a_retried_message_is_found_again(kind: str) -> None:
    handle = PopHandle(5, 1, 2, 3, kind, "b-a", 0, 5)
    for group, topic in (("G", "T"), ("my_group", "my_topic"), ("G_1", "T+2")):
        assert original_topic(group, handle.physical_topic(group, topic)) == topic


def test_an_attempt_is_named_only_when_it_has_a_name() -> None:
    plain = pop_request(QUEUE, group="G", max_messages=1, invisible_ms=1)
    named = pop_request(QUEUE, group="G", max_messages=1, invisible_ms=1, attempt_id="a")
    assert "attemptId" not in (plain.ext_fields or {})
    assert named.ext("attemptId") == "a"


def test_the_state_of_pops_is_read() -> None:
    request = pop_state_request("G", None)
    assert (request.code, request.ext_fields) == (RequestCode.GET_POP_STATE, {"consumerGroup": "G"})
    row = {
        "group": "G", "topic": "T", "queueId": 1, "nextOffset": 5, "maxOffset": 9,
        "inFlight": 2, "toRevive": 1, "oldestPopTime": 1700000000000, "orderly": True,
    }  # fmt: skip
    without = {name: value for name, value in row.items() if name != "oldestPopTime"}
    answer = RemotingCommand(0, body=json.dumps({"queues": [row, without]}).encode())
    one, other = parse_pop_state(answer)
    assert one == PopState("G", "T", 1, 5, 9, 2, 1, 1700000000000, True)
    assert other.oldest_pop_ms is None


@pytest.mark.parametrize("text", ["100 1 60000 3 0 b-a 2 50", f"0 1 60000 3 0 b-a 2 {10**18}"])
def test_a_handle_that_lies_about_its_offset_is_not_acknowledged(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"pop handle '{text}' .* of topic T") as raised:
        batch_ack_request("G", "T", "b-a", [PopHandle.parse(text)])
    assert "acknowledge" in str(raised.value)
