"""What a listener of an ordered consumer is given, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.compression import COMPRESSED_FLAG
from rmq_ordered.protocol.message import (
    INNER_BATCH_FLAGS,
    decode_message,
    encode_message,
    ensure_origin,
    is_inner_batch,
    unfold_message,
)
from rmq_ordered.protocol.properties import PROPERTY_TAGS

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_ordered.columnar import DecodeOptions


class ConsumeResult(Enum):
    """What became of a batch."""

    SUCCESS = "success"
    # The same batch again after a pause; until then the queue stands still, the others go on.
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True)
class Record:
    """One message, decoded and as the broker sent it."""

    message: Message
    raw: bytes


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Consecutive messages of one queue, in their order. Iterate over it, or take it as Arrow.

    Attributes:
        queue: where they come from. A message that came by the group's retry topic has its first
            topic in the property ``RETRY_TOPIC``.
        messages: at least one.
        attempt: 0 the first time; how often this very batch was suspended before.
    """

    queue: MessageQueue
    messages: tuple[Message, ...]
    attempt: int = 0
    _raw: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, queue: MessageQueue, records: list[Record], attempt: int) -> MessageBatch:
        """A batch of records as they were pulled."""
        return cls(
            queue,
            tuple(record.message for record in records),
            attempt,
            tuple(record.raw for record in records),
        )

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def arrow(self, options: DecodeOptions | None = None) -> pa.RecordBatch:
        """The same messages as the Spark source gives them: one row each."""
        import pyarrow as pa

        from rmq_ordered.columnar import DecodeOptions, decode_in_parts

        parts = decode_in_parts(b"".join(self._raw), self.queue, options or DecodeOptions())
        return pa.concat_batches(list(parts))


Listener = Callable[[MessageBatch], ConsumeResult]


def read_records(
    body: bytes,
    queue: MessageQueue,
    tags: frozenset[str] = frozenset(),
    *,
    start: int = 0,
) -> list[tuple[int, Record]]:
    """The messages of a pull answer by queue offset; brokers compare tags by their hash only.

    A record that is a batch gives its messages from the queue offset ``start`` on: where a pull
    began inside of it, the broker gives it whole.

    Raises:
        RemoteProtocolError: a record is malformed, or of another queue.
    """
    found: list[tuple[int, Record]] = []
    position = 0
    while position < len(body):
        began = position
        stored, position = decode_message(body, position, broker_name=queue.broker_name)
        ensure_origin(stored, queue)
        if not is_inner_batch(stored):
            records = [Record(stored, body[began:position])]
        else:
            inner = unfold_message(stored, body, began)
            records = [_alone(one) for one in inner if one.queue_offset >= start]
        for record in records:
            if not tags or record.message.properties.get(PROPERTY_TAGS) in tags:
                found.append((record.message.queue_offset, record))
    return found


def _alone(message: Message) -> Record:
    """A message of a batch, in a record of its own."""
    sys_flag = message.sys_flag & ~(INNER_BATCH_FLAGS | COMPRESSED_FLAG)
    return Record(message, encode_message(replace(message, sys_flag=sys_flag)))
