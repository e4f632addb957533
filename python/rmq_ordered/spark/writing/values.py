"""Structs to message bodies: JSON and MessagePack, readable by the source and by anybody else.

Spark        JSON                    MessagePack
numbers      number                  number
decimal      string                  string
binary       string in base64        bytes
date         "2026-01-31"            the same text
timestamp    ISO 8601, in UTC        timestamp extension
map          object; keys are text   map
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import msgpack
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rmq_ordered.errors import LocalProtocolError, OptionError
from rmq_ordered.options import ValueFormat

_SIMPLE: Final = (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)


def ensure_encodable(kind: DataType, path: str) -> None:
    """Raise OptionError for a type that neither format can hold."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            ensure_encodable(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        ensure_encodable(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        ensure_encodable(kind.valueType, f"{path}[]")
    elif not isinstance(kind, _SIMPLE):
        raise OptionError(
            "columns",
            f"{path} {kind.simpleString()}",
            "types that JSON and MessagePack can hold (maps have strings as keys); cast it first",
        )


def encode_values(
    structs: pa.StructArray, value_format: ValueFormat, keys: pa.Array | None
) -> pa.Array:
    """One body per row; null stays null.

    Raises:
        LocalProtocolError: a value cannot be written; the sentence has the row's key.
    """
    encode = _json_encoder() if value_format is ValueFormat.JSON else _msgpack_encoder()
    kind = structs.type
    bodies: list[bytes | None] = []
    for row, value in enumerate(structs.to_pylist()):
        try:
            bodies.append(None if value is None else encode(_maps_as_objects(value, kind)))
        except (ValueError, TypeError, OverflowError) as error:
            key = None if keys is None else keys[row].as_py()
            raise LocalProtocolError(
                f"the row with key {key!r:.200} has a value that cannot be written as "
                f"{value_format}: {error}"
            ) from error
    return pa.array(bodies, pa.binary())


def _maps_as_objects(value: Any, kind: pa.DataType) -> Any:
    """Arrow gives maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {
            field.name: _maps_as_objects(value[field.name], field.type)
            for field in (kind.field(index) for index in range(kind.num_fields))
        }
    if pa.types.is_map(kind):
        return {key: _maps_as_objects(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_maps_as_objects(item, kind.value_type) for item in value]
    return value


def _json_encoder() -> Callable[[Any], bytes]:
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_scalar
    )
    return lambda value: encoder.encode(value).encode()


def _json_scalar(value: object) -> str:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _msgpack_encoder() -> Callable[[Any], bytes]:
    packer = msgpack.Packer(datetime=True, default=_msgpack_scalar)

    def encode(value: Any) -> bytes:
        _ensure_finite(value)
        packed: bytes = packer.pack(value)
        return packed

    return encode


def _msgpack_scalar(value: object) -> str:
    # Only times with a zone are timestamps of MessagePack.
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no MessagePack form")


def _ensure_finite(value: Any) -> None:
    """The same numbers in both formats."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number that readers agree on")
    if isinstance(value, dict):
        for item in value.values():
            _ensure_finite(item)
    elif isinstance(value, list):
        for item in value:
            _ensure_finite(item)
