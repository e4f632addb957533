"""Message bodies as typed values: text, JSON and MessagePack, column by column.

A body that does not fit is reported by its row and reason; the others are decoded all the same.
Types are Arrow's, as Spark wants them for the schema it was given.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import msgpack
import pyarrow as pa

from rmq_ordered.errors import OptionError
from rmq_ordered.options import ValueFormat

Convert = Callable[[Any], Any]
# A map or an array as the key of a map is legal MessagePack that no Python dictionary can hold: the
# TypeError.
_UNPACK_ERRORS: Final = (
    ValueError,
    msgpack.UnpackException,
    RecursionError,
    OverflowError,
    TypeError,
)


class _Misfit(Exception):
    """A value is not of its field's type."""


class ValueDecoder:
    """Decodes the bodies of one format into one Arrow type."""

    def __init__(self, value_format: ValueFormat, kind: pa.DataType) -> None:
        self._kind = kind
        if value_format is ValueFormat.STRING:
            self._decode_one: Convert = _text
        else:
            load = _load_json if value_format is ValueFormat.JSON else _load_msgpack
            convert = converter(kind, "value")
            self._decode_one = lambda body: convert(load(body))
        self._is_text = value_format is ValueFormat.STRING

    def decode(self, bodies: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The values, null where a body does not fit, and the reasons by row."""
        if self._is_text:
            try:
                return bodies.cast(self._kind), {}
            except pa.ArrowInvalid:
                pass  # some row is not UTF-8: find out which
        values: list[Any] = []
        errors: dict[int, str] = {}
        for row, body in enumerate(bodies.to_pylist()):
            if body is None:
                values.append(None)
                continue
            try:
                values.append(self._decode_one(body))
            except (_Misfit, RecursionError) as error:
                values.append(None)
                errors[row] = str(error)
        return pa.array(values, self._kind), errors


def converter(kind: pa.DataType, path: str) -> Convert:
    """How a loaded value becomes one that Arrow accepts for the type; nulls pass."""
    convert = _nested(kind, path) or _scalar(kind, path)

    def nullable(value: Any) -> Any:
        return None if value is None else convert(value)

    return nullable


def _nested(kind: pa.DataType, path: str) -> Convert | None:
    if pa.types.is_struct(kind):
        return _struct(kind, path)
    if pa.types.is_list(kind):
        item = converter(kind.value_type, f"{path}[]")
        return lambda value: [item(one) for one in _expect(value, list, path)]
    if pa.types.is_map(kind):
        key, item = converter(kind.key_type, f"{path} key"), converter(kind.item_type, f"{path}[]")
        return lambda value: [(key(k), item(v)) for k, v in _expect(value, dict, path).items()]
    return None


def _struct(kind: pa.DataType, path: str) -> Convert:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    converters = [(field.name, converter(field.type, f"{path}.{field.name}")) for field in fields]

    def convert(value: Any) -> dict[str, Any]:
        found: Mapping[str, Any] = _expect(value, dict, path)
        return {name: one(found.get(name)) for name, one in converters}

    return convert


def _scalar(kind: pa.DataType, path: str) -> Convert:
    if pa.types.is_boolean(kind):
        return lambda value: _expect(value, bool, path)
    if pa.types.is_integer(kind):
        return _integer(kind, path)
    if pa.types.is_floating(kind):
        return lambda value: float(_expect(value, (int, float), path))
    if pa.types.is_string(kind):
        return lambda value: _expect(value, str, path)
    if pa.types.is_binary(kind):
        return lambda value: _binary(value, path)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind, path)
    if pa.types.is_date(kind):
        return lambda value: _date(value, path)
    if pa.types.is_timestamp(kind):
        return lambda value: _timestamp(value, has_zone=kind.tz is not None, path=path)
    raise OptionError("valueSchema", f"{path} {kind}", "types that JSON and MessagePack can hold")


def _integer(kind: pa.DataType, path: str) -> Convert:
    limit = 2 ** (kind.bit_width - 1)

    def convert(value: Any) -> int:
        number: int = _expect(value, int, path)
        if not -limit <= number < limit:
            _refuse(path, f"a {kind.bit_width}-bit integer", value)
        return number

    return convert


def _binary(value: Any, path: str) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(_expect(value, str, path), validate=True)
    except ValueError:
        _refuse(path, "base64", value)


def _decimal(value: Any, kind: pa.DataType, path: str) -> Decimal:
    try:
        number = Decimal(str(_expect(value, (int, float, str), path)))
        rounded = number.quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        _refuse(path, f"decimal({kind.precision},{kind.scale})", value)
    if (
        not number.is_finite()
        or rounded != number
        or rounded.adjusted() >= (kind.precision - kind.scale)
    ):
        _refuse(path, f"decimal({kind.precision},{kind.scale})", value)
    return rounded


def _date(value: Any, path: str) -> date:
    try:
        return date.fromisoformat(_expect(value, str, path))
    except ValueError:
        _refuse(path, "a date such as 2026-01-31", value)


def _timestamp(value: Any, *, has_zone: bool, path: str) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(
            _expect(value, str, path)
        )  # fmt: skip
    except ValueError:
        _refuse(path, "a time in ISO 8601", value)
    if has_zone:
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return moment.replace(tzinfo=None)


def _expect(value: Any, kinds: type | tuple[type, ...], path: str) -> Any:
    """The value if it is of a kind; True is no number although Python says so."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        names = " or ".join(_NAMES.get(kind, kind.__name__) for kind in wanted)
        _refuse(path, names, value)
    return value


_NAMES: Final = {dict: "an object", list: "an array", str: "a string", int: "an integer",
                 float: "a number", bool: "true or false"}  # fmt: skip


def _refuse(path: str, expected: str, value: Any) -> NoReturn:
    raise _Misfit(f"{path}: expected {expected}, found {value!r:.60}")


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _Misfit(f"not UTF-8: {error.reason} at byte {error.start}") from error


def _load_json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _Misfit(f"not JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is too large a number")
    return number


def _load_msgpack(body: bytes) -> Any:
    try:
        return msgpack.unpackb(body, timestamp=3, strict_map_key=False)
    except _UNPACK_ERRORS as error:
        reason = str(error) or type(error).__name__
        raise _Misfit(f"not MessagePack: {reason}") from error
