"""The stamp of an idempotent send: which message of which stream this is.

    RMQO_STAMP = sink/batch/partition/sequence/digest

Sequences count from 0 per (sink, partition, queue, batch). The digest is the client's own, over
what it has sent of the batch so far; brokers compare it and do not know how it is made. Pure: no
hashing here, no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.model import LandedStamp, MessageQueue, SendStream
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand

STAMP_PROPERTY: Final = "RMQO_STAMP"
# Eighteen digits fit a signed 64-bit number with room to count on.
_NUMBER: Final = "(0|[1-9][0-9]{0,17})"
_SINK: Final = "[A-Za-z0-9_.-]{1,64}"
_STAMP: Final = re.compile(f"({_SINK})/{_NUMBER}/{_NUMBER}/{_NUMBER}/([0-9a-f]{{16}})", re.ASCII)
_LARGEST_NUMBER: Final = 10**18 - 1
_LARGEST_DIGEST: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SendStamp:
    """One message of a stream of sends.

    Attributes:
        sink: who sends; 1 to 64 of the characters A-Z a-z 0-9 _ . -
        batch: rises for ever within a sink.
        partition: which of the sink's writers.
        sequence: counts from 0 per queue and batch.
        digest: 64 bits that depend on everything up to this message.
    """

    sink: str
    batch: int
    partition: int
    sequence: int
    digest: int


def format_stamp(stamp: SendStamp) -> str:
    """The value of the message property.

    Raises:
        LocalProtocolError: a broker would refuse it.
    """
    if re.fullmatch(_SINK, stamp.sink, re.ASCII) is None:
        raise LocalProtocolError(f"a sink is 1 to 64 of A-Z a-z 0-9 _ . -, found {stamp.sink!r}")
    for name in ("batch", "partition", "sequence"):
        number = getattr(stamp, name)
        if not 0 <= number <= _LARGEST_NUMBER:
            raise LocalProtocolError(
                f"the {name} of a stamp is 0 to {_LARGEST_NUMBER}, found {number}"
            )
    if not 0 <= stamp.digest <= _LARGEST_DIGEST:
        raise LocalProtocolError(f"the digest of a stamp has 64 bits, found {stamp.digest}")
    return f"{stamp.sink}/{stamp.batch}/{stamp.partition}/{stamp.sequence}/{stamp.digest:016x}"


def parse_stamp(text: str) -> SendStamp:
    """The stamp in a message property.

    Raises:
        RemoteProtocolError: the text is not exactly a stamp.
    """
    match = _STAMP.fullmatch(text)
    if match is None:
        raise RemoteProtocolError(
            f"a stamp is sink/batch/partition/sequence/digest, found {text[:120]!r}"
        )
    sink, batch, partition, sequence, digest = match.groups()
    return SendStamp(sink, int(batch), int(partition), int(sequence), int(digest, 16))


def stamp_prefix(stream: SendStream) -> str:
    """Everything of a stream's stamps before the sequence.

    Raises:
        LocalProtocolError: a broker would refuse it.
    """
    whole = format_stamp(SendStamp(stream.sink, stream.batch, stream.partition, 0, 0))
    return whole[: -len("0/0000000000000000")]


def stamp_pattern(stream: SendStream) -> str:
    """A regular expression for stamps of this sink and partition, whatever the batch.

    Its groups are ``batch``, ``sequence`` and ``digest``; it can be used on whole columns.
    """
    sink = stream.sink.replace(".", "[.]")
    return (
        f"^{sink}/(?P<batch>[0-9]{{1,18}})/{stream.partition}/(?P<sequence>[0-9]{{1,18}})"
        "/(?P<digest>[0-9a-f]{16})$"
    )


def send_stream_request(queue: MessageQueue, stream: SendStream) -> RemotingCommand:
    """GET_SEND_STREAM: what is the last message of this sink and partition in the queue?"""
    fields = {
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "sink": stream.sink,
        "partition": str(stream.partition),
    }
    return RemotingCommand(RequestCode.GET_SEND_STREAM, ext_fields=fields)


def parse_landed(response: RemotingCommand) -> LandedStamp | None:
    """The last message of the stream, if the answer tells it.

    Raises:
        RemoteProtocolError: it tells only half, or the digest is none.
    """
    fields = response.ext_fields or {}
    if "lastSequence" not in fields:
        return None
    digest = response.ext("lastDigest")
    if re.fullmatch("[0-9a-f]{16}", digest, re.ASCII) is None:
        raise RemoteProtocolError(f"a digest has 16 hexadecimal digits, found {digest[:40]!r}")
    return LandedStamp(
        batch=response.ext_int("lastBatch"),
        sequence=response.ext_int("lastSequence"),
        digest=int(digest, 16),
        queue_offset=response.ext_int("lastOffset"),
    )
