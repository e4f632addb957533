"""Columns: what the source yields."""

from __future__ import annotations

from typing import Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmq_ordered.columnar import MESSAGE_COLUMNS, PROPERTIES_COLUMN
from rmq_ordered.columnar.schema import ERROR_COLUMN
from rmq_ordered.errors import OptionError
from rmq_ordered.options import DecodeErrors, RowOptions, ValueFormat
from rmq_ordered.spark.values import value_decoder

_SOURCE_COLUMNS: Final = (
    "key string, value {value}, topic string, broker string, queue int, offset bigint, "
    "timestamp timestamp, born_timestamp timestamp, tags string, index_keys string, "
    "message_id string, reconsume_times int"
)
_PROPERTIES_COLUMN: Final = ", properties map<string,string>"
_ERROR_COLUMN: Final = f", {ERROR_COLUMN} string"


def source_schema(rows: RowOptions) -> str:
    """The source's columns as a DDL string."""
    kinds = {ValueFormat.RAW: "binary", ValueFormat.STRING: "string"}
    kind = kinds.get(rows.value_format, f"struct<{rows.value_schema}>")
    columns = _SOURCE_COLUMNS.format(value=kind)
    if rows.include_properties:
        columns += _PROPERTIES_COLUMN
    if rows.on_decode_error is DecodeErrors.NULL:
        columns += _ERROR_COLUMN
    return columns


def ensure_source_schema(schema: StructType, rows: RowOptions) -> None:
    """Raise OptionError for columns that the source does not have or cannot fill.

    ``.schema(...)`` may have asked for others, and ``valueSchema`` for types that no body holds.
    """
    expected = _column_names(rows)
    if schema.fieldNames() != expected:
        raise OptionError(
            "schema",
            ", ".join(schema.fieldNames()),
            f"no schema of your own: the columns are {', '.join(expected)}; select from them",
        )
    value_decoder(rows.value_format, to_arrow_schema(schema, timezone="UTC"))


def _column_names(rows: RowOptions) -> list[str]:
    names = list(MESSAGE_COLUMNS)
    if rows.include_properties:
        names.append(PROPERTIES_COLUMN)
    if rows.on_decode_error is DecodeErrors.NULL:
        names.append(ERROR_COLUMN)
    return names
