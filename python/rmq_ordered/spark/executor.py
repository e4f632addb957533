"""What runs on an executor: read one range under the lease that came with it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from rmq_ordered.client.connection import Client
from rmq_ordered.client.reader import QueueReader, ReadPlan
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.errors import OffsetOutOfRange
from rmq_ordered.model import QueueRange
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.ownership import ensure_witness
from rmq_ordered.spark.partition import QueuePartition, Witness
from rmq_ordered.spark.poison import RowMaker

_LOG: Final = logging.getLogger("rmq_ordered.spark")


def read_partition(
    options: SourceOptions, schema: StructType | None, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as Arrow batches; opens its own connection and closes it."""
    if not isinstance(partition, QueuePartition):
        raise TypeError(f"expected a QueuePartition, found {type(partition).__name__}")
    decode = DecodeOptions(
        key_from=options.rows.key_property, include_properties=options.rows.include_properties
    )
    with open_client(options.connection) as client:
        rows = RowMaker(client, options, schema)
        _check(client, partition.witness)
        for batch in _read(QueueReader(client, decode), partition.plan, options):
            made = rows.make(batch, partition.plan)
            if made.num_rows:
                yield made
        _check(client, partition.witness)


def _read(reader: QueueReader, plan: ReadPlan, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The range; where messages expired since it was planned, fail or go on with the next."""
    position = plan.range.start
    while True:
        try:
            for batch in reader.read(plan):
                position = batch.column("offset")[-1].as_py() + 1
                yield batch
        except OffsetOutOfRange as error:
            if options.fail_on_data_loss:
                raise
            plan = _after_loss(plan, max(position, error.asked), error)
            position = plan.range.start
        else:
            return


def _after_loss(plan: ReadPlan, position: int, error: OffsetOutOfRange) -> ReadPlan:
    """The plan without what is gone: nothing is left when the queue ends before the range."""
    queue, end = plan.range.queue, plan.range.end
    is_expired = position < error.minimum
    found = min(error.minimum, end) if is_expired else end
    _LOG.warning(
        "skipped count=%s queue=%s from=%s to=%s: gone since the batch was planned",
        found - position,
        queue,
        position,
        found,
    )
    return replace(plan, range=QueueRange(queue, found, end))


def _check(client: Client, witness: Witness | None) -> None:
    """Where the broker does not fence pulls, see that nobody else commits for the group."""
    if witness is not None:
        lease = witness.lease
        ensure_witness(witness, client.broker.committed_offset(lease.group, lease.queue))
