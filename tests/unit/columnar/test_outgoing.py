"""Columns to properties: what is written, what is dropped, what is refused with the row's key."""

from typing import Any

import pyarrow as pa
import pytest

from rmq_ordered.columnar.outgoing import rows_from_columns, rows_from_messages
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import OutgoingMessage

MAP = pa.map_(pa.string(), pa.string())


def batch(**columns: Any) -> pa.RecordBatch:
    made = {
        name: pa.array(values, MAP if name == "properties" else None)
        for name, values in columns.items()
    }
    return pa.record_batch(made)


def test_columns_become_properties_and_null_means_absent() -> None:
    rows = rows_from_columns(
        batch(
            value=[b"a", b"b", b"c"],
            key=["k1", None, ""],
            tags=[None, "t", "t"],
            index_keys=["i", None, None],
            properties=[[("x", "1"), ("y", "2")], None, []],
        )
    )
    assert rows.bodies.to_pylist() == [b"a", b"b", b"c"]
    assert rows.properties.to_pylist() == [
        b"x\x011\x02y\x012\x02KEYS\x01i\x02__SHARDINGKEY\x01k1\x02",
        b"TAGS\x01t\x02",
        b"TAGS\x01t\x02__SHARDINGKEY\x01\x02",
    ]
    assert len(rows) == 3
    assert rows.nbytes == rows.content_bytes.sum() == 3 + sum(map(len, rows.properties.to_pylist()))


def test_values_alone_have_no_properties_and_may_be_text() -> None:
    rows = rows_from_columns(batch(value=["grün", ""]))
    assert rows.bodies.to_pylist() == ["grün".encode(), b""]
    assert rows.properties.to_pylist() == [b"", b""]


def test_large_strings_and_slices_are_taken_as_they_are() -> None:
    keys = pa.array(["x", "a", "b"], pa.large_string())
    whole = pa.record_batch({"value": pa.array([b"0", b"1", b"2"], pa.large_binary()), "key": keys})
    rows = rows_from_columns(whole.slice(1))
    assert rows.bodies.to_pylist() == [b"1", b"2"]
    assert rows.properties.to_pylist() == [b"__SHARDINGKEY\x01a\x02", b"__SHARDINGKEY\x01b\x02"]
    assert (
        rows.hashes().tolist()
        == rows_from_columns(batch(value=[b"1", b"2"], key=["a", "b"])).hashes().tolist()
    )


def test_what_belongs_to_the_message_that_was_read_is_dropped() -> None:
    copied = [("UNIQ_KEY", "old"), ("RMQO_STAMP", "s/1/2/3/x"), ("WAIT", "true"), ("kept", "1")]
    rows = rows_from_columns(batch(value=[b"a", b"b"], properties=[copied, copied[:1]]))
    assert rows.properties.to_pylist() == [b"kept\x011\x02", b""]
    (message,) = rows_from_messages([OutgoingMessage(b"a", dict(copied))]).properties.to_pylist()
    assert message == b"kept\x011\x02"


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"value": [b"x", None]}, "the row with key 'k2' has the value null"),
        ({"value": [b"x", bytes(5_000_000)]}, "5000000 bytes with key 'k2' is over RocketMQ's"),
        ({"value": [b"x", b"y"], "tags": ["t", "a\x01b"]}, "tags of the row with key 'k2' holds"),
        ({"value": [b"x", b"y"], "tags": ["t", "a\x02b"]}, "0x01 or 0x02.*a.x02b"),
        ({"value": [b"x", b"y"], "tags": ["t", "x" * 40_000]}, "key 'k2' take 40"),
        (
            {"value": [b"x", b"y"], "properties": [[], [("a", None)]]},
            "key 'k2' has null for the property 'a'",
        ),
        ({"value": [b"x", b"y"], "properties": [[], [("", "v")]]}, "'k2' has a property with an"),
        ({"value": [b"x", b"y"], "properties": [None, [("a", "\x02")]]}, "properties of the row"),
        ({"value": [b"x", b"y"], "properties": [[], [("DELAY", "3")]]}, "'k2' has the property"),
    ],
)
def test_a_row_that_cannot_be_sent_is_refused_with_its_key(
    columns: dict[str, list[Any]], sentence: str
) -> None:
    with pytest.raises(LocalProtocolError, match=sentence):
        rows_from_columns(batch(**columns, key=["k1", "k2"]))


def test_a_separator_outside_the_slice_is_nobody_s_business() -> None:
    whole = batch(value=[b"x", b"y"], tags=["a\x01b", "ok"])
    assert rows_from_columns(whole.slice(1)).properties.to_pylist() == [b"TAGS\x01ok\x02"]


def test_a_row_without_a_key_is_named_null() -> None:
    with pytest.raises(LocalProtocolError, match="the row with key null"):
        rows_from_columns(batch(value=[b"x"], tags=["\x01"]))


def test_messages_are_rows_with_the_same_hashes() -> None:
    messages = [
        OutgoingMessage(b"a", {"TAGS": "t", "__SHARDINGKEY": "k"}),
        OutgoingMessage(b"b", {"__SHARDINGKEY": "k"}),
    ]
    columns = batch(value=[b"a", b"b"], key=["k", "k"], tags=["t", None])
    assert (
        rows_from_messages(messages).hashes().tolist()
        == rows_from_columns(columns).hashes().tolist()
    )


def test_a_message_that_lands_later_is_refused() -> None:
    late = OutgoingMessage(b"a", {"DELAY": "1", "__SHARDINGKEY": "k"})
    with pytest.raises(LocalProtocolError, match="key 'k' has the property 'DELAY'"):
        rows_from_messages([late])


def test_rows_can_be_sliced() -> None:
    rows = rows_from_messages([OutgoingMessage(bytes([n]), {"n": str(n)}) for n in range(4)])
    part = rows.slice(1, 3)
    assert part.bodies.to_pylist() == [b"\1", b"\2"]
    assert part.properties.to_pylist() == [b"n\x011\x02", b"n\x012\x02"]
    assert part.hashes().tolist() == rows.hashes().tolist()[1:3]


def test_the_first_rows_key_can_be_told() -> None:
    rows = rows_from_columns(pa.record_batch({"key": ["ä", "b"], "value": ["x", "y"]}))
    assert rows.first_key == "ä"
    assert rows.slice(1, 2).first_key == "b"
    assert rows.slice(2, 2).first_key is None
    assert rows_from_columns(pa.record_batch({"value": ["x"]})).first_key is None
