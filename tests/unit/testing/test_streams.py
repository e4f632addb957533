"""The double's memory of stamped sends, along the table of docs/wire-protocol.md."""

import pytest

from rmq_ordered.model import LandedStamp, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.stamps import STAMP_PROPERTY, SendStamp, format_stamp
from rmq_ordered.testing.streams import StampedSend, StreamTable

QUEUE = MessageQueue("orders", "broker-a", 0)


def messages(batch: int, *sequences: int, shift: int = 0) -> list[OutgoingMessage]:
    stamps = [SendStamp("sink", batch, 0, number, number + shift) for number in sequences]
    return [OutgoingMessage(b"", {STAMP_PROPERTY: format_stamp(stamp)}) for stamp in stamps]


def table(last: int | None) -> StreamTable:
    known = {} if last is None else {(QUEUE, "sink", 0): LandedStamp(5, last, last, 100)}
    return StreamTable(known)


def judge(last: int | None, given: list[OutgoingMessage]) -> StampedSend | int | None:
    verdict = table(last).judge(QUEUE, given)
    return verdict.code if isinstance(verdict, RemotingCommand) else verdict


@pytest.mark.parametrize(
    ("last", "given", "landed"),
    [
        (None, messages(5, 0, 1), 0),
        (3, messages(5, 4, 5), 0),
        (3, messages(5, 3, 4), 1),
        (3, messages(5, 0, 1), 2),
        (3, messages(6, 0), 0),
    ],
)
def test_what_is_there_already_is_counted(
    last: int | None, given: list[OutgoingMessage], landed: int
) -> None:
    verdict = judge(last, given)
    assert isinstance(verdict, StampedSend)
    assert verdict.landed == landed


@pytest.mark.parametrize(
    ("last", "given", "code"),
    [
        (None, messages(5, 1), ResponseCode.STREAM_UNKNOWN),
        (3, messages(5, 5), ResponseCode.SEQUENCE_GAP),
        (3, messages(6, 1), ResponseCode.SEQUENCE_GAP),
        (3, messages(4, 0), ResponseCode.STALE_BATCH),
        (3, messages(5, 3, 4, shift=1), ResponseCode.REPLAY_DIVERGED),
        (3, [*messages(5, 4), OutgoingMessage(b"")], ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_what_does_not_fit_is_refused(
    last: int | None, given: list[OutgoingMessage], code: ResponseCode
) -> None:
    assert judge(last, given) == code


def test_messages_without_stamps_are_not_judged() -> None:
    assert judge(3, [OutgoingMessage(b"")]) is None


@pytest.mark.parametrize(
    ("sequences", "duplicate", "last_sequence"),
    [((4, 5), "false", "5"), ((3, 4), "partial", "4"), ((2, 3), "true", "3")],
)
def test_the_answer_tells_what_was_new(
    sequences: tuple[int, ...], duplicate: str, last_sequence: str
) -> None:
    streams = table(3)
    verdict = streams.judge(QUEUE, messages(5, *sequences))
    assert isinstance(verdict, StampedSend)
    fields = streams.landed(verdict, 120)
    assert (fields["duplicate"], fields["lastSequence"]) == (duplicate, last_sequence)
    assert fields["lastOffset"] == ("100" if duplicate == "true" else "120")
