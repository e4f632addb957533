"""What runs on an executor: read exactly what was popped of one queue."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from rmq_ordered.columnar.slices import repeat_text
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.executor import RangeReading, decode_options
from rmq_ordered.spark.poison import RowMaker
from rmq_ordered.spark.popping.partition import PoppedPartition
from rmq_ordered.spark.worker import settle_in


def read_popped(
    options: SourceOptions, schema: StructType | None, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as Arrow batches; opens its own connection and closes it."""
    if not isinstance(partition, PoppedPartition):
        raise TypeError(f"expected a PoppedPartition, found {type(partition).__name__}")
    settle_in()
    with open_client(options.connection) as client:
        rows = RowMaker(client, options, schema)
        reading = RangeReading(client, decode_options(options))
        reads = reading.whole if options.fail_on_data_loss else reading.remains
        for plan in partition.plans:
            for batch in reads(plan):
                made = rows.make(batch, plan)
                if made.num_rows:
                    yield _under_topic(made, partition.topic)


def _under_topic(rows: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """A message that came again is a message of its topic, wherever it lies."""
    index = rows.schema.get_field_index("topic")
    return rows.set_column(index, rows.schema.field(index), repeat_text(topic, rows.num_rows))
