import pytest
from tests.unit.columnar.samples import parsed_properties

from rmq_ordered.columnar.alike import AlikeProperties
from rmq_ordered.columnar.properties import Properties
from rmq_ordered.protocol.properties import decode_properties

ALIKE = [
    [b"TAGS\x01a\x02", b"TAGS\x01bcd\x02", b"TAGS\x01e"],
    [b"KEYS\x01k1\x02__SHARDINGKEY\x01order-1\x02", b"KEYS\x01k\x02__SHARDINGKEY\x01o\x02"],
    ["标签\x01值\x02n\x01😀\x02".encode(), "标签\x01v\x02n\x01w\x02".encode()],
    [b"a\x01x\x01y\x02", b"a\x01z\x02"],
]
NOT_ALIKE = [
    [b"TAGS\x01a\x02", b"KEYS\x01b\x02"],
    [b"TAGS\x01a\x02", b"TAGSS\x01b\x02"],
    [b"TAGS\x01a\x02", b""],
    [b"a\x011\x02b\x012\x02", b"b\x011\x02a\x012\x02"],
    [b"a\x011\x02a\x012\x02", b"a\x013\x02a\x014\x02"],
    [b"a\x01\x02", b"a\x01\x02"],
    [b"\x01x\x02", b"\x01y\x02"],
    [b"\x02a\x011\x02", b"\x02a\x012\x02"],
    [b"a\x011\x02b\x012\x02c\x013\x02", b"a\x011\x02"],
    [b"", b""],
    [b"__SHARDINGKEY\x01a\x02", b"__SHARDINGKEX\x01b\x02"],
    [b"__SHARDINGKEY\x01a\x02", b"_-SHARDINGKEY\x01b\x02"],
]


def ensure_same_as_reference(properties: Properties | AlikeProperties, raws: list[bytes]) -> None:
    expected = [decode_properties(raw) for raw in raws]
    column = properties.as_map()
    column.validate(full=True)
    assert [dict(row) for row in column.to_pylist()] == expected
    for name in {name for row in expected for name in row} | {"absent", "TAGS", ""}:
        values = properties.select(name)
        values.validate(full=True)
        assert values.to_pylist() == [row.get(name) for row in expected]


@pytest.mark.parametrize("raws", ALIKE, ids=repr)
def test_rows_with_the_same_names_are_read_by_place(raws: list[bytes]) -> None:
    properties = parsed_properties(*raws)
    assert isinstance(properties, AlikeProperties)
    ensure_same_as_reference(properties, raws)


@pytest.mark.parametrize("raws", NOT_ALIKE, ids=repr)
def test_rows_that_differ_in_any_name_are_not_taken_for_alike(raws: list[bytes]) -> None:
    properties = parsed_properties(*raws)
    assert isinstance(properties, Properties)
    ensure_same_as_reference(properties, raws)
