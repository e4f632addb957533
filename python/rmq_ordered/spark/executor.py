"""What runs on an executor: read one range under the lease that came with it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rmq_ordered.client.connection import Client
from rmq_ordered.client.reader import QueueReader
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.ownership import ensure_witness
from rmq_ordered.spark.partition import QueuePartition, Witness


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as Arrow batches; opens its own connection and closes it."""
    if not isinstance(partition, QueuePartition):
        raise TypeError(f"expected a QueuePartition, found {type(partition).__name__}")
    decode = DecodeOptions(
        key_from=options.key_property, include_properties=options.include_properties
    )
    with Client(options.name_servers, request_timeout_ms=options.request_timeout_ms) as client:
        _check(client, partition.witness)
        yield from QueueReader(client, decode).read(partition.plan)
        _check(client, partition.witness)


def _check(client: Client, witness: Witness | None) -> None:
    """Where the broker does not fence pulls, see that nobody else commits for the group."""
    if witness is not None:
        lease = witness.lease
        ensure_witness(witness, client.broker.committed_offset(lease.group, lease.queue))
