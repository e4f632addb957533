"""The memory of stamped sends that the embedded broker has, for the broker double."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import LandedStamp, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.stamps import STAMP_PROPERTY, SendStamp, format_stamp, parse_stamp
from rmq_ordered.testing.storage import split_batch

StreamKey = tuple[MessageQueue, str, int]


@dataclass(frozen=True, slots=True)
class StampedSend:
    """The stamps of one request, and how many of its messages are there already."""

    key: StreamKey
    stamps: Sequence[SendStamp]
    landed: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of a send, and their stamps if these came with the request."""

    messages: list[OutgoingMessage]
    stamps: list[SendStamp] | None = None

    @classmethod
    def of(cls, request: RemotingCommand) -> Batch:
        """The messages of SEND_BATCH_MESSAGE.

        Raises:
            RemoteProtocolError: the stamp in the header is none.
        """
        fields = request.ext_fields or {}
        if "stamp" not in fields:
            return cls(split_batch(request.body))
        count = request.ext_int("digests")
        end = len(request.body) - 8 * count
        digests = struct.unpack_from(f">{count}Q", request.body, end)
        first = parse_stamp(f"{fields['stamp']}/{0:016x}")
        stamps = [
            replace(first, sequence=first.sequence + number, digest=digest)
            for number, digest in enumerate(digests)
        ]
        messages = split_batch(request.body[:end])
        if len(messages) != count:
            raise RemoteProtocolError(f"{count} digests for {len(messages)} messages")
        return cls(messages, stamps)

    def after(self, landed: int) -> list[OutgoingMessage]:
        """The messages to store: the last one carries the stamp of a stamped request."""
        rest = self.messages[landed:]
        if self.stamps is not None and rest:
            text = f"{format_stamp(self.stamps[-1])}/{len(rest)}"
            properties = {**rest[-1].properties, STAMP_PROPERTY: text}
            rest[-1] = replace(rest[-1], properties=properties)
        return rest


@dataclass(slots=True)
class StreamTable:
    """The last stamp of every stream. ``docs/wire-protocol.md`` has the table of outcomes."""

    last: dict[StreamKey, LandedStamp] = field(default_factory=dict)

    def judge(self, queue: MessageQueue, batch: Batch) -> StampedSend | RemotingCommand | None:
        """What to append, or a refusal; None when the messages have no stamps."""
        texts = [message.properties.get(STAMP_PROPERTY) for message in batch.messages]
        if not any(texts) and batch.stamps is None:
            return None
        try:
            stamps = batch.stamps or [parse_stamp(text or "") for text in texts]
        except RemoteProtocolError as error:
            return RemotingCommand(ResponseCode.MESSAGE_ILLEGAL, remark=str(error))
        first = stamps[0]
        key = (queue, first.sink, first.partition)
        last = self.last.get(key)
        if last is None or first.batch > last.batch:
            if first.sequence == 0:
                return StampedSend(key, stamps, 0)
            code = ResponseCode.STREAM_UNKNOWN if last is None else ResponseCode.SEQUENCE_GAP
            return refusal(code, last)
        if first.batch < last.batch:
            return refusal(ResponseCode.STALE_BATCH, last)
        if first.sequence > last.sequence + 1:
            return refusal(ResponseCode.SEQUENCE_GAP, last)
        for stamp in stamps:
            if stamp.sequence == last.sequence and stamp.digest != last.digest:
                return refusal(ResponseCode.REPLAY_DIVERGED, last)
        return StampedSend(key, stamps, min(len(stamps), last.sequence + 1 - first.sequence))

    def landed(self, send: StampedSend, last_offset: int) -> dict[str, str]:
        """Note what was appended; returns the fields of the answer."""
        if send.landed < len(send.stamps):
            end = send.stamps[-1]
            self.last[send.key] = LandedStamp(end.batch, end.sequence, end.digest, last_offset)
        kinds = {0: "false", len(send.stamps): "true"}
        return {
            "duplicate": kinds.get(send.landed, "partial"),
            "landed": str(send.landed),
            **landed_fields(self.last[send.key]),
        }


def landed_fields(last: LandedStamp) -> dict[str, str]:
    """The last message of a stream as header fields."""
    return {
        "lastBatch": str(last.batch),
        "lastSequence": str(last.sequence),
        "lastDigest": f"{last.digest:016x}",
        "lastOffset": str(last.queue_offset),
    }


def refusal(code: ResponseCode, last: LandedStamp | None) -> RemotingCommand:
    """An answer to a stamped send that was not appended."""
    fields = None if last is None else landed_fields(last)
    return RemotingCommand(code, ext_fields=fields, remark=code.name)
