"""Rows out of decoded messages: typed values, and what becomes of bodies that have none."""

from __future__ import annotations

import logging
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmq_ordered.client.connection import Client
from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.client.retry import retry_until
from rmq_ordered.columnar import ERROR_COLUMN
from rmq_ordered.columnar.boundaries import split_records
from rmq_ordered.columnar.fields import read_fields
from rmq_ordered.errors import BrokerBusy, UndecodableMessage
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.options import DecodeErrors, SourceOptions
from rmq_ordered.protocol.answers import accepted, ensure_success
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import dead_letter_request
from rmq_ordered.protocol.properties import PROPERTY_UNIQ_KEY
from rmq_ordered.protocol.pulls import PullLimits, parse_pull, pull_request
from rmq_ordered.spark.values import ValueDecoder, value_decoder

_LOG: Final = logging.getLogger("rmq_ordered.spark")
_PATIENCE_MS: Final = 30_000
_ONE: Final = PullLimits(1, 64 * 1024 * 1024)


class RowMaker:
    """Makes the rows that Spark was promised of decoded batches."""

    def __init__(self, client: Client, options: SourceOptions, schema: StructType | None) -> None:
        self._client = client
        self._options = options
        self._policy = options.rows.on_decode_error
        self._schema: pa.Schema | None = None
        self._decoder: ValueDecoder | None = None
        if schema is not None:
            promised = to_arrow_schema(schema, timezone="UTC")
            self._decoder = value_decoder(options.rows.value_format, promised)
            if self._decoder is not None or self.collects_errors:
                self._schema = promised

    @property
    def collects_errors(self) -> bool:
        """Whether damaged bodies come as rows with a reason, not as an exception."""
        return self._policy is not DecodeErrors.FAIL

    def make(self, batch: pa.RecordBatch, plan: ReadPlan) -> pa.RecordBatch:
        """The batch as rows of the source's schema."""
        if self._schema is None:
            return batch
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        errors = _damage(columns)
        if self._decoder is not None:
            columns["value"], misfits = self._decoder.decode(columns["value"])
            errors |= misfits
        if errors and self._policy is DecodeErrors.FAIL:
            raise _undecodable(batch, plan, min(errors), errors[min(errors)])
        if ERROR_COLUMN in self._schema.names:
            reasons = [errors.get(row) for row in range(batch.num_rows)]
            columns[ERROR_COLUMN] = pa.array(reasons, pa.string())
        rows = pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
        )
        if errors and self._policy is DecodeErrors.DLQ:
            return self._without_dead(batch, rows, plan, errors)
        return rows

    def _without_dead(
        self, batch: pa.RecordBatch, rows: pa.RecordBatch, plan: ReadPlan, errors: dict[int, str]
    ) -> pa.RecordBatch:
        """Send what cannot be decoded to the dead letters; the rows without it."""
        for row, reason in sorted(errors.items()):
            queue_offset = batch.column("offset")[row].as_py()
            message_id = batch.column("message_id")[row].as_py()
            self._bury(plan, queue_offset, message_id)
            _LOG.warning(
                "dead letter queue=%s offset=%s message_id=%s group=%s: %s",
                plan.range.queue,
                queue_offset,
                message_id,
                self._options.group,
                reason,
            )
        _LOG.warning("dead letters count=%s queue=%s", len(errors), plan.range.queue)
        return rows.filter(pa.array([row not in errors for row in range(rows.num_rows)]))

    def _bury(self, plan: ReadPlan, queue_offset: int, message_id: str) -> None:
        queue, clock = plan.range.queue, self._client.clock
        what = f"a dead letter of {queue} at {queue_offset}"

        def attempt() -> None:
            message = Message(
                queue=queue,
                queue_offset=queue_offset,
                commit_log_offset=self._place_in_log(plan, queue_offset),
                body=b"",
                properties={PROPERTY_UNIQ_KEY: message_id},
                born_timestamp_ms=0,
                store_timestamp_ms=0,
                born_host="",
                store_host="",
            )
            request = dead_letter_request(self._options.group or plan.group, message, 0)
            timeout_ms = self._client.request_timeout_ms
            answer = self._client.broker.start(plan.address_queue, request, what, timeout_ms)
            ensure_success(answer.result(), answer.channel.address, what)

        # Sent again after a lost answer: a dead letter is written at least once.
        retry_until(clock, clock.monotonic_ms() + _PATIENCE_MS, attempt)

    def _place_in_log(self, plan: ReadPlan, queue_offset: int) -> int:
        """Where the broker keeps the message: the rows do not tell."""
        queue: MessageQueue = plan.range.queue
        what = f"a pull of {queue} at {queue_offset}"
        request = pull_request(
            queue,
            queue_offset,
            group=plan.group,
            limits=_ONE,
            lease_epoch=plan.lease.epoch if plan.lease else None,
        )
        timeout_ms = self._client.request_timeout_ms
        answer = self._client.broker.start(plan.address_queue, request, what, timeout_ms)
        response = answer.result()
        if response.code != ResponseCode.SUCCESS:
            raise BrokerBusy(answer.channel.address, what, response.code, response.remark)

        def first_place(answered: RemotingCommand) -> int:
            records = split_records(parse_pull(answered).body, queue)
            return int(read_fields(records).commit_log_offsets[0])

        return accepted(first_place, response, answer.channel.address, what)


def _damage(columns: dict[str, pa.Array]) -> dict[int, str]:
    """What the decoder found to be wrong with the bodies, by row."""
    column = columns.pop(ERROR_COLUMN, None)
    if column is None or column.null_count == len(column):
        return {}
    return {row: text for row, text in enumerate(column.to_pylist()) if text is not None}


def _undecodable(
    batch: pa.RecordBatch, plan: ReadPlan, row: int, reason: str
) -> UndecodableMessage:
    queue_offset = batch.column("offset")[row].as_py()
    return UndecodableMessage(
        plan.range.queue, queue_offset, batch.column("message_id")[row].as_py(), reason
    )
