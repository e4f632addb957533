"""The batch source: one partition per queue, from its start to its latest offset, no leases."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.executor import read_partition
from rmq_ordered.spark.ownership import SourceRun
from rmq_ordered.spark.partition import QueuePartition


class OrderedBatchReader(DataSourceReader):
    """Reads what is there when the query is planned. Holds options only."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[QueuePartition]:
        """Plan on the driver."""
        run = SourceRun(self._options)
        try:
            spans = run.spans()
            end = {queue: span.maximum for queue, span in spans.items()}
            return run.partitions(run.starting_positions(spans), end)
        finally:
            run.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs on an executor."""
        return read_partition(self._options, partition)
