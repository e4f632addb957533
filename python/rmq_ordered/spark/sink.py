"""The sink: rows to queues by key, each queue in order, done when every message is acknowledged.

Writers hold options only; connections are made inside ``write`` and ``commit``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rmq_ordered.options import SinkOptions
from rmq_ordered.spark.writing.columns import SinkColumns
from rmq_ordered.spark.writing.commit import aborted, committed, forget
from rmq_ordered.spark.writing.identity import BatchIdentity, stream_attempt
from rmq_ordered.spark.writing.task import write_rows


class OrderedStreamWriter(DataSourceStreamArrowWriter):
    """Micro-batches."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs on an executor: send every row of one task."""
        return write_rows(self._options, self._columns, stream_attempt(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Every task of the batch succeeded."""
        committed(self._options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """A task failed for good."""
        aborted(messages, f"batch={batchId}")


class OrderedBatchWriter(DataSourceArrowWriter):
    """One batch write. Spark ships this very object to the tasks, and commits with it."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns
        self._identity = BatchIdentity.of(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs on an executor: send every row of one task."""
        return write_rows(self._options, self._columns, self._identity.attempt(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task succeeded."""
        committed(self._options, messages, is_lasting=self._identity.is_lasting)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task failed for good."""
        aborted(messages, f"sink={self._identity.sink}")
        if not self._identity.is_lasting:
            forget(self._options, self._identity.sink)
