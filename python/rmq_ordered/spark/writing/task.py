"""What one task does: its rows, in order, to their queues; done when all are acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from rmq_ordered.client.ledger import SinkLedger, WriteAttempt
from rmq_ordered.client.send_settings import SendSettings
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import QueueReceipt
from rmq_ordered.options import SinkOptions
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.run_name import run_of_task
from rmq_ordered.spark.worker import settle_in
from rmq_ordered.spark.writing.columns import SinkColumns
from rmq_ordered.spark.writing.keys import KeySample, Sample

if TYPE_CHECKING:
    from rmq_ordered.client.writer import OrderedWriter


@dataclass
class SentMessage(WriterCommitMessage):
    """What one task did, for the driver.

    Attributes:
        attempt: whose rows they were.
        needs_floors: whether the brokers cannot tell repeats, so that floors must move on.
        receipts: by queue, how many rows landed, and where the first and last one lie.
        keys: a sample of the task's keys.
    """

    attempt: WriteAttempt
    needs_floors: bool = False
    receipts: list[QueueReceipt] = field(default_factory=list)
    keys: Sample = frozenset()

    @property
    def count(self) -> int:
        """Rows that this task stored."""
        return sum(receipt.count for receipt in self.receipts)

    @property
    def duplicates(self) -> int:
        """Rows that were there already."""
        return sum(receipt.duplicates for receipt in self.receipts)


def send_settings(options: SinkOptions) -> SendSettings:
    """The client's own words for the options."""
    return SendSettings(
        selector=options.selector,
        send_timeout_ms=options.send_timeout_ms,
        idempotent=options.idempotent,
        batch_bytes=options.batch_bytes,
        buffer_bytes=options.buffer_bytes,
        compression=options.compression,
        compress_over_bytes=options.compress_over_bytes,
        on_divergence=options.on_replay_divergence,
        on_layout_change=options.on_queue_layout_change,
    )


def write_rows(
    options: SinkOptions,
    columns: SinkColumns,
    attempt: WriteAttempt,
    batches: Iterator[pa.RecordBatch],
) -> SentMessage:
    """Send every row of one task; returns when all are acknowledged."""
    settle_in()
    settings = replace(send_settings(options), run=run_of_task())
    sample = KeySample()
    with ExitStack() as stack:
        client = stack.enter_context(open_client(options.connection))
        ledger = SinkLedger(client, attempt.stream.sink)
        writers: dict[str, OrderedWriter] = {}
        for batch in in_sequence(batches, columns):
            rows = columns.prepare(batch)
            if (index := rows.schema.get_field_index("key")) >= 0:
                sample.add(rows.column(index))
            for topic, part in columns.by_topic(rows, options.topic):
                if topic not in writers:
                    writer = ledger.writer(topic, settings, attempt)
                    writers[topic] = stack.enter_context(writer)
                writers[topic].write(part)
        receipts = [receipt for writer in writers.values() for receipt in writer.finish().values()]
        needs_floors = settings.idempotent and any(map(ledger.needs_floors, writers))
        return SentMessage(attempt, needs_floors, receipts, sample.sample)


def in_sequence(
    batches: Iterator[pa.RecordBatch], columns: SinkColumns
) -> Iterator[pa.RecordBatch]:
    """The task's rows, sorted if a column says how; that holds all of them in memory.

    Rows with the same number are sorted by key, so that a replay has the same order however a
    shuffle mixed them; those of one key and number stay as they came.
    """
    if columns.sequence is None:
        yield from batches
        return
    collected = [batch for batch in batches if batch.num_rows]
    if not collected:
        return
    table = pa.Table.from_batches(collected)
    sequence = table.column(columns.sequence)
    key = dict(columns.taken).get("key")
    if sequence.null_count:
        row = pc.index(sequence.is_null(), True).as_py()
        found = None if key is None else table.column(key)[row].as_py()
        raise LocalProtocolError(
            f"the row with key {found!r:.200} has null in the column {columns.sequence!r}, but "
            "sequenceColumn needs a value in every row"
        )
    order = {"sequence": sequence, "row": pa.array(np.arange(table.num_rows))}
    by = [("sequence", "ascending"), ("row", "ascending")]
    if key is not None:
        order["key"] = table.column(key)
        by.insert(1, ("key", "ascending"))
    indexes = pc.sort_indices(pa.table(order), sort_keys=by)
    yield from table.take(indexes).combine_chunks().to_batches()
