"""The sink: rows to queues by key, each queue in order, done when every message is acknowledged."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rmq_ordered.client.connection import Client
from rmq_ordered.client.producer import OrderedProducer
from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue, OutgoingMessage, QueueRange, SendResult
from rmq_ordered.options import SinkOptions

_LOG: Final = logging.getLogger("rmq_ordered.spark")


@dataclass
class SentMessage(WriterCommitMessage):
    """What one task stored, and where: one range per request."""

    count: int = 0
    ranges: list[QueueRange] = field(default_factory=list)


class OrderedStreamWriter(DataSourceStreamArrowWriter):
    """Micro-batches. Holds options only; the connection is made inside ``write``."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs on an executor: send every row of one task."""
        return send_rows(self._options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Every task of the batch succeeded."""
        _log_sent(f"batch={batchId} topic={self._options.topic}", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """A task failed for good; what was sent is stored, and a replay sends it again."""
        _log_aborted(f"batch={batchId} topic={self._options.topic}", messages)


class OrderedBatchWriter(DataSourceArrowWriter):
    """One batch write."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs on an executor: send every row of one task."""
        return send_rows(self._options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task succeeded."""
        _log_sent(f"topic={self._options.topic}", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task failed for good."""
        _log_aborted(f"topic={self._options.topic}", messages)


def send_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> SentMessage:
    """Send the rows of one task in their order; returns when all are acknowledged."""
    sent = SentMessage()
    with Client(options.name_servers, request_timeout_ms=options.request_timeout_ms) as client:
        producer = OrderedProducer(client, options.topic, send_timeout_ms=options.send_timeout_ms)
        for batch in batches:
            for results in producer.send_all(_route(producer, batch)).values():
                _note(sent, results)
    return sent


def _route(
    producer: OrderedProducer, batch: pa.RecordBatch
) -> dict[MessageQueue, list[OutgoingMessage]]:
    """Rows to queues, keeping the order of the rows within each queue."""
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in _USED}
    absent = [None] * batch.num_rows
    rows = zip(*(columns.get(name, absent) for name in _USED), strict=True)
    routed: dict[MessageQueue, list[OutgoingMessage]] = {}
    queue_of: dict[str, MessageQueue] = {}
    for key, value, tags, index_keys, properties in rows:
        _ensure_row(key, value)
        if key not in queue_of:
            queue_of[key] = producer.queue_of(key)
        message = producer.message(
            value.encode() if isinstance(value, str) else value,
            key=key,
            tags=tags,
            keys=index_keys,
            properties=_mapping(key, properties),
        )
        routed.setdefault(queue_of[key], []).append(message)
    return routed


_USED: Final = ("key", "value", "tags", "index_keys", "properties")


def _mapping(key: str, properties: Any) -> Mapping[str, str] | None:
    if properties is None:
        return None
    values = dict(properties)
    absent = [name for name, value in values.items() if value is None]
    if absent:
        raise OptionError(
            "properties", f"null for '{absent[0]}' in the row with key {key!r}", "text values only"
        )
    return values


def _ensure_row(key: str | None, value: Any) -> None:
    if key is None:
        raise OptionError(
            "key", "null", "a sharding key in every row: it decides the queue and the order"
        )
    if value is None:
        raise OptionError(
            "value", "null", f"a value in every row, also in the one with key {key!r}"
        )


def _note(sent: SentMessage, results: list[SendResult]) -> None:
    for result in results:
        sent.count += result.count
        end = result.first_offset + result.count
        sent.ranges.append(QueueRange(result.queue, result.first_offset, end))


def _log_sent(where: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    tasks = [message for message in messages if isinstance(message, SentMessage)]
    _LOG.info("sent count=%s tasks=%s %s", sum(task.count for task in tasks), len(tasks), where)
    for task in tasks:
        for landed in task.ranges:
            _LOG.debug("sent queue=%s offsets=[%s, %s)", landed.queue, landed.start, landed.end)


def _log_aborted(where: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    finished = sum(1 for message in messages if isinstance(message, SentMessage))
    _LOG.warning(
        "aborted after %s of %s tasks had sent their rows %s", finished, len(messages), where
    )
