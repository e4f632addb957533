"""Requests that store messages, and where they landed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rmq_ordered.model import MessageQueue, SendResult
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.properties import encode_properties

# Stored, but the broker could not make it as durable as it was told to: for order and idempotence
# it landed.
STORED_CODES: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)


def send_request(
    queue: MessageQueue,
    body: bytes,
    properties: Mapping[str, str],
    *,
    producer_group: str,
    born_ms: int,
    flag: int = 0,
    sys_flag: int = 0,
) -> RemotingCommand:
    """SEND_MESSAGE_V2 of one message."""
    fields = _header(queue, properties, producer_group, born_ms)
    fields |= {"f": str(sys_flag), "h": str(flag), "m": "false"}
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=body)


def send_batch_request(
    queue: MessageQueue, batch: bytes, *, producer_group: str, born_ms: int
) -> RemotingCommand:
    """SEND_BATCH_MESSAGE of an encoded batch.

    The header's properties are appended to every record by the broker and the last one wins, so
    they hold WAIT and nothing else.
    """
    fields = _header(queue, {"WAIT": "true"}, producer_group, born_ms)
    fields |= {"f": "0", "h": "0", "m": "true"}
    return RemotingCommand(RequestCode.SEND_BATCH_MESSAGE, ext_fields=fields, body=batch)


def parse_send(response: RemotingCommand, queue: MessageQueue, count: int) -> SendResult:
    """Where the messages landed, from a response with one of STORED_CODES."""
    message_ids = tuple(response.ext("msgId").split(","))
    landed = MessageQueue(queue.topic, queue.broker_name, response.ext_int("queueId"))
    return SendResult(landed, response.ext_int("queueOffset"), count, message_ids)


def _header(
    queue: MessageQueue, properties: Mapping[str, str], producer_group: str, born_ms: int
) -> dict[str, str]:
    return {
        "a": producer_group,
        "b": queue.topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue.queue_id),
        "g": str(born_ms),
        "i": encode_properties(properties).decode(),
        "j": "0",
        "k": "false",
        "n": queue.broker_name,
    }
