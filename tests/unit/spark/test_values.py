"""Bodies to values: types that fit, values that do not, and never a crash."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, DayTimeIntervalType, NullType, VariantType

from rmq_ordered.errors import OptionError
from rmq_ordered.options import ValueFormat
from rmq_ordered.spark.values import ValueDecoder

ZONED = pa.timestamp("us", tz="UTC")
POINT = pa.struct([("x", pa.int32()), ("y", pa.float64())])
PROMISED = pa.struct([pa.field("x", pa.int32(), nullable=False)])


def struct(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("f", kind)])


def decode_one(value_format: ValueFormat, kind: pa.DataType, body: bytes) -> tuple[Any, str | None]:
    values, errors = ValueDecoder(value_format, kind).decode(pa.array([body], pa.binary()))
    return values[0].as_py(), errors.get(0)


FITTING: list[tuple[pa.DataType, Any, Any]] = [
    (pa.bool_(), True, True),
    (pa.int8(), -128, -128),
    (pa.int32(), 5, 5),
    (pa.int64(), 2**63 - 1, 2**63 - 1),
    (pa.float64(), 1, 1.0),
    (pa.float32(), 0.5, 0.5),
    (pa.string(), "ä", "ä"),
    (pa.string(), None, None),
    (pa.decimal128(5, 2), 12.5, Decimal("12.50")),
    (pa.decimal128(5, 2), "999.99", Decimal("999.99")),
    (pa.decimal128(38, 30), 12, Decimal(12)),
    (pa.decimal128(38, 0), "-" + "9" * 38, Decimal("-" + "9" * 38)),
    (pa.decimal128(38, 38), "0." + "1" * 38, Decimal("0." + "1" * 38)),
    (pa.date32(), "2026-01-31", date(2026, 1, 31)),
    (ZONED, "2026-01-31T08:00:00+01:00", datetime(2026, 1, 31, 7, tzinfo=UTC)),
    (ZONED, "2026-01-31T08:00:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    (pa.timestamp("us"), "2026-01-31T08:00:00", datetime(2026, 1, 31, 8)),  # noqa: DTZ001
    (pa.list_(pa.int32()), [1, None, 3], [1, None, 3]),
    (pa.map_(pa.string(), pa.int32()), {"a": 1}, [("a", 1)]),
    (POINT, {"x": 1, "y": 2.5, "z": "left out"}, {"x": 1, "y": 2.5}),
    (POINT, {"y": 2}, {"x": None, "y": 2.0}),
    (pa.list_(PROMISED), [{"x": 1}, None], [{"x": 1}, None]),
]
MISFITS: list[tuple[pa.DataType, Any, str]] = [
    (pa.bool_(), 1, "value.f: expected true or false, found 1"),
    (pa.int32(), True, "expected an integer, found True"),
    (pa.int32(), 2**31, "expected a 32-bit integer"),
    (pa.int32(), 1.0, "expected an integer, found 1.0"),
    (pa.int32(), "5", "expected an integer, found '5'"),
    (pa.float64(), "5", "expected an integer or a number"),
    (pa.float64(), 10**400, "value.f: expected a 64-bit number, found 1000"),
    (pa.float32(), 10**400, "value.f: expected a 32-bit number, found 1000"),
    (pa.float32(), 1e39, "value.f: expected a 32-bit number, found 1e+39"),
    (pa.string(), 5, "expected a string, found 5"),
    (pa.string(), "\ud800", r"expected text without halves of surrogate pairs, found '\ud800'"),
    (pa.map_(pa.string(), pa.int8()), {"\ud800": 1}, "value.f key: expected text without halves"),
    (pa.decimal128(5, 2), 1000, r"expected decimal(5,2), found 1000"),
    (pa.decimal128(5, 2), "1.005", r"expected decimal(5,2)"),
    (pa.decimal128(5, 2), "much", r"expected decimal(5,2)"),
    (pa.decimal128(5, 2), "NaN", r"expected decimal(5,2)"),
    (pa.decimal128(5, 2), "sNaN", r"expected decimal(5,2)"),
    (pa.decimal128(5, 2), "Infinity", r"expected decimal(5,2)"),
    (pa.decimal128(38, 0), 10**38, r"expected decimal(38,0)"),
    (pa.decimal128(38, 30), "12." + "1" * 31, r"expected decimal(38,30)"),
    (pa.date32(), 20_000, "expected a string, found 20000"),
    (pa.date32(), "31.1.2026", "expected a date such as"),
    (ZONED, "noon", "expected a time in ISO 8601"),
    (ZONED, 5, "expected a string"),
    (ZONED, "0001-01-01T00:00:00+01:00", "expected a time of the years 1 to 9999 in UTC"),
    (ZONED, "9999-12-31T23:59:59-01:00", "expected a time of the years 1 to 9999 in UTC"),
    (pa.list_(pa.int32()), {}, "value.f: expected an array"),
    (pa.list_(pa.int32()), [1, "2"], "value.f[]: expected an integer"),
    (pa.map_(pa.string(), pa.int32()), [1], "expected an object"),
    (POINT, [1], "expected an object"),
    (POINT, {"x": "1"}, "value.f.x: expected an integer"),
    (PROMISED, {}, "value.f.x: expected a value, because it is NOT NULL, found None"),
    (PROMISED, {"x": None}, "value.f.x: expected a value, because it is NOT NULL, found None"),
    (pa.list_(PROMISED), [{"x": 1}, {}], "value.f[].x: expected a value, because it is NOT NULL"),
    (
        pa.list_(pa.field("element", pa.int8(), nullable=False)),
        [None],
        "value.f[]: expected a value, because it is NOT NULL",
    ),
    (
        pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False)),
        {"a": None},
        "value.f[]: expected a value, because it is NOT NULL",
    ),
    (
        pa.map_(pa.decimal128(3, 1), pa.int8()),
        {"1": 1, "1.0": 2},
        "value.f: expected keys that differ as decimal128(3, 1), found {'1': 1, '1.0': 2}",
    ),
    (pa.map_(ZONED, pa.int8()), {"2026-01-31": 1, "20260131": 2}, "value.f: expected keys that"),
]


@pytest.mark.parametrize("value_format", [ValueFormat.JSON, ValueFormat.MSGPACK])
@pytest.mark.parametrize(("kind", "value", "expected"), FITTING)
def test_values_that_fit_become_columns(
    value_format: ValueFormat, kind: pa.DataType, value: Any, expected: Any
) -> None:
    dump = json.dumps if value_format is ValueFormat.JSON else msgpack.packb
    body = dump({"f": value})
    found, error = decode_one(
        value_format, struct(kind), body if isinstance(body, bytes) else body.encode()
    )
    assert error is None
    assert found == {"f": expected}


@pytest.mark.parametrize(("kind", "value", "reason"), MISFITS, ids=lambda part: f"{part!s:.40}")
def test_values_that_do_not_fit_are_null_with_the_reason(
    kind: pa.DataType, value: Any, reason: str
) -> None:
    found, error = decode_one(ValueFormat.JSON, struct(kind), json.dumps({"f": value}).encode())
    assert found is None
    assert reason in str(error)


def test_bytes_are_base64_in_json_and_bytes_in_messagepack() -> None:
    kind = struct(pa.binary())
    assert decode_one(ValueFormat.JSON, kind, b'{"f":"AAE="}')[0] == {"f": b"\0\1"}
    assert decode_one(ValueFormat.MSGPACK, kind, msgpack.packb({"f": b"\0\1"}))[0] == {"f": b"\0\1"}
    assert "expected base64" in str(decode_one(ValueFormat.JSON, kind, b'{"f":"?"}')[1])


def test_a_decimal_has_all_the_digits_of_a_json_number() -> None:
    body = b'{"f":0.12345678901234567890123456789}'
    found, _ = decode_one(ValueFormat.JSON, struct(pa.decimal128(38, 30)), body)
    assert found == {"f": Decimal("0.12345678901234567890123456789")}


def test_messagepack_has_times_of_its_own() -> None:
    moment = datetime(2026, 1, 31, 8, tzinfo=UTC)
    body = msgpack.packb({"f": moment}, datetime=True)
    assert decode_one(ValueFormat.MSGPACK, struct(ZONED), body)[0] == {"f": moment}


NAN = b"\xcb\x7f\xf8\0\0\0\0\0\0"


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.string(), b"\xc4\x01a", "value.f: expected a string, found b'a'"),
        (pa.string(), b"\xa3\xed\xa0\x80", "not MessagePack: 'utf-8' codec can't decode byte 0xed"),
        (pa.string(), b"\xd4\x05\x00", "value.f: expected a string, found ExtType"),
        (ZONED, b"\xc7\x0c\xff\0\0\0\0\x7f" + b"\xff" * 7, "not MessagePack: days="),
        (ZONED, b"\xc7\x05\xff" + b"\0" * 5, "not MessagePack: invalid timestamp"),
        (pa.decimal128(5, 2), NAN, "value.f: expected decimal(5,2), found nan"),
        (
            pa.map_(pa.string(), pa.int8()),
            b"\x81\xc0\x01",
            "value.f key: expected a value, because",
        ),
        (pa.map_(pa.float64(), pa.int8()), b"\x82" + (NAN + b"\x01") * 2, "value.f: expected keys"),
        (pa.int8(), b"\x91" * 2_000 + b"\x01", "not MessagePack: StackError"),
    ],
)
def test_what_only_messagepack_can_say_wrongly_has_a_reason_too(
    kind: pa.DataType, value: bytes, reason: str
) -> None:
    found, error = decode_one(ValueFormat.MSGPACK, struct(kind), b"\x81\xa1f" + value)
    assert found is None
    assert str(error).startswith(reason)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nope", b'{"f":NaN}', b'{"f":1e999}', b"\xff", b"[" * 100_000, b"5", b'{"f":5} 6'],
)
def test_what_is_no_json_object_is_an_error_of_its_row_alone(body: bytes) -> None:
    bodies = pa.array([b'{"f":1}', body, b'{"f":2}'], pa.binary())
    values, errors = ValueDecoder(ValueFormat.JSON, struct(pa.float64())).decode(bodies)
    assert values.to_pylist() == [{"f": 1.0}, None, {"f": 2.0}]
    assert list(errors) == [1]


def test_null_is_a_value() -> None:
    assert decode_one(ValueFormat.JSON, struct(pa.int32()), b"null") == (None, None)


def test_text_must_be_utf_8() -> None:
    decoder = ValueDecoder(ValueFormat.STRING, pa.string())
    values, errors = decoder.decode(pa.array([b"a", "ä".encode(), b"\xffz"], pa.binary()))
    assert values.to_pylist() == ["a", "ä", None]
    assert errors == {2: "not UTF-8: invalid start byte at byte 0"}
    assert decoder.decode(pa.array([b"a"], pa.binary()))[1] == {}


@pytest.mark.parametrize("kind", [DayTimeIntervalType(), NullType(), VariantType()])
def test_a_type_that_has_no_values_in_json_is_refused_at_once(kind: DataType) -> None:
    with pytest.raises(OptionError, match=r"'valueSchema': expected types .* found 'value\.f "):
        ValueDecoder(ValueFormat.JSON, struct(to_arrow_type(kind)))


def test_a_map_whose_key_is_a_map_is_no_value() -> None:
    values, errors = ValueDecoder(ValueFormat.MSGPACK, struct(pa.int32())).decode(
        pa.array([b"\x81\x80\x00"], pa.binary())
    )
    assert values.to_pylist() == [None]
    assert errors[0].startswith("not MessagePack: ")
