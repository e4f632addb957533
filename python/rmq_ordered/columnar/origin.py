"""Whether records come from the queue that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmq_ordered.columnar.slices import is_text_at
from rmq_ordered.protocol.message import keeps_origin

if TYPE_CHECKING:
    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Flags


def ensure_origin(records: Records, fields: Fields) -> None:
    """Checks topic and queue id of every record.

    Raises:
        RemoteProtocolError: a record is of another queue; its rows would be told to be of this one.
    """
    queue = records.queue
    if not keeps_origin(queue):
        return

    def describe(row: int) -> str:
        topic = records.octets[int(fields.topic_starts[row]) : int(fields.topic_ends[row])]
        return f"topic {topic.tobytes().decode(errors='replace')!r}, queue {fields.queue_ids[row]}"

    records.ensure(
        (fields.queue_ids == queue.queue_id) & _has_topic(records, fields, queue.topic.encode()),
        f"topic {queue.topic!r}, queue {queue.queue_id}, as was asked for",
        describe,
    )


def _has_topic(records: Records, fields: Fields, topic: bytes) -> Flags:
    is_alike: Flags = fields.topic_ends - fields.topic_starts == len(topic)
    if not topic:
        return is_alike
    is_alike[is_alike] = is_text_at(records.octets, fields.topic_starts[is_alike], topic)
    return is_alike
