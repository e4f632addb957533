"""Which columns of a frame the sink takes, and what they become for the client's writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    AtomicType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from rmq_ordered.errors import LocalProtocolError, OptionError
from rmq_ordered.model import Selector
from rmq_ordered.options import SinkOptions, ValueFormat, parse_topic
from rmq_ordered.spark.writing.values import encode_values, ensure_encodable

_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_KINDS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "value": (BinaryType, StringType, StructType),
    "key": (StringType,),
    "tags": (StringType,),
    "index_keys": (StringType,),
    "topic": (StringType,),
    "broker": (StringType,),
    "queue": _INTEGERS,
    "properties": (MapType,),
}
_WORDS: Final = {
    "value": "binary, string, or a struct with valueFormat=json or msgpack",
    "queue": "int",
    "properties": "map<string,string>",
}
# Columns of the source that say where a message was: a pipeline may pass them on, they change
# nothing.
_IGNORED: Final = frozenset(
    {"offset", "timestamp", "born_timestamp", "message_id", "reconsume_times", "_error"}
)
_TEXT_FORMATS: Final = (ValueFormat.RAW, ValueFormat.STRING)


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """What is taken from a frame; made once on the driver, before any row is sent.

    Attributes:
        taken: columns of the frame by the name that the client's writer knows.
        value_format: how a struct becomes a body.
        topic_column: whether the rows say where they go.
        sequence: the column that rows are sorted by.
    """

    taken: tuple[tuple[str, str], ...]
    value_format: ValueFormat
    topic_column: bool
    sequence: str | None

    @classmethod
    def of(cls, schema: StructType, options: SinkOptions) -> SinkColumns:
        """Raise OptionError unless every column can be written."""
        kinds = {field.name: field.dataType for field in schema.fields}
        named = _named(kinds, options)
        _ensure_needed(named, kinds, options)
        for name, column in named.items():
            _ensure_kind(name, column, kinds[column])
        _ensure_value(kinds[named["value"]], options.value_format)
        _ensure_sequence(kinds, options.sequence_column)
        unused = kinds.keys() - set(named.values()) - _IGNORED - _KINDS.keys()
        unused -= {options.sequence_column}
        if unused:
            known = ", ".join(sorted({*_KINDS, *_IGNORED}))
            expected = f"only columns the sink knows: {known}; drop the others"
            raise OptionError("columns", ", ".join(sorted(unused)), expected)
        wanted = {"value", "key", "tags", "index_keys", "properties"}
        if options.selector is Selector.QUEUE:
            wanted |= {"queue", "broker"}
        if options.topic is None:
            wanted.add("topic")
        taken = tuple((name, column) for name, column in named.items() if name in wanted)
        return cls(taken, options.value_format, options.topic is None, options.sequence_column)

    def prepare(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the client's writer takes them.

        Raises:
            LocalProtocolError: a row cannot be encoded; the sentence has its key.
        """
        columns = {name: rows.column(column) for name, column in self.taken}
        if pa.types.is_struct(columns["value"].type):
            columns["value"] = encode_values(
                columns["value"], self.value_format, columns.get("key")
            )
        return pa.record_batch(columns)

    def by_topic(self, rows: pa.RecordBatch, topic: str | None) -> list[tuple[str, pa.RecordBatch]]:
        """The rows of each topic, in their order.

        Raises:
            LocalProtocolError: a row has no topic, or one that cannot be; the sentence has its key.
        """
        if topic is not None:
            return [(topic, rows)]
        topics = rows.column("topic").cast(pa.string())
        rest = rows.drop_columns(["topic"])
        parts: list[tuple[str, pa.RecordBatch]] = []
        for name in topics.unique().to_pylist():
            is_here = topics.is_null() if name is None else pc.equal(topics, name)
            _ensure_topic(name, rest, is_here)
            parts.append((name, rest.filter(pc.fill_null(is_here, False))))
        return parts


def _named(kinds: dict[str, DataType], options: SinkOptions) -> dict[str, str]:
    """Columns of the frame by what they are for the sink."""
    named = {name: name for name in _KINDS if name in kinds}
    if options.key_column != "key":
        named.pop("key", None)
        if options.key_column in kinds:
            named["key"] = options.key_column
    return named


def _ensure_needed(named: dict[str, str], kinds: dict[str, DataType], options: SinkOptions) -> None:
    needed = ["value"]
    if options.selector in (Selector.HASH, Selector.CONSISTENT):
        needed.append("key")
    if options.selector is Selector.QUEUE:
        needed.append("queue")
    if options.topic is None:
        needed.append("topic")
    for name in needed:
        if name in named:
            continue
        column = options.key_column if name == "key" else name
        hint = {
            "key": "; it decides the queue and the order: rename one of yours, set keyColumn, or "
            "selector=roundrobin for rows without keys",
            "topic": ", or the option 'topic'",
            "queue": ", because of selector=queue",
        }.get(name, "; rename or cast one of yours")
        raise OptionError(
            "columns", ", ".join(kinds), f"a column '{column}' ({_words(name)}){hint}"
        )


def _ensure_kind(name: str, column: str, kind: DataType) -> None:
    is_fitting = isinstance(kind, _KINDS[name])
    if isinstance(kind, MapType):
        is_fitting &= isinstance(kind.keyType, StringType) and isinstance(
            kind.valueType, StringType
        )
    if not is_fitting:
        raise OptionError(
            "columns",
            f"{column} {kind.simpleString()}",
            f"column '{column}' to be {_words(name)}; cast it first",
        )


def _ensure_value(kind: DataType, value_format: ValueFormat) -> None:
    is_struct = isinstance(kind, StructType)
    if is_struct and value_format in _TEXT_FORMATS:
        raise OptionError(
            "valueFormat", value_format.value, "json or msgpack, because 'value' is a struct"
        )
    if not is_struct and value_format not in _TEXT_FORMATS:
        raise OptionError(
            "columns",
            f"value {kind.simpleString()}",
            f"column 'value' to be a struct, because of valueFormat={value_format}",
        )
    if is_struct:
        ensure_encodable(kind, "value")


def _ensure_sequence(kinds: dict[str, DataType], column: str | None) -> None:
    if column is None:
        return
    kind = kinds.get(column)
    if kind is None or not isinstance(kind, AtomicType) or isinstance(kind, BooleanType):
        found = ", ".join(kinds) if kind is None else f"{column} {kind.simpleString()}"
        raise OptionError(
            "sequenceColumn", found, f"a column '{column}' of numbers, times or texts to sort by"
        )


def _ensure_topic(name: str | None, rows: pa.RecordBatch, is_here: pa.Array) -> None:
    try:
        if name is not None and parse_topic(name) == name:
            return
    except ValueError:
        pass
    row = is_here.index(True).as_py()
    index = rows.schema.get_field_index("key")
    key = None if index < 0 else rows.column(index)[row].as_py()
    raise LocalProtocolError(
        f"the row with key {key!r:.200} names the topic {name!r:.200}, expected letters, digits, "
        "'_', '-', '%' or '|', at most 127 of them"
    )


def _words(name: str) -> str:
    return _WORDS.get(name, "string")
