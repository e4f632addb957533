"""Columns: what the source yields and what the sink accepts."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

from rmq_ordered.columnar import MESSAGE_COLUMNS, PROPERTIES_COLUMN
from rmq_ordered.columnar.schema import ERROR_COLUMN
from rmq_ordered.errors import OptionError
from rmq_ordered.options import DecodeErrors, RowOptions, ValueFormat

_SOURCE_COLUMNS: Final = (
    "key string, value {value}, topic string, broker string, queue int, offset bigint, "
    "timestamp timestamp, born_timestamp timestamp, tags string, index_keys string, "
    "message_id string, reconsume_times int"
)
_PROPERTIES_COLUMN: Final = ", properties map<string,string>"
_ERROR_COLUMN: Final = f", {ERROR_COLUMN} string"

_SINK_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "value": (BinaryType, StringType),
    "key": (StringType,),
    "tags": (StringType,),
    "index_keys": (StringType,),
    "properties": (MapType,),
}
_SINK_REQUIRED: Final = ("key", "value")
# Columns of the source that say where a message was: a pipeline may pass them on, they change
# nothing.
_SINK_IGNORED: Final = frozenset(
    {
        "topic", "broker", "queue", "offset", "timestamp", "born_timestamp", "message_id",
        "reconsume_times",
    }
)  # fmt: skip


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
    """Raise OptionError when ``.schema(...)`` asked for other columns than the source has."""
    expected = _column_names(rows)
    if schema.fieldNames() != expected:
        raise OptionError(
            "schema",
            ", ".join(schema.fieldNames()),
            f"no schema of your own: the columns are {', '.join(expected)}; select from them",
        )


def ensure_sink_schema(schema: StructType) -> None:
    """Raise OptionError unless every column can be written; nothing has been sent yet."""
    for name in _SINK_REQUIRED:
        if name not in schema.fieldNames():
            raise OptionError(
                "columns",
                ", ".join(schema.fieldNames()),
                f"a column '{name}' ({_type_names(name)}); rename or cast one of yours",
            )
    for column in schema.fields:
        if column.name in _SINK_IGNORED:
            continue
        if column.name not in _SINK_TYPES:
            known = ", ".join(sorted({*_SINK_TYPES, *_SINK_IGNORED}))
            raise OptionError("columns", column.name, f"only columns the sink knows: {known}")
        if not _is_accepted(column.name, column.dataType):
            raise OptionError(
                "columns",
                f"{column.name} {column.dataType.simpleString()}",
                f"column '{column.name}' to be {_type_names(column.name)}; cast it first",
            )


def _column_names(rows: RowOptions) -> list[str]:
    names = list(MESSAGE_COLUMNS)
    if rows.include_properties:
        names.append(PROPERTIES_COLUMN)
    if rows.on_decode_error is DecodeErrors.NULL:
        names.append(ERROR_COLUMN)
    return names


def _is_accepted(column: str, kind: DataType) -> bool:
    if isinstance(kind, MapType):
        kinds = (kind.keyType, kind.valueType)
        return column == "properties" and all(isinstance(part, StringType) for part in kinds)
    return isinstance(kind, _SINK_TYPES[column])


def _type_names(column: str) -> str:
    if column == "properties":
        return "map<string,string>"
    return " or ".join(kind.typeName() for kind in _SINK_TYPES[column])
