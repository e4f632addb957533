"""Cutting a queue's messages into batches that a broker accepts, in order and lazily."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rmq_ordered.model import OutgoingMessage

# Fixed part of a batch record plus room for what the broker adds (region, trace flag, cluster).
_RECORD_OVERHEAD_BYTES: Final = 128


def message_bytes(message: OutgoingMessage) -> int:
    """About how much a message takes in a batch; never too little."""
    properties = sum(4 * (len(name) + len(value)) + 2 for name, value in message.properties.items())
    return _RECORD_OVERHEAD_BYTES + len(message.body) + properties


def split_batches(
    messages: Iterable[OutgoingMessage], max_bytes: int, max_messages: int
) -> Iterator[list[OutgoingMessage]]:
    """Lists of messages within both limits; a message that is too large alone is a batch of one."""
    batch: list[OutgoingMessage] = []
    size = 0
    for message in messages:
        length = message_bytes(message)
        if batch and (size + length > max_bytes or len(batch) >= max_messages):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch
