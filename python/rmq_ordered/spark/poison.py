"""Rows out of decoded messages: typed values, and what becomes of bodies that have none."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmq_ordered.client.connection import Client
from rmq_ordered.client.reader import ReadPlan
from rmq_ordered.errors import UndecodableMessage
from rmq_ordered.options import DecodeErrors, SourceOptions, ValueFormat
from rmq_ordered.spark.values import ValueDecoder

ERROR_COLUMN: Final = "_error"


class RowMaker:
    """Makes the rows that Spark was promised of decoded batches."""

    def __init__(self, client: Client, options: SourceOptions, schema: StructType | None) -> None:
        self._client = client
        self._rows = options.rows
        self._schema: pa.Schema | None = None
        self._decoder: ValueDecoder | None = None
        is_raw = options.rows.value_format is ValueFormat.RAW
        adds_errors = options.rows.on_decode_error is DecodeErrors.NULL
        if schema is not None and (adds_errors or not is_raw):
            self._schema = to_arrow_schema(schema, timezone="UTC")
        if not is_raw and self._schema is not None:
            kind = self._schema.field("value").type
            self._decoder = ValueDecoder(options.rows.value_format, kind)

    def make(self, batch: pa.RecordBatch, plan: ReadPlan) -> pa.RecordBatch:
        """The batch as rows of the source's schema."""
        if self._schema is None:
            return batch
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        errors: dict[int, str] = {}
        if self._decoder is not None:
            columns["value"], errors = self._decoder.decode(columns["value"])
        if errors and self._rows.on_decode_error is DecodeErrors.FAIL:
            row = min(errors)
            raise UndecodableMessage(
                plan.range.queue,
                batch.column("offset")[row].as_py(),
                batch.column("message_id")[row].as_py(),
                errors[row],
            )
        if ERROR_COLUMN in self._schema.names:
            reasons = [errors.get(row) for row in range(batch.num_rows)]
            columns[ERROR_COLUMN] = pa.array(reasons, pa.string())
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
        )
