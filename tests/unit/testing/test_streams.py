"""The double's memory of stamped sends, along the table of docs/wire-protocol.md."""

import struct

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import LandedStamp, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import encode_batch
from rmq_ordered.protocol.sends import send_stamped_request
from rmq_ordered.protocol.stamps import STAMP_PROPERTY, SendStamp, format_stamp
from rmq_ordered.testing.streams import Batch, StampedSend, StreamTable

QUEUE = MessageQueue("orders", "broker-a", 0)


def messages(batch: int, *sequences: int, shift: int = 0) -> list[OutgoingMessage]:
    stamps = [SendStamp("sink", batch, 0, number, number + shift) for number in sequences]
    return [OutgoingMessage(b"", {STAMP_PROPERTY: format_stamp(stamp)}) for stamp in stamps]


def request(batch: bytes, stamp: str, *digests: int) -> RemotingCommand:
    return send_stamped_request(
        QUEUE,
        batch + struct.pack(f">{len(digests)}Q", *digests),
        stamp,
        len(digests),
        producer_group="g",
        born_ms=1,
    )


def table(last: int | None) -> StreamTable:
    known = {} if last is None else {(QUEUE, "sink", 0): LandedStamp(5, last, last, 100)}
    return StreamTable(known)


def judge(last: int | None, given: list[OutgoingMessage]) -> StampedSend | int | None:
    verdict = table(last).judge(QUEUE, Batch(given))
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
    verdict = streams.judge(QUEUE, Batch(messages(5, *sequences)))
    assert isinstance(verdict, StampedSend)
    fields = streams.landed(verdict, 120)
    assert (fields["duplicate"], fields["lastSequence"]) == (duplicate, last_sequence)
    assert fields["lastOffset"] == ("100" if duplicate == "true" else "120")


def test_a_stamp_in_the_header_stands_for_all_messages_and_is_stored_once() -> None:
    bare = [OutgoingMessage(b"a", {}), OutgoingMessage(b"b", {}), OutgoingMessage(b"c", {})]
    batch = Batch.of(request(encode_batch(bare), "sink/5/0/3", 3, 4, 5))
    verdict = table(3).judge(QUEUE, batch)
    assert isinstance(verdict, StampedSend)
    assert verdict.landed == 1
    kept = batch.after(verdict.landed)
    assert [message.body for message in kept] == [b"b", b"c"]
    assert [message.properties.get(STAMP_PROPERTY) for message in kept] == [
        None,
        "sink/5/0/5/0000000000000005/2",
    ]
    assert batch.after(3) == []


@pytest.mark.parametrize(("stamp", "digests"), [("sink/5/0", 1), ("sink/5/0/0", 2)])
def test_a_request_that_is_not_stamped_well_is_no_batch(stamp: str, digests: int) -> None:
    alone = encode_batch([OutgoingMessage(b"a" * 40, {}), OutgoingMessage(b"b", {})])
    with pytest.raises(RemoteProtocolError):
        Batch.of(request(alone, stamp, *range(digests + 1)))
