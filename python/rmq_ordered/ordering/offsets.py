"""Spark's source offset: where a query stands in every queue, as JSON that lasts.

    {"skipped":3,"storedUntil":1767225600000,"topics":{topic:{broker:{queue:offset}}},"version":1}

A value is the next queue offset to read. A queue that did not go on from where it stood (the query
began with it, it joined, or messages were gone) has ``[from,to]``: the batch that ends here reads
``[from, to)`` of it, also when it is repeated. ``storedUntil`` is the newest store time the brokers
told when the offset was planned: everything before the positions is older, unless the topic was
made anew since. ``skipped`` counts what was given up. Both are left out when 0. Spark compares
offsets as text, so keys are always sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue

FORMAT_VERSION: Final = 1

T = TypeVar("T")
Positions = dict[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """One offset of Spark's log; ``entries`` has the ``from`` of queues that jumped."""

    positions: Positions
    entries: Positions = field(default_factory=dict)
    stored_until_ms: int = 0
    skipped: int = 0


def encode_offset(offset: SourceOffset) -> dict[str, Any]:
    """The offset dict for Spark; the same offset always gives the same text."""
    topics = by_topic(
        {
            queue: [offset.entries[queue], end] if queue in offset.entries else end
            for queue, end in offset.positions.items()
        }
    )
    encoded: dict[str, Any] = {}
    if offset.skipped:
        encoded["skipped"] = offset.skipped
    if offset.stored_until_ms:
        encoded["storedUntil"] = offset.stored_until_ms
    return encoded | {"topics": topics, "version": FORMAT_VERSION}


def decode_offset(source_offset: Mapping[str, Any]) -> SourceOffset:
    """The offset that came back from the checkpoint; raises OptionError if it is not ours."""
    if "popped" in source_offset:
        raise OptionError(
            "checkpointLocation",
            "a checkpoint of consumeMode=pop",
            "a checkpoint of consumeMode=pull; use another checkpoint folder",
        )
    version = source_offset.get("version")
    if version != FORMAT_VERSION:
        raise OptionError(
            "checkpointLocation",
            version,
            f"a checkpoint with offset version {FORMAT_VERSION} (written by a newer rmq-ordered?)",
        )
    positions: Positions = {}
    entries: Positions = {}
    try:
        for queue, value in queue_values(source_offset["topics"]):
            if isinstance(value, list):
                entries[queue], positions[queue] = _range(value)
            else:
                positions[queue] = _whole(value)
        stored_until_ms = _whole(source_offset.get("storedUntil", 0))
        skipped = _whole(source_offset.get("skipped", 0))
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            "checkpointLocation", dict(source_offset), 'offsets like {"topics":{...},"version":1}'
        ) from error
    return SourceOffset(positions, entries, stored_until_ms, skipped)


def batch_ranges(start: SourceOffset, end: SourceOffset) -> dict[MessageQueue, tuple[int, int]]:
    """What a batch reads of every queue, from its two offsets alone; empty ranges left out.

    A queue of ``end`` that ``start`` does not know and that has no entry begins with the next
    batch: its position is all that was recorded. Between an offset and itself lies nothing: Spark
    also runs batches without new data, and the jumps were read by the batch that ended here.
    """
    if start == end:
        return {}
    ranges: dict[MessageQueue, tuple[int, int]] = {}
    for queue in sorted(end.positions):
        last = end.positions[queue]
        first = end.entries.get(queue, start.positions.get(queue, last))
        if last < first:
            raise OptionError(
                "checkpointLocation", f"[{first}, {last}) of {queue}", "ranges that go forward"
            )
        if last > first:
            ranges[queue] = (first, last)
    return ranges


def by_topic(values: Mapping[MessageQueue, T]) -> dict[str, dict[str, dict[str, T]]]:
    """Values of queues as a JSON object, sorted: topic, broker, queue."""
    topics: dict[str, dict[str, dict[str, T]]] = {}
    for queue in sorted(values):
        brokers = topics.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = values[queue]
    return topics


def queue_values(topics: Mapping[str, Any]) -> list[tuple[MessageQueue, Any]]:
    """The values of such an object, whatever they are."""
    return [
        (MessageQueue(topic, broker, int(queue_id)), value)
        for topic, brokers in topics.items()
        for broker, queues in brokers.items()
        for queue_id, value in queues.items()
    ]


def _range(value: list[Any]) -> tuple[int, int]:
    first, last = (_whole(part) for part in value)
    if last < first:
        raise ValueError(value)
    return first, last


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
