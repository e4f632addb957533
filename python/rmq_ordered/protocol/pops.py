"""POP: messages handed out by the broker one by one, each hidden until it is acknowledged.

A popped message has a handle, the proof that it was given to us and until when. Its parts, divided
by spaces (RocketMQ's ``ExtraInfoUtil``):

    0  start offset      of what was popped from this queue at once
    1  pop time          ms
    2  invisible time    ms: not acknowledged by then, the message comes again
    3  revive queue      0..7, or 999 for orderly pops
    4  topic kind        0 the topic itself, 1 and 2 its retry topic in two spellings
    5  broker name
    6  queue id
    7  queue offset

The numbers of these requests do not fit the binary header; they are always sent as JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.bodies import (
    decode_object,
    encode_json,
    objects,
    queue_from_json,
    typed,
)
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import decode_messages
from rmq_ordered.protocol.properties import PROPERTY_POP_CK

# RocketMQ refuses to hand out more at once.
MAX_POP_MESSAGES: Final = 32
ANY_QUEUE: Final = -1
_HANDLE_PARTS: Final = 8
# A pop with a filter looks at some ten thousand messages; bits are only kept for those in between.
_MAX_DISTANCE: Final = 2**20
_RETRY_PREFIX: Final = "%RETRY%"
_FIRST_KIND, _OLD_RETRY, _NEW_RETRY = "0", "1", "2"

EMPTY_POP_CODES: Final = frozenset(
    {ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT}
)


class InitMode(Enum):
    """Where a group begins that never popped from a queue."""

    FIRST = 0
    LAST = 1


class RequestMode(Enum):
    """How the members of a group get a topic's messages."""

    PULL = "PULL"
    POP = "POP"


@dataclass(frozen=True, slots=True)
class PopHandle:
    """The proof that a message was given to us."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    topic_kind: str
    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return (
            f"{self.start_offset} {self.pop_time_ms} {self.invisible_ms} {self.revive_queue} "
            f"{self.topic_kind} {self.broker_name} {self.queue_id} {self.queue_offset}"
        )

    @classmethod
    def parse(cls, text: str) -> PopHandle:
        """Read a handle; further parts, which RocketMQ's proxy adds, are dropped."""
        parts = text.split(" ")
        try:
            start, at_ms, hidden_ms, revive, kind, broker, queue, offset = parts[:_HANDLE_PARTS]
            numbers = (int(start), int(at_ms), int(hidden_ms), int(revive))
            return cls(*numbers, kind, broker, int(queue), int(offset))
        except ValueError as error:
            raise RemoteProtocolError(
                f"a pop handle should have {_HANDLE_PARTS} parts as '0 1700000000000 60000 3 0 "
                f"broker-a 2 101', found {text!r}"
            ) from error

    def physical_topic(self, group: str, topic: str) -> str:
        """Where the message lies: the topic itself, or the group's retry topic for it."""
        separator = {_OLD_RETRY: "_", _NEW_RETRY: "+"}.get(self.topic_kind)
        return topic if separator is None else f"{_RETRY_PREFIX}{group}{separator}{topic}"


def original_topic(group: str, physical: str) -> str:
    """The topic whose messages a physical topic holds: undoes ``PopHandle.physical_topic``."""
    for separator in ("_", "+"):
        prefix = f"{_RETRY_PREFIX}{group}{separator}"
        if physical.startswith(prefix):
            return physical.removeprefix(prefix)
    return physical


@dataclass(frozen=True, slots=True)
class PoppedMessage:
    """A message that is hidden from others until its handle ends."""

    message: Message
    handle: PopHandle


def pop_request(
    queue: MessageQueue,
    *,
    group: str,
    max_messages: int,
    invisible_ms: int,
    wait_ms: int = 0,
    init_mode: InitMode = InitMode.FIRST,
    expression: str = "*",
    expression_type: str = "TAG",
    is_orderly: bool = False,
    attempt_id: str | None = None,
) -> RemotingCommand:
    """POP_MESSAGE; a queue with id ANY_QUEUE stands for all queues of that broker."""
    fields = {
        "bname": queue.broker_name,
        # 0: the broker takes its own time, so that clocks need not agree.
        "bornTime": "0",
        "consumerGroup": group,
        "exp": expression,
        "expType": expression_type,
        "initMode": str(init_mode.value),
        "invisibleTime": str(invisible_ms),
        "maxMsgNums": str(max_messages),
        "order": str(is_orderly).lower(),
        "pollTime": str(wait_ms),
        "queueId": str(queue.queue_id),
        "topic": queue.topic,
    }
    if attempt_id is not None:
        fields["attemptId"] = attempt_id
    return RemotingCommand(RequestCode.POP_MESSAGE, ext_fields=fields)


