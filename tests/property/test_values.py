"""Bodies to values: whatever a body holds, each row is a value that keeps Spark's promises, or it
has a reason.
"""

import json
from collections.abc import Callable
from datetime import UTC
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.promises import proves

from rmq_ordered.options import ValueFormat
from rmq_ordered.spark.values import ValueDecoder

SCALARS = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.decimal128(5, 2),
    pa.decimal128(38, 0),
    pa.decimal128(38, 30),
    pa.decimal128(38, 38),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
]
POINT = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())])
NESTED = [
    POINT,
    pa.struct([pa.field("p", POINT, nullable=False)]),
    pa.list_(pa.string()),
    pa.list_(pa.field("element", pa.float64(), nullable=False)),
    pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    *(pa.map_(kind, pa.string()) for kind in SCALARS),
    pa.map_(pa.list_(pa.int32()), POINT),
]
KINDS = [
    pa.struct([pa.field("f", kind, nullable=is_nullable)])
    for kind in SCALARS + NESTED
    for is_nullable in (True, False)
]
FORMATS = [ValueFormat.JSON, ValueFormat.MSGPACK]
DECODERS = {
    value_format: [(kind, ValueDecoder(value_format, kind)) for kind in KINDS]
    for value_format in FORMATS
}

# Each of them is the limit of some type, just past it, or the same as another in other words.
ODD_TEXTS = [
    "\ud800", "a\udfff", "NaN", "sNaN", "Infinity", "-0", "0", "1e38", "1e37", "1E+999999999",
    "1E-999999999999999999999", "1" * 38, "1" * 39, "12", "12.0", "9" * 8 + "." + "9" * 30,
    "0." + "1" * 38, "AA==", "AB==", "A", "ä", "2026-01-31", "20260131", "0001-01-01",
    "9999-12-31", "10000-01-01", "2026-01-31T08:00:00", "2026-01-31T08:00:00Z",
    "2026-01-31T09:00:00+01:00", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
    "2026-01-31\ud80008:00:00",
]  # fmt: skip
ODD_NUMBERS = [
    2**7, 2**15, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, 1e38, 3.5e38, -1e300, -0.0
]  # fmt: skip
PAST_64_BITS = [2**64, 10**37, 10**38, -(10**400), 10**4000]
NOT_FINITE = [float("nan"), float("inf")]
# Alone, in an array, as a field, and as a key beside one that may be the same.
PLACES: list[Callable[[Any], Any]] = [
    lambda value: value,
    lambda value: [value],
    lambda value: {"x": 1, "y": value},
    lambda value: {"p": {"x": value}},
    lambda value: {value: value, "12": "", "AA==": "", "20260131": ""},
    lambda value: {value: None, "2026-01-31T08:00:00": None},
]

texts = st.sampled_from(ODD_TEXTS) | st.text(st.characters(), max_size=5)
numbers = st.sampled_from(ODD_NUMBERS) | st.integers(-10, 10) | st.floats(allow_nan=False)
scalars = st.none() | st.booleans() | numbers | texts
names = st.sampled_from(["f", "p", "x", "y"])


def nested(inner: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=3)
        | st.dictionaries(names, inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
    )


json_values = st.recursive(
    scalars | st.sampled_from([*PAST_64_BITS, *NOT_FINITE]),
    lambda inner: nested(inner, texts),
    max_leaves=8,
)
msgpack_scalars = (
    scalars
    | st.sampled_from(NOT_FINITE)
    | st.binary(max_size=5)
    | st.datetimes(timezones=st.just(UTC))
    | st.builds(msgpack.Timestamp, st.integers(-(2**63), 2**63 - 1), st.integers(0, 10**9 - 1))
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=3))
)
msgpack_values = st.recursive(
    msgpack_scalars, lambda inner: nested(inner, msgpack_scalars), max_leaves=8
)


