"""Stamps as text: one spelling each, nothing else accepted."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.model import LandedStamp, MessageQueue, SendStream
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.stamps import (
    SendStamp,
    format_stamp,
    parse_landed,
    parse_stamp,
    send_stream_request,
    stamp_pattern,
    stamp_prefix,
)

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


@given(STAMPS)
def test_a_stamp_begins_with_the_prefix_of_its_stream(stamp: SendStamp) -> None:
    stream = SendStream(stamp.sink, stamp.batch, stamp.partition)
    rest = f"{stamp.sequence}/{stamp.digest:016x}"
    assert stamp_prefix(stream) + rest == format_stamp(stamp)
    match = re.match(stamp_pattern(stream), format_stamp(stamp))
    assert match is not None
    assert int(match["sequence"]) == stamp.sequence


def test_the_pattern_takes_any_batch_but_no_other_sink_or_partition() -> None:
    pattern = re.compile(stamp_pattern(SendStream("a.b", 1, 2)))
    digest = "0" * 16
    assert pattern.match(f"a.b/9/2/0/{digest}")
    for other in (f"axb/1/2/0/{digest}", f"a.b/1/22/0/{digest}", f"xa.b/1/2/0/{digest}"):
        assert pattern.match(other) is None


def test_a_broker_is_asked_for_the_last_message_of_a_stream() -> None:
    request = send_stream_request(MessageQueue("t", "b", 3), SendStream("sink", 7, 2))
    assert request.code == RequestCode.GET_SEND_STREAM
    assert request.ext_fields == {"topic": "t", "queueId": "3", "sink": "sink", "partition": "2"}


LAST = {"lastBatch": "7", "lastSequence": "9", "lastDigest": "00000000000000ff", "lastOffset": "4"}


def test_an_answer_tells_the_last_message_or_nothing() -> None:
    assert parse_landed(RemotingCommand(0, ext_fields=LAST)) == LandedStamp(7, 9, 255, 4)
    assert parse_landed(RemotingCommand(0, ext_fields={"queueOffset": "1"})) is None
    assert parse_landed(RemotingCommand(0)) is None


@pytest.mark.parametrize("name", ["lastBatch", "lastDigest", "lastOffset"])
@pytest.mark.parametrize("value", [None, "x"])
def test_half_an_answer_is_refused(name: str, value: str | None) -> None:
    fields = {key: text for key, text in LAST.items() if key != name}
    if value is not None:
        fields[name] = value
    with pytest.raises(RemoteProtocolError):
        parse_landed(RemotingCommand(0, ext_fields=fields))
