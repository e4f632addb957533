"""Requests that store messages, and where they landed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rmq_ordered.model import MessageQueue, QueueReceipt
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


# What a store says with code SYSTEM_ERROR when it puts a send off before it appends anything: page
# cache busy (RocketMQ 4; 5 says SYSTEM_BUSY) and no new file (CommitLog.asyncPutMessage). All other
# remarks of that code leave open what was stored: "in-sync replicas not enough" is also what
# DLedgerCommitLog says of an entry that it has appended.
_PUT_OFF_REMARKS: Final = ("[PC_SYNCHRONIZED]", "create mapped file failed")

# The last one wins where a broker appends the header's properties to those of the records.
_WAIT: Final = "WAIT\x01true\x02"
_RECORD_HEAD: Final = struct.Struct(">iiiii")


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
    fields = _header(queue, encode_properties(properties).decode(), producer_group, born_ms)
    fields |= {"f": str(sys_flag), "h": str(flag), "m": "false"}
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=body)


def send_record_request(
    queue: MessageQueue, record: bytes, *, producer_group: str, born_ms: int, sys_flag: int = 0
) -> RemotingCommand:
    """SEND_MESSAGE_V2 of the only record of an encoded batch."""
    _, _, _, flag, body_length = _RECORD_HEAD.unpack_from(record)
    body_end = _RECORD_HEAD.size + body_length
    properties = record[body_end + 2 :].decode() + _WAIT
    fields = _header(queue, properties, producer_group, born_ms)
    fields |= {"f": str(sys_flag), "h": str(flag), "m": "false"}
    body = record[_RECORD_HEAD.size : body_end]
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext_fields=fields, body=body)


def send_batch_request(
    queue: MessageQueue, batch: bytes, *, producer_group: str, born_ms: int, sys_flag: int = 0
) -> RemotingCommand:
    """SEND_BATCH_MESSAGE of an encoded batch.

    Brokers before 5.5 append the header's properties to every record and the last one wins, so they
    hold WAIT and nothing else. The system flag becomes that of every record (MessageExtEncoder):
    either each body of the batch is compressed, or none. Nobody here needs the ids of the messages;
    RocketMQ tells them all the same, the embedded broker does not.
    """
    fields = _header(queue, _WAIT, producer_group, born_ms)
    fields |= {"f": str(sys_flag), "h": "0", "m": "true", "briefReceipt": "true"}
    return RemotingCommand(RequestCode.SEND_BATCH_MESSAGE, ext_fields=fields, body=batch)


def send_stamped_request(
    queue: MessageQueue,
    body: bytes,
    stamp: str,
    count: int,
    *,
    producer_group: str,
    born_ms: int,
    sys_flag: int = 0,
) -> RemotingCommand:
    """SEND_BATCH_MESSAGE with one stamp for all records.

    For brokers that announce ``stampedRequest`` only: others would store the digests as a record.

    Args:
        queue: where to.
        body: an encoded batch, then the digest of each record.
        stamp: ``sink/batch/partition/sequence``; the sequence is that of the first record.
        count: how many records there are.
        producer_group: who sends.
        born_ms: when.
        sys_flag: of every record.
    """
    request = send_batch_request(
        queue, body, producer_group=producer_group, born_ms=born_ms, sys_flag=sys_flag
    )
    fields = {**(request.ext_fields or {}), "stamp": stamp, "digests": str(count)}
    return replace(request, ext_fields=fields)


def in_name_of(request: RemotingCommand, run: str) -> RemotingCommand:
    """The same send, to be refused when a lease is over that this run has read under."""
    return replace(request, ext_fields={**(request.ext_fields or {}), "run": run})


def is_put_off(response: RemotingCommand) -> bool:
    """Whether nothing was stored for a reason that passes: no room, a start, a change of role."""
    if response.code == ResponseCode.SYSTEM_ERROR:
        return (response.remark or "").startswith(_PUT_OFF_REMARKS)
    return response.code == ResponseCode.SERVICE_NOT_AVAILABLE


def parse_receipt(response: RemotingCommand, queue: MessageQueue, count: int) -> QueueReceipt:
    """What became of ``count`` messages of one request, from a response with a stored code.

    The messages of a request lie together, unless some of them were there before: then only the
    stream's last offset, which is not looked at here, tells where the last one is.
    """
    duplicates = response.ext_int("landed") if "landed" in (response.ext_fields or {}) else 0
    first = response.ext_int("queueOffset")
    return QueueReceipt(
        MessageQueue(queue.topic, queue.broker_name, response.ext_int("queueId")),
        count=count - duplicates,
        duplicates=duplicates,
        first_offset=first if first >= 0 else None,
        last_offset=first + count - 1 if duplicates == 0 else None,
    )


def _header(
    queue: MessageQueue, properties: str, producer_group: str, born_ms: int
) -> dict[str, str]:
    return {
        "a": producer_group,
        "b": queue.topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue.queue_id),
        "g": str(born_ms),
        "i": properties,
        "j": "0",
        "k": "false",
        "n": queue.broker_name,
    }
