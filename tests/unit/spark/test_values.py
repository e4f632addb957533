"""Bodies to values: types that fit, values that do not, and never a crash."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.errors import OptionError
from rmq_ordered.options import ValueFormat
from rmq_ordered.spark.values import ValueDecoder

ZONED = pa.timestamp("us", tz="UTC")
POINT = pa.struct([("x", pa.int32()), ("y", pa.float64())])


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
    (pa.date32(), "2026-01-31", date(2026, 1, 31)),
    (ZONED, "2026-01-31T08:00:00+01:00", datetime(2026, 1, 31, 7, tzinfo=UTC)),
    (ZONED, "2026-01-31T08:00:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    (pa.timestamp("us"), "2026-01-31T08:00:00", datetime(2026, 1, 31, 8)),  # noqa: DTZ001
    (pa.list_(pa.int32()), [1, None, 3], [1, None, 3]),
    (pa.map_(pa.string(), pa.int32()), {"a": 1}, [("a", 1)]),
    (POINT, {"x": 1, "y": 2.5, "z": "left out"}, {"x": 1, "y": 2.5}),
    (POINT, {"y": 2}, {"x": None, "y": 2.0}),
]
MISFITS: list[tuple[pa.DataType, Any, str]] = [
    (pa.bool_(), 1, "value.f: expected true or false, found 1"),
    (pa.int32(), True, "expected an integer, found True"),
    (pa.int32(), 2**31, "expected a 32-bit integer"),
    (pa.int32(), 1.0, "expected an integer, found 1.0"),
    (pa.int32(), "5", "expected an integer, found '5'"),
    (pa.float64(), "5", "expected an integer or a number"),
    (pa.string(), 5, "expected a string, found 5"),
    (pa.decimal128(5, 2), 1000, r"expected decimal(5,2), found 1000"),
    (pa.decimal128(5, 2), "1.005", r"expected decimal(5,2)"),
    (pa.decimal128(5, 2), "much", r"expected decimal(5,2)"),
    (pa.decimal128(5, 2), "NaN", r"expected decimal(5,2)"),
    (pa.date32(), "31.1.2026", "expected a date such as"),
    (ZONED, "noon", "expected a time in ISO 8601"),
    (ZONED, 5, "expected a string"),
    (pa.list_(pa.int32()), {}, "value.f: expected an array"),
    (pa.list_(pa.int32()), [1, "2"], "value.f[]: expected an integer"),
    (pa.map_(pa.string(), pa.int32()), [1], "expected an object"),
    (POINT, [1], "expected an object"),
    (POINT, {"x": "1"}, "value.f.x: expected an integer"),
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


@pytest.mark.parametrize(("kind", "value", "reason"), MISFITS)
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


def test_messagepack_has_times_of_its_own() -> None:
    moment = datetime(2026, 1, 31, 8, tzinfo=UTC)
    body = msgpack.packb({"f": moment}, datetime=True)
    assert decode_one(ValueFormat.MSGPACK, struct(ZONED), body)[0] == {"f": moment}


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


def test_a_type_that_has_no_values_in_json_is_refused_at_once() -> None:
    with pytest.raises(OptionError, match="valueSchema"):
        ValueDecoder(ValueFormat.JSON, struct(pa.duration("us")))


def test_a_map_whose_key_is_a_map_is_no_value() -> None:
    values, errors = ValueDecoder(ValueFormat.MSGPACK, struct(pa.int32())).decode(
        pa.array([b"\x81\x80\x00"], pa.binary())
    )
    assert values.to_pylist() == [None]
    assert errors[0].startswith("not MessagePack: ")


@given(st.lists(st.binary(max_size=40), max_size=10))
@pytest.mark.parametrize("value_format", [*ValueFormat][1:])
def test_garbage_is_an_error_never_a_crash(value_format: ValueFormat, bodies: list[bytes]) -> None:
    kind = pa.string() if value_format is ValueFormat.STRING else struct(pa.int32())
    values, errors = ValueDecoder(value_format, kind).decode(pa.array(bodies, pa.binary()))
    assert len(values) == len(bodies)
    assert all(values[row].as_py() is None for row in errors)