def parse_pop(response: RemotingCommand, queue: MessageQueue) -> tuple[PoppedMessage, ...]:
    """The messages of a successful answer, each with its handle."""
    fields = response.ext_fields or {}
    starts = _start_offsets(fields.get("startOffsetInfo", ""))
    counts = _counts(fields.get("orderCountInfo", ""))
    popped: list[PoppedMessage] = []
    for message in decode_messages(response.body, broker_name=queue.broker_name):
        known = message.properties.get(PROPERTY_POP_CK)
        kind, queue_id = _kind(message.queue.topic), message.queue.queue_id
        start = starts.setdefault((kind, queue_id), message.queue_offset)
        handle = (
            PopHandle.parse(known)
            if known
            else PopHandle(
                start,
                response.ext_int("popTime"),
                response.ext_int("invisibleTime"),
                response.ext_int("reviveQid"),
                kind,
                queue.broker_name,
                queue_id,
                message.queue_offset,
            )
        )
        popped.append(PoppedMessage(_counted(message, kind, counts), handle))
    return tuple(popped)


def _counted(message: Message, kind: str, counts: Mapping[tuple[str, str], int]) -> Message:
    """An orderly pop counts how often a message came before; the record itself cannot know."""
    queue_id = message.queue.queue_id
    of_queue = counts.get((kind, str(queue_id)), 0)
    times = counts.get((kind, f"qo{queue_id}%{message.queue_offset}"), of_queue)
    return replace(message, reconsume_times=times) if times > 0 else message


def ack_request(group: str, topic: str, handle: PopHandle) -> RemotingCommand:
    """ACK_MESSAGE: this message is done with."""
    return RemotingCommand(RequestCode.ACK_MESSAGE, ext_fields=_handle_fields(group, topic, handle))


def batch_ack_request(
    group: str, topic: str, broker_name: str, handles: Iterable[PopHandle]
) -> RemotingCommand:
    """BATCH_ACK_MESSAGE: these messages of one broker are done with."""
    pops: dict[PopHandle, int] = {}
    for handle in handles:
        # What was popped at once shares everything but the offset.
        shared = replace(handle, queue_offset=handle.start_offset)
        distance = handle.queue_offset - handle.start_offset
        if not 0 <= distance <= _MAX_DISTANCE:
            raise RemoteProtocolError(
                f"the pop handle '{handle}' of a message of topic {topic} is none: expected a "
                f"queue offset up to {_MAX_DISTANCE} after {handle.start_offset}, where its pop "
                f"began, found {handle.queue_offset}; acknowledge the others without it"
            )
        bit = 1 << distance
        pops[shared] = pops.get(shared, 0) | bit
    acks = [_batch_entry(group, topic, pop, bits) for pop, bits in pops.items()]
    body = {"acks": acks, "brokerName": broker_name}
    return RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, ext_fields={}, body=encode_json(body))


def _batch_entry(group: str, topic: str, pop: PopHandle, bits: int) -> dict[str, Any]:
    width = (bits.bit_length() + 7) // 8
    return {
        "b": base64.b64encode(bits.to_bytes(width, "little")).decode(),
        "c": group,
        "it": pop.invisible_ms,
        "pt": pop.pop_time_ms,
        "q": pop.queue_id,
        "r": pop.topic_kind,
        "rq": pop.revive_queue,
        "so": pop.start_offset,
        "t": topic,
    }


def change_invisible_request(
    group: str, topic: str, handle: PopHandle, invisible_ms: int
) -> RemotingCommand:
    """CHANGE_MESSAGE_INVISIBLETIME: hide it that long from now on."""
    fields = _handle_fields(group, topic, handle) | {"invisibleTime": str(invisible_ms)}
    return RemotingCommand(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext_fields=fields)


def parse_changed(response: RemotingCommand, handle: PopHandle) -> PopHandle:
    """The handle that replaces the old one."""
    return replace(
        handle,
        start_offset=handle.queue_offset,
        pop_time_ms=response.ext_int("popTime"),
        invisible_ms=response.ext_int("invisibleTime"),
        revive_queue=response.ext_int("reviveQid"),
    )


def request_mode_request(
    group: str, topic: str, mode: RequestMode, *, shared_queues: int = 0
) -> RemotingCommand:
    """SET_MESSAGE_REQUEST_MODE: let all members of a group pop, or pull, a topic."""
    body = {
        "consumerGroup": group,
        "mode": mode.value,
        "popShareQueueNum": shared_queues,
        "topic": topic,
    }
    return RemotingCommand(
        RequestCode.SET_MESSAGE_REQUEST_MODE, ext_fields={}, body=encode_json(body)
    )


