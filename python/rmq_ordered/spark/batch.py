"""The batch source: one partition per queue, between two places that are looked up once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.executor import read_partition
from rmq_ordered.spark.ownership import SourceRun
from rmq_ordered.spark.partition import QueuePartition


class OrderedBatchReader(DataSourceReader):
    """Reads what is there when the query is planned. Holds options only."""

    def __init__(self, options: SourceOptions, schema: StructType | None = None) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[QueuePartition]:
        """Plan on the driver."""
        run = SourceRun(self._options)
        try:
            spans = run.spans()
            start = run.starting_positions(spans)
            end = run.ending_positions(spans)
            for queue in sorted(end):
                if end[queue] < start[queue]:
                    raise OptionError(
                        "endingOffsets",
                        f"{end[queue]} of {queue}",
                        f"an end at or after the start, {start[queue]}",
                    )
            ranges = {q: (start[q], end[q]) for q in end if end[q] > start[q]}
            return run.partitions(ranges)
        finally:
            run.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs on an executor."""
        if partition.value is None:
            # Spark's own, in place of a plan without any partition: there is nothing to read.
            return iter(())
        return read_partition(self._options, self._schema, partition)
