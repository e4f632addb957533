"""Structs as bodies: what readers of other languages will find."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import msgpack
import pyarrow as pa
import pytest

from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.options import ValueFormat
from rmq_ordered.spark.writing.values import encode_values

KIND = pa.struct(
    [
        ("number", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("labels", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.float64())])))),
        ("nothing", pa.string()),
    ]
)
VALUE = {
    "number": 2**60,
    "price": Decimal("12.30"),
    "raw": b"\x00\xff",
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
    "labels": [("ä", [{"x": 1.5}])],
    "nothing": None,
}


def encode(value: object, kind: pa.DataType, value_format: ValueFormat) -> bytes:
    (body,) = encode_values(pa.array([value], kind), value_format, None).to_pylist()
    assert isinstance(body, bytes)
    return body


def test_json_is_compact_and_keeps_every_value() -> None:
    body = encode(VALUE, KIND, ValueFormat.JSON)
    assert json.loads(body) == {
        "number": 2**60,
        "price": "12.30",
        "raw": base64.b64encode(b"\x00\xff").decode(),
        "day": "2026-01-31",
        "at": "2026-01-31T12:30:00+00:00",
        "labels": {"ä": [{"x": 1.5}]},
        "nothing": None,
    }
    assert b" " not in body


def test_msgpack_keeps_bytes_and_times() -> None:
    body = encode(VALUE, KIND, ValueFormat.MSGPACK)
    assert msgpack.unpackb(body, timestamp=3) == {
        "number": 2**60,
        "price": "12.30",
        "raw": b"\x00\xff",
        "day": "2026-01-31",
        "at": datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
        "labels": {"ä": [{"x": 1.5}]},
        "nothing": None,
    }


def test_null_stays_null_so_that_the_writer_refuses_it() -> None:
    found = encode_values(pa.array([None], pa.struct([("a", pa.int32())])), ValueFormat.JSON, None)
    assert found.to_pylist() == [None]


@pytest.mark.parametrize("value_format", [ValueFormat.JSON, ValueFormat.MSGPACK])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused_with_the_rows_key(
    value_format: ValueFormat, number: float
) -> None:
    kind = pa.struct([("a", pa.list_(pa.float64()))])
    keys = pa.array(["first", "second"])
    values = pa.array([{"a": [1.0]}, {"a": [number]}], kind)
    with pytest.raises(LocalProtocolError, match="the row with key 'second' has a value"):
        encode_values(values, value_format, keys)


def test_a_time_without_a_zone_stays_without_one() -> None:
    kind = pa.struct([("at", pa.timestamp("us"))])
    value = {"at": datetime(2026, 1, 31, 12, 30)}  # noqa: DTZ001 - that is the point
    assert json.loads(encode(value, kind, ValueFormat.JSON)) == {"at": "2026-01-31T12:30:00"}
    assert msgpack.unpackb(encode(value, kind, ValueFormat.MSGPACK)) == {
        "at": "2026-01-31T12:30:00"
    }
