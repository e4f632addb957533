import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.cli.send import BadLine, chunks_of_lines, parse_lines


class Trickle(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self._step)


@given(st.binary(), st.integers(1, 7))
def test_lines_do_not_depend_on_how_the_bytes_come_in(data: bytes, step: int) -> None:
    whole = data.removesuffix(b"\n").split(b"\n") if data else []
    lines = [line for chunk in chunks_of_lines(Trickle(data, step)) for line in chunk]
    assert lines == whole


def test_a_line_is_given_out_before_the_next_one_comes() -> None:
    chunks = chunks_of_lines(Trickle(b"a\t1\nb\t2\n", 4))
    assert next(chunks) == [b"a\t1"]


def test_a_value_may_hold_tabs_and_any_bytes_and_a_key_may_be_empty() -> None:
    lines = [b"k\tv\tw\xff", b"\tvalue", b"k\t"]
    assert list(parse_lines(lines, 0)) == [
        (1, "k", b"v\tw\xff"),
        (2, "", b"value"),
        (3, "k", b""),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"no tab", "found no tab"),
        (b"", "found no tab"),
        (b"\xff\tvalue", "a key in UTF-8"),
        (b"a\x01b\tvalue", "without the bytes 0x01 and 0x02"),
        (b"a\x02b\tvalue", "without the bytes 0x01 and 0x02"),
    ],
)
def test_a_bad_line_is_named_by_its_number_in_the_whole_input(line: bytes, expected: str) -> None:
    with pytest.raises(BadLine) as error:
        list(parse_lines([b"good\tline", line], 40))
    assert error.value.number == 42
    assert expected in error.value.expected
