"""Queues in memory: real records in RocketMQ's format, so that pulls are decoded for real."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from rmq_ordered.model import Message, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.compression import expand_body
from rmq_ordered.protocol.message import encode_message
from rmq_ordered.protocol.properties import decode_properties

_HOST = "127.0.0.1:10911"


@dataclass(slots=True)
class StoredQueue:
    """One queue: ``messages[i]`` has queue offset ``i``; what lies before ``minimum`` is gone."""

    queue: MessageQueue
    minimum: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def maximum(self) -> int:
        """The offset that the next message will get."""
        return len(self.messages)

    def append(self, message: OutgoingMessage, now_ms: int, sys_flag: int = 0) -> int:
        """Store a message; returns its queue offset."""
        queue_offset = self.maximum
        self.messages.append(
            Message(
                queue=self.queue,
                queue_offset=queue_offset,
                commit_log_offset=queue_offset * 1_000,
                body=expand_body(message.body, sys_flag),
                properties=dict(message.properties),
                born_timestamp_ms=now_ms,
                store_timestamp_ms=now_ms,
                born_host=_HOST,
                store_host=_HOST,
                sys_flag=sys_flag,
                flag=message.flag,
            )
        )
        return queue_offset

    def first_at(self, timestamp_ms: int) -> int:
        """The first offset stored at or after a time; the end if there is none."""
        for message in self.messages[self.minimum :]:
            if message.store_timestamp_ms >= timestamp_ms:
                return message.queue_offset
        return self.maximum

    def records(self, start: int, end: int) -> Iterator[bytes]:
        """The stored bytes of ``[start, end)``, as far as they exist."""
        return (encode_message(message) for message in self.messages[start:end])

    @property
    def bodies(self) -> list[bytes]:
        """Every body, in order: what most tests want to compare."""
        return [message.body for message in self.messages]


def split_batch(body: bytes) -> list[OutgoingMessage]:
    """The messages of a SEND_BATCH_MESSAGE body."""
    messages: list[OutgoingMessage] = []
    position = 0
    while position < len(body):
        total, _, _, flag, length = struct.unpack_from(">iiiii", body, position)
        end_of_body = position + 20 + length
        properties = decode_properties(body[end_of_body + 2 : position + total])
        messages.append(OutgoingMessage(body[position + 20 : end_of_body], properties, flag))
        position += total
    return messages
