import pyarrow as pa
import pytest
from tests.unit.columnar.samples import parsed_properties

from rmq_ordered.columnar.alike import AlikeProperties
from rmq_ordered.columnar.properties import Properties
from rmq_ordered.protocol.properties import decode_properties

ODD = [
    b"",
    b"\x02",
    b"\x01",
    b"\x02\x02\x01\x01\x02\x01",
    b"TAGS\x01a",
    b"TAGS\x01a\x02TAGS\x01b\x02",
    b"TAGS\x01a\x02TAGS\x01\x02",
    b"TAGS\x01a\x01b\x02KEYS\x01\x01\x02",
    b"\x01TAGS\x01a\x02",
    b"TAGS",
    b"TAG\x01x\x02TAGSS\x01y\x02tags\x01z\x02",
    b"TAGS\x00\x01nul\x02",
    b"TAGS\x01\xff\xfe\x02",
    b"\xe4\xb8\x01a\x02\xff\x01b\x02TAGS\x01\xc3\x02",
    "标签\x01值\x02TAGS\x01😀\x02".encode(),
]


def maps(properties: Properties | AlikeProperties) -> list[dict[str, str]]:
    column = properties.as_map()
    column.validate(full=True)
    found = column.to_pylist()
    assert [len(dict(row)) for row in found] == [len(row) for row in found]
    return [dict(row) for row in found]


@pytest.mark.parametrize("raw", ODD, ids=repr)
def test_odd_properties_are_read_as_the_reference_reads_them(raw: bytes) -> None:
    expected = decode_properties(raw)
    for before, after in ((b"", b""), (b"TAGS\x01x", b"TAGS\x01y\x02")):
        properties = parsed_properties(before, raw, after)
        assert maps(properties)[1] == expected
        for name in ("TAGS", "KEYS", "\ufffd", "标签"):
            column = properties.select(name)
            column.validate(full=True)
            assert column.to_pylist()[1] == expected.get(name)


def test_rows_do_not_run_into_one_another() -> None:
    properties = parsed_properties(*ODD)
    assert maps(properties) == [decode_properties(raw) for raw in ODD]
    assert properties.select("TAGS").to_pylist() == [
        decode_properties(raw).get("TAGS") for raw in ODD
    ]


def test_as_many_values_as_rows_need_not_be_one_in_each() -> None:
    properties = parsed_properties(b"TAGS\x01a\x02TAGS\x01b\x02", b"")
    assert properties.select("TAGS").to_pylist() == ["b", None]


def test_a_property_that_no_row_has_is_null_in_all() -> None:
    column = parsed_properties(b"a\x011\x02", b"").select("TAGS")
    assert column.to_pylist() == [None, None]
    assert column.type == pa.string()


@pytest.mark.parametrize("name", ["", "x" * 40_000, "a\x01"])
def test_a_name_that_cannot_occur_is_found_nowhere(name: str) -> None:
    assert parsed_properties(b"a\x011\x02").select(name).to_pylist() == [None]


def test_properties_may_fill_their_length_field() -> None:
    raw = b"k\x01" + b"v" * 32_765
    assert maps(parsed_properties(raw, raw)) == [{"k": "v" * 32_765}] * 2


def test_rows_without_properties_have_an_empty_map_not_null() -> None:
    column = parsed_properties(b"", b"").as_map()
    assert column.to_pylist() == [[], []]
    assert column.null_count == 0