def as_escaped_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def as_json(value: Any) -> st.SearchStrategy[bytes]:
    """With escapes, or without in one of the encodings that JSON may have."""
    bare = json.dumps(value, ensure_ascii=False)
    encodings = ["utf-8", "utf-16-le", "utf-32-be"]
    return st.sampled_from(
        [as_escaped_json(value), *(bare.encode(name, "surrogatepass") for name in encodings)]
    )


def as_msgpack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, datetime=True, unicode_errors="surrogatepass")
    return packed


def bodies_of(value_format: ValueFormat) -> st.SearchStrategy[bytes]:
    garbage = st.binary(max_size=40)
    if value_format is ValueFormat.JSON:
        return garbage | (json_values | json_values.map(lambda v: {"f": v})).flatmap(as_json)
    return garbage | (msgpack_values | msgpack_values.map(lambda v: {"f": v})).map(as_msgpack)


def assert_promised(array: pa.Array, field: pa.Field) -> None:
    """No null where the type says that there is none."""
    assert field.nullable or array.null_count == 0
    there = array.drop_null()
    if pa.types.is_struct(field.type):
        for index in range(field.type.num_fields):
            assert_promised(there.field(index), field.type.field(index))
    elif pa.types.is_list(field.type):
        assert_promised(there.flatten(), field.type.value_field)
    elif pa.types.is_map(field.type):
        assert_promised(there.keys, field.type.key_field)
        assert_promised(there.items, field.type.item_field)
        for entries in there.to_pylist():
            assert len({str(key) for key, _ in entries}) == len(entries)


def is_null(value_format: ValueFormat, body: bytes) -> bool:
    """Whether a body says null, which is a value."""
    if value_format is not ValueFormat.JSON:
        return value_format is ValueFormat.MSGPACK and body == b"\xc0"
    try:
        return json.loads(body) is None
    except (ValueError, RecursionError):
        return False


def assert_values_or_reasons(
    value_format: ValueFormat, decoder: ValueDecoder, kind: pa.DataType, bodies: list[bytes]
) -> None:
    values, errors = decoder.decode(pa.array(bodies, pa.binary()))
    assert values.type == kind
    assert len(values) == len(bodies)
    values.validate(full=True)
    assert_promised(values, pa.field("value", kind))
    assert set(errors) <= set(range(len(bodies)))
    for row, body in enumerate(bodies):
        assert values[row].is_valid is not (row in errors or is_null(value_format, body))
    assert all(reason and reason.encode() for reason in errors.values())


@proves("value-fits-schema")
@pytest.mark.parametrize("value_format", FORMATS)
def test_every_odd_value_fits_or_has_a_reason_wherever_it_stands(value_format: ValueFormat) -> None:
    dump = as_msgpack if value_format is ValueFormat.MSGPACK else as_escaped_json
    past = PAST_64_BITS if value_format is ValueFormat.JSON else []
    odd = [None, *ODD_TEXTS, *ODD_NUMBERS, *NOT_FINITE, *past]
    shapes = [place(value) for value in odd for place in PLACES]
    bodies = [dump({"f": shape}) for shape in shapes]
    for kind, decoder in DECODERS[value_format]:
        assert_values_or_reasons(value_format, decoder, kind, bodies)


@proves("value-fits-schema")
@pytest.mark.parametrize("value_format", FORMATS)
@given(data=st.data())
def test_a_body_is_a_value_of_its_type_or_has_a_reason(
    value_format: ValueFormat, data: st.DataObject
) -> None:
    bodies = data.draw(st.lists(bodies_of(value_format), max_size=4))
    for kind, decoder in DECODERS[value_format]:
        assert_values_or_reasons(value_format, decoder, kind, bodies)


@given(st.lists(st.binary(max_size=40), max_size=10))
@example([b"\xed\xa0\x80"])
def test_text_is_a_value_or_has_a_reason(bodies: list[bytes]) -> None:
    decoder = ValueDecoder(ValueFormat.STRING, pa.string())
    assert_values_or_reasons(ValueFormat.STRING, decoder, pa.string(), bodies)
