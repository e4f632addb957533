import pytest

from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.protocol.properties import (
    MAX_PROPERTIES_BYTES,
    decode_properties,
    encode_properties,
)


def test_properties_are_written_in_order_and_each_is_closed() -> None:
    assert (
        encode_properties({"b": "1", "a": "标签"}) == b"b\x011\x02a\x01" + "标签".encode() + b"\x02"
    )


def test_no_properties_are_no_bytes() -> None:
    assert encode_properties({}) == b""
    assert decode_properties(b"") == {}


def test_an_empty_value_is_written_as_java_does_and_not_read_back() -> None:
    assert encode_properties({"a": "", "b": "1"}) == b"a\x01\x02b\x011\x02"
    assert decode_properties(b"a\x01\x02b\x011\x02") == {"b": "1"}


@pytest.mark.parametrize("separator", ["\x01", "\x02"])
@pytest.mark.parametrize(
    ("properties", "part"),
    [({"ok": "1", "k{}y": "v"}, "name"), ({"ok": "1", "key": "v{}"}, "value")],
)
def test_a_separator_inside_a_property_is_refused_by_name(
    separator: str, properties: dict[str, str], part: str
) -> None:
    spoiled = {n.format(separator): v.format(separator) for n, v in properties.items()}
    name = list(spoiled)[1]
    with pytest.raises(LocalProtocolError) as refusal:
        encode_properties(spoiled)
    assert f"the {part} of property {name!r} holds byte 0x01 or 0x02" in str(refusal.value)


def test_separators_that_balance_out_are_still_refused() -> None:
    with pytest.raises(LocalProtocolError, match="'a'"):
        encode_properties({"a": "1\x02b\x012"})


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="value 'lost' has an empty name"):
        encode_properties({"ok": "1", "": "lost"})


@pytest.mark.parametrize("properties", [{"\ud800": "v"}, {"k": "\udfff"}])
def test_text_without_a_utf8_form_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError, match="lone surrogate"):
        encode_properties(properties)


def test_a_null_is_not_written_as_text() -> None:
    with pytest.raises(TypeError):
        encode_properties({"k": None})  # type: ignore[dict-item]


def test_properties_may_fill_the_length_field_but_not_more() -> None:
    fits = MAX_PROPERTIES_BYTES - len("k\x01\x02")
    assert len(encode_properties({"k": "v" * fits})) == MAX_PROPERTIES_BYTES
    with pytest.raises(LocalProtocolError, match="'k' take 32768 bytes"):
        encode_properties({"k": "v" * (fits + 1)})


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (b"a\x011\x02b\x012", {"a": "1", "b": "2"}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x011\x012\x02", {"a": "1\x012"}),
        (b"no separator\x02\x01no name\x02\x02\x02a\x01", {}),
        (b"a\x01\xff\x02\xe4\xb8\x01b\x02", {"a": "\ufffd", "\ufffd": "b"}),
    ],
    ids=["no last separator", "later wins", "value with 0x01", "not properties", "not UTF-8"],
)
def test_odd_properties_are_read_as_java_reads_them(
    encoded: bytes, expected: dict[str, str]
) -> None:
    assert decode_properties(encoded) == expected