def assignment_request(group: str, topic: str, client_id: str) -> RemotingCommand:
    """QUERY_ASSIGNMENT: ask the broker which queues a member should consume."""
    body = {
        "clientId": client_id,
        "consumerGroup": group,
        "messageModel": "CLUSTERING",
        "strategyName": "AVG",
        "topic": topic,
    }
    return RemotingCommand(RequestCode.QUERY_ASSIGNMENT, ext_fields={}, body=encode_json(body))


def parse_assignment(response: RemotingCommand) -> dict[MessageQueue, RequestMode]:
    """The queues assigned, and how to consume each."""
    what = "assignment"
    rows = objects(decode_object(response.body, what), "messageQueueAssignments", what)
    return {_assigned(row, what): _mode(row, what) for row in rows}


@dataclass(frozen=True, slots=True)
class PopState:
    """What a group has popped from one queue of the embedded broker and not settled.

    Attributes:
        next_offset: where its next pop begins.
        max_offset: where the queue ends.
        in_flight: messages handed out and neither acknowledged nor come back.
        to_revive: those of them whose time is over, which are about to come back.
        oldest_pop_ms: when the oldest of them was handed out.
        is_orderly: whether the group pops this queue in order.
    """

    group: str
    topic: str
    queue_id: int
    next_offset: int
    max_offset: int
    in_flight: int
    to_revive: int
    oldest_pop_ms: int | None
    is_orderly: bool


def pop_state_request(group: str | None = None, topic: str | None = None) -> RemotingCommand:
    """GET_POP_STATE: ask the embedded broker what is handed out."""
    fields = {"consumerGroup": group, "topic": topic}
    return RemotingCommand(
        RequestCode.GET_POP_STATE,
        ext_fields={name: value for name, value in fields.items() if value},
    )


def parse_pop_state(response: RemotingCommand) -> tuple[PopState, ...]:
    """What is handed out, by group, topic and queue."""
    what = "pop state"
    rows = objects(decode_object(response.body, what), "queues", what)
    return tuple(_state(row, what) for row in rows)


def _state(row: Mapping[str, Any], what: str) -> PopState:
    oldest = row.get("oldestPopTime")
    return PopState(
        group=typed(row, "group", str, what),
        topic=typed(row, "topic", str, what),
        queue_id=typed(row, "queueId", int, what),
        next_offset=typed(row, "nextOffset", int, what),
        max_offset=typed(row, "maxOffset", int, what),
        in_flight=typed(row, "inFlight", int, what),
        to_revive=typed(row, "toRevive", int, what),
        oldest_pop_ms=oldest if isinstance(oldest, int) else None,
        is_orderly=typed(row, "orderly", bool, what),
    )


def _assigned(row: Mapping[str, Any], what: str) -> MessageQueue:
    return queue_from_json(typed(row, "messageQueue", dict, what), what)


def _mode(row: Mapping[str, Any], what: str) -> RequestMode:
    name = typed(row, "mode", str, what)
    try:
        return RequestMode(name)
    except ValueError:
        raise RemoteProtocolError(f"{what}: expected mode PULL or POP, found {name!r}") from None


def _handle_fields(group: str, topic: str, handle: PopHandle) -> dict[str, str]:
    return {
        "bname": handle.broker_name,
        "consumerGroup": group,
        "extraInfo": str(handle),
        "offset": str(handle.queue_offset),
        "queueId": str(handle.queue_id),
        "topic": handle.physical_topic(group, topic),
    }


def _start_offsets(text: str) -> dict[tuple[str, int], int]:
    """``kind queue offset;...`` by kind and queue."""
    try:
        rows = [entry.split(" ") for entry in text.split(";") if entry]
        return {(kind, int(queue)): int(offset) for kind, queue, offset in rows}
    except ValueError as error:
        raise RemoteProtocolError(
            f"startOffsetInfo should be 'kind queue offset;...', found {text!r}"
        ) from error


def _counts(text: str) -> dict[tuple[str, str], int]:
    """``kind queue count;...``, where ``qoQUEUE%OFFSET`` stands for one message of a queue."""
    try:
        rows = [entry.split(" ") for entry in text.split(";") if entry]
        return {(kind, where): int(count) for kind, where, count in rows}
    except ValueError as error:
        raise RemoteProtocolError(
            f"orderCountInfo should be 'kind queue count;...', found {text!r}"
        ) from error


def _kind(topic: str) -> str:
    if not topic.startswith(_RETRY_PREFIX):
        return _FIRST_KIND
    return _NEW_RETRY if "+" in topic else _OLD_RETRY
