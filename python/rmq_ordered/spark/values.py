"""Message bodies as typed values: text, JSON and MessagePack, column by column.

A body that does not fit is reported by its row and reason; the others are decoded all the same.
Types are Arrow's, as Spark wants them for the schema it was given. Whatever Arrow or Spark would
not take is found here, value by value: later nobody could tell whose body it was.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
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
# As many digits as Spark's largest decimal has: Python's own context rounds to 28.
_DECIMALS: Final = Context(prec=38)
_SINGLE: Final = struct.Struct("=f")
# What Spark sends through Arrow as a struct of bytes of its own making.
_OPAQUE: Final = (b"variant", b"geometry", b"geography")


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


def value_decoder(value_format: ValueFormat, schema: pa.Schema) -> ValueDecoder | None:
    """How bodies become the values of the source's rows; None where they are values already.

    Raises:
        OptionError: the schema has a type that no value of the format is of.
    """
    if value_format is ValueFormat.RAW:
        return None
    return ValueDecoder(value_format, schema.field("value").type)


def converter(kind: pa.DataType, path: str, *, is_nullable: bool = True) -> Convert:
    """How a loaded value becomes one that Arrow accepts for the type."""
    convert = _nested(kind, path) or _scalar(kind, path)

    def convert_or_null(value: Any) -> Any:
        if value is not None:
            return convert(value)
        return None if is_nullable else _refuse(path, "a value, because it is NOT NULL", value)

    return convert_or_null


def _of_field(field: pa.Field, path: str) -> Convert:
    return converter(field.type, path, is_nullable=field.nullable)


def _nested(kind: pa.DataType, path: str) -> Convert | None:
    if pa.types.is_struct(kind):
        return _struct(kind, path)
    if pa.types.is_list(kind):
        item = _of_field(kind.value_field, f"{path}[]")
        return lambda value: [item(one) for one in _expect(value, list, path)]
    if pa.types.is_map(kind):
        return _map(kind, path)
    return None


def _struct(kind: pa.DataType, path: str) -> Convert:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    if any(mark in (field.metadata or {}) for field in fields for mark in _OPAQUE):
        raise _unsupported(kind, path)
    converters = [(field.name, _of_field(field, f"{path}.{field.name}")) for field in fields]

    def convert(value: Any) -> dict[str, Any]:
        found: Mapping[str, Any] = _expect(value, dict, path)
        return {name: one(found.get(name)) for name, one in converters}

    return convert


def _map(kind: pa.DataType, path: str) -> Convert:
    key, item = _of_field(kind.key_field, f"{path} key"), _of_field(kind.item_field, f"{path}[]")

    def convert(value: Any) -> list[tuple[Any, Any]]:
        entries = [(key(k), item(v)) for k, v in _expect(value, dict, path).items()]
        # Two texts may be one number or one time. Spark does not look, and takes NaN for one key.
        if len({"NaN" if k != k else k for k, _ in entries}) < len(entries):
            _refuse(path, f"keys that differ as {kind.key_type}", value)
        return entries

    return convert


def _scalar(kind: pa.DataType, path: str) -> Convert:
    if pa.types.is_boolean(kind):
        return lambda value: _expect(value, bool, path)
    if pa.types.is_integer(kind):
        return _integer(kind, path)
    if pa.types.is_floating(kind):
        return _floating(kind, path)
    if pa.types.is_string(kind):
        return lambda value: _string(value, path)
    if pa.types.is_binary(kind):
        return lambda value: _binary(value, path)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind, path)
    if pa.types.is_date(kind):
        return lambda value: _date(value, path)
    if pa.types.is_timestamp(kind):
        return lambda value: _timestamp(value, has_zone=kind.tz is not None, path=path)
    raise _unsupported(kind, path)


def _unsupported(kind: pa.DataType, path: str) -> OptionError:
    return OptionError("valueSchema", f"{path} {kind}", "types that JSON and MessagePack can hold")


def _integer(kind: pa.DataType, path: str) -> Convert:
    limit = 2 ** (kind.bit_width - 1)

    def convert(value: Any) -> int:
        number: int = _expect(value, int, path)
        if not -limit <= number < limit:
            _refuse(path, f"a {kind.bit_width}-bit integer", value)
        return number

    return convert


def _floating(kind: pa.DataType, path: str) -> Convert:
    narrow = _single if kind.bit_width == _SINGLE.size * 8 else float

    def convert(value: Any) -> float:
        _expect(value, (int, float), path)
        try:
            return narrow(value)
        except OverflowError:
            _refuse(path, f"a {kind.bit_width}-bit number", value)

    return convert


def _single(value: float) -> float:
    """Rounded to 32 bits, or OverflowError where Arrow would make infinity of it."""
    number: float = _SINGLE.unpack(_SINGLE.pack(float(value)))[0]
    return number


def _string(value: Any, path: str) -> str:
    text: str = _expect(value, str, path)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            _refuse(path, "text without halves of surrogate pairs", value)
    return text


def _binary(value: Any, path: str) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(_expect(value, str, path), validate=True)
    except ValueError:
        _refuse(path, "base64", value)


def _decimal(value: Any, kind: pa.DataType, path: str) -> Decimal:
    text = str(_expect(value, (int, float, str), path))
    try:
        number = Decimal(value.digits if isinstance(value, _Literal) else text, _DECIMALS)
        rounded = number.quantize(Decimal(1).scaleb(-kind.scale), context=_DECIMALS)
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
    if not has_zone:
        return moment.replace(tzinfo=None)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        _refuse(path, "a time of the years 1 to 9999 in UTC", value)


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


class _Literal(float):
    """A number of JSON that keeps its digits: a decimal may hold more of them than a float."""

    __slots__ = ("digits",)
    digits: str


def _finite(text: str) -> _Literal:
    number = _Literal(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is too large a number")
    number.digits = text
    return number


def _load_msgpack(body: bytes) -> Any:
    try:
        return msgpack.unpackb(body, timestamp=3, strict_map_key=False)
    except _UNPACK_ERRORS as error:
        reason = str(error) or type(error).__name__
        raise _Misfit(f"not MessagePack: {reason}") from error
