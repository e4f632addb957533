"""Stamps as text: one spelling each, nothing else accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.protocol.stamps import SendStamp, format_stamp, parse_stamp

NUMBERS = st.integers(0, 10**18 - 1)
SINKS = st.text("abcXYZ019_.-", min_size=1, max_size=64)
STAMPS = st.builds(SendStamp, SINKS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2**64 - 1))


@given(STAMPS)
def test_a_stamp_survives_the_round_trip(stamp: SendStamp) -> None:
    assert parse_stamp(format_stamp(stamp)) == stamp


def test_a_stamp_is_written_as_documented() -> None:
    assert format_stamp(SendStamp("sink-1", 7, 3, 42, 255)) == "sink-1/7/3/42/00000000000000ff"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sink/1/2/3",
        "sink/1/2/3/0123456789abcdef/x",
        "sink/1/2/3/0123456789abcdef\n",
        "/1/2/3/0123456789abcdef",
        "si nk/1/2/3/0123456789abcdef",
        "sink/-1/2/3/0123456789abcdef",
        "sink/01/2/3/0123456789abcdef",
        "sink/1/2/1234567890123456789/0123456789abcdef",
        "sink/1/2/3/0123456789ABCDEF",
        "sink/1/2/٣/0123456789abcdef",
        "s" * 65 + "/1/2/3/0123456789abcdef",
    ],
)
def test_what_is_not_exactly_a_stamp_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="sink/batch/partition/sequence/digest"):
        parse_stamp(text)


@given(st.text(max_size=60))
def test_garbage_is_refused_and_never_crashes(text: str) -> None:
    try:
        stamp = parse_stamp(text)
    except RemoteProtocolError:
        return
    assert format_stamp(stamp) == text


@pytest.mark.parametrize(
    "stamp",
    [
        SendStamp("", 0, 0, 0, 0),
        SendStamp("a/b", 0, 0, 0, 0),
        SendStamp("s", -1, 0, 0, 0),
        SendStamp("s", 0, 10**18, 0, 0),
        SendStamp("s", 0, 0, 0, 2**64),
    ],
)
def test_a_stamp_that_a_broker_would_refuse_is_not_written(stamp: SendStamp) -> None:
    with pytest.raises(LocalProtocolError):
        format_stamp(stamp)
