"""What runs on an executor: read one range under the lease that came with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from rmq_ordered.client.connection import Client
from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.client.reader import QueueReader
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.errors import OffsetOutOfRange, QueueGap
from rmq_ordered.model import QueueRange
from rmq_ordered.options import DecodeErrors, SourceOptions
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.ownership import ensure_witness
from rmq_ordered.spark.partition import QueuePartition, Witness
from rmq_ordered.spark.poison import RowMaker
from rmq_ordered.spark.run_name import run_of_task
from rmq_ordered.spark.worker import settle_in

_LOG: Final = logging.getLogger("rmq_ordered.spark")


def read_partition(
    options: SourceOptions, schema: StructType | None, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as Arrow batches; opens its own connection and closes it."""
    if not isinstance(partition, QueuePartition):
        raise TypeError(f"expected a QueuePartition, found {type(partition).__name__}")
    settle_in()
    witness = partition.witness
    with open_client(options.connection) as client:
        rows = RowMaker(client, options, schema)
        reading = RangeReading(client, decode_options(options), lambda: _check(client, witness))
        reads = reading.whole if options.fail_on_data_loss else reading.remains
        _check(client, witness)
        plan = replace(partition.plan, run=run_of_task())
        for batch in reads(plan):
            made = rows.make(batch, plan)
            if made.num_rows:
                yield made
        _check(client, witness)
        # Rows that were pulled in time may have waited here until the queue was somebody else's.
        reading.ensure_leased(plan)


def decode_options(options: SourceOptions) -> DecodeOptions:
    """What the rows need of the messages."""
    return DecodeOptions(
        key_from=options.rows.key_property,
        include_properties=options.rows.include_properties,
        collect_errors=options.rows.on_decode_error is not DecodeErrors.FAIL,
    )


class RangeReading:
    """Reads ranges; ``recheck`` is called now and then, and raises when it must not go on."""

    def __init__(
        self, client: Client, decode: DecodeOptions, recheck: Callable[[], None] | None = None
    ) -> None:
        self._reader = QueueReader(client, decode)
        self._recheck = recheck

    def whole(self, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
        """The range; messages that are gone are an error."""
        return self._reader.read(plan, recheck=self._recheck)

    def ensure_leased(self, plan: ReadPlan) -> None:
        """Raise QueueLeaseLost when the broker knows that the lease of the plan is over."""
        self._reader.ensure_leased(plan)

    def remains(self, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
        """What is left of the range; messages that are gone are counted in the log."""
        end = plan.range.end
        while plan.range.start < end:
            position = plan.range.start
            try:
                for batch in self.whole(plan):
                    position = batch.column("offset")[-1].as_py() + 1
                    yield batch
            except OffsetOutOfRange as error:
                position = max(position, error.asked)
                found = min(error.minimum, end) if position < error.minimum else end
            except QueueGap as error:
                if error.found <= error.expected:
                    raise  # not a hole: offsets that go back cannot be trusted
                yield from self.whole(_part(plan, position, error.expected))
                position, found = error.expected, min(error.found, end)
            else:
                return
            _log_skipped(plan, position, found)
            plan = _part(plan, found, end)


def _part(plan: ReadPlan, start: int, end: int) -> ReadPlan:
    return replace(plan, range=QueueRange(plan.range.queue, start, end))


def _log_skipped(plan: ReadPlan, start: int, end: int) -> None:
    _LOG.warning(
        "skipped count=%s queue=%s from=%s to=%s: gone since the batch was planned",
        end - start,
        plan.range.queue,
        start,
        end,
    )


def _check(client: Client, witness: Witness | None) -> None:
    """Where the broker does not fence pulls, see that nobody else commits for the group."""
    if witness is not None:
        lease = witness.lease
        ensure_witness(witness, client.broker.committed_offset(lease.group, lease.queue))
