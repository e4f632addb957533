"""Spark's source offset: where a query stands in every queue, as JSON that lasts.

    {"topics":{topic:{broker:{queue:offset}}},"version":1}

Spark compares offsets as text, so keys are always sorted; a value is the next queue offset to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue

FORMAT_VERSION: Final = 1

Positions = dict[MessageQueue, int]


def encode_positions(positions: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """The offset dict for Spark; the same positions always give the same text."""
    topics: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(positions):
        brokers = topics.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = positions[queue]
    return {"topics": topics, "version": FORMAT_VERSION}


def decode_positions(source_offset: Mapping[str, Any]) -> Positions:
    """The positions in an offset dict that came back from the checkpoint."""
    version = source_offset.get("version")
    if version != FORMAT_VERSION:
        raise OptionError(
            "checkpointLocation",
            version,
            f"a checkpoint with offset version {FORMAT_VERSION} (written by a newer rmq-ordered?)",
        )
    try:
        return {
            MessageQueue(topic, broker, int(queue_id)): _position(value)
            for topic, brokers in source_offset["topics"].items()
            for broker, queues in brokers.items()
            for queue_id, value in queues.items()
        }
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            "checkpointLocation", dict(source_offset), 'offsets like {"topics":{...},"version":1}'
        ) from error


def _position(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
