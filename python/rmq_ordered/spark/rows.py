"""Columns: what the source yields and what the sink accepts."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType

from rmq_ordered.errors import OptionError

_SOURCE_COLUMNS: Final = (
    "key string, value binary, topic string, broker string, queue int, offset bigint, "
    "timestamp timestamp, born_timestamp timestamp, tags string, index_keys string, "
    "message_id string, reconsume_times int"
)
_PROPERTIES_COLUMN: Final = ", properties map<string,string>"

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


def source_schema(*, include_properties: bool) -> str:
    """The source's columns as a DDL string."""
    return _SOURCE_COLUMNS + (_PROPERTIES_COLUMN if include_properties else "")


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


def _is_accepted(column: str, kind: DataType) -> bool:
    if isinstance(kind, MapType):
        kinds = (kind.keyType, kind.valueType)
        return column == "properties" and all(isinstance(part, StringType) for part in kinds)
    return isinstance(kind, _SINK_TYPES[column])


def _type_names(column: str) -> str:
    if column == "properties":
        return "map<string,string>"
    return " or ".join(kind.typeName() for kind in _SINK_TYPES[column])
