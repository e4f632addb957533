"""What of a stream a queue holds, found by reading the queue back from a floor.

For brokers that cannot be asked. Two things remain that reading cannot find out: a request that the
broker appends after it was read back, and a second live attempt of the same stream.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.client.connection import Client
from rmq_ordered.client.reader import QueueReader, ReadPlan
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.errors import AccessDenied, BrokerBusy, OffsetOutOfRange
from rmq_ordered.model import LandedStamp, MessageQueue, QueueRange
from rmq_ordered.protocol.answers import accepted
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.groups import max_offset_request
from rmq_ordered.protocol.properties import PROPERTY_UNIQ_KEY
from rmq_ordered.protocol.runtime import LogProgress, parse_log_progress, runtime_request
from rmq_ordered.protocol.stamps import STAMP_PROPERTY

# RocketMQ builds its consume queues a moment after the append; more than this is a broken broker.
_DISPATCH_MS: Final = 30_000
_DISPATCH_PAUSE_MS: Final = 50
# Who may not ask the broker how far it is waits this long: as a rule it is far less behind.
_UNTOLD_MS: Final = 1_000

_LOG: Final = logging.getLogger("rmq_ordered.client")


@dataclass(frozen=True, slots=True)
class StreamTrace:
    """How the messages of one stream are recognised.

    Attributes:
        property_name: the property that tells.
        pattern: a regular expression with the groups ``batch``, ``sequence`` and ``digest``; a
            group that is missing counts as 0.
        is_hexadecimal: whether the sequence is written with hexadecimal digits.
    """

    property_name: str
    pattern: str
    is_hexadecimal: bool = False

    @classmethod
    def of_stamps(cls, pattern: str) -> StreamTrace:
        """By the stamp."""
        return cls(STAMP_PROPERTY, pattern)

    @classmethod
    def of_unique_keys(cls, prefix: str) -> StreamTrace:
        """By the first digits of the UNIQ_KEY, which nobody else's messages have."""
        return cls(PROPERTY_UNIQ_KEY, f"^{prefix}(?P<sequence>[0-9A-F]{{12}})$", True)


@dataclass(frozen=True, slots=True)
class TraceFound:
    """The last message of the stream, and where its batch begins as far as was read."""

    last: LandedStamp
    first_offset: int


def floor_of(client: Client, queue: MessageQueue) -> int:
    """An offset at or before which nothing will be appended any more."""
    return _readable_end(client, queue)


def end_of_queue(client: Client, queue: MessageQueue) -> int:
    """The offset behind all that was appended so far, once all of it can be read.

    RocketMQ acknowledges before a message is in its queue, and what it calls the end of a queue is
    what can be read. So the broker is asked for the end of its log, and then how far it has come.

    Raises:
        BrokerBusy: what was appended cannot be read for half a minute.
        TransportError: the broker cannot be reached; the caller decides whether to try again.
    """
    deadline_ms = client.clock.monotonic_ms() + _DISPATCH_MS
    try:
        appended = (progress := _log_progress(client, queue)).appended
        while progress.dispatched < appended:
            if client.clock.monotonic_ms() >= deadline_ms:
                remark = (
                    f"{appended} bytes were appended, but only {progress.dispatched} dispatched"
                )
                address = client.broker.address(queue)
                raise BrokerBusy(address, f"the end of {queue}", ResponseCode.SYSTEM_BUSY, remark)
            client.clock.pause_ms(_DISPATCH_PAUSE_MS)
            progress = _log_progress(client, queue)
    except AccessDenied as error:
        _LOG.warning("waiting %s ms instead of asking: %s", _UNTOLD_MS, error)
        client.clock.pause_ms(_UNTOLD_MS)
    return _readable_end(client, queue)


def _readable_end(client: Client, queue: MessageQueue) -> int:
    """Asked once: whoever sends decides himself what to try again, and until when."""
    what = f"the end of {queue}"
    request = max_offset_request(queue)
    answer = client.broker.start(queue, request, what, client.request_timeout_ms)
    address = answer.channel.address
    return accepted(lambda good: good.ext_int("offset"), answer.result(), address, what)


def _log_progress(client: Client, queue: MessageQueue) -> LogProgress:
    what = f"how far the broker of {queue} has come"
    answer = client.broker.start(queue, runtime_request(), what, client.request_timeout_ms)
    return accepted(parse_log_progress, answer.result(), answer.channel.address, what)


def read_back(
    client: Client, queue: MessageQueue, floor: int, trace: StreamTrace
) -> TraceFound | None:
    """The stream's last message at or after a floor.

    Raises:
        OffsetOutOfRange: the queue does not reach back, or not up, to the floor.
        RmqOrderedError: the queue cannot be read.
    """
    end = end_of_queue(client, queue)
    if floor > end:
        minimum = client.broker.min_offset(queue)
        raise OffsetOutOfRange(client.broker.address(queue), queue, floor, minimum, end)
    if floor == end:
        return None
    features = client.routes.features(queue.topic)
    reader = QueueReader(client, DecodeOptions(key_from=trace.property_name, verify_crc=False))
    found: TraceFound | None = None
    for rows in reader.read(ReadPlan(QueueRange(queue, floor, end), features=features)):
        found = _later(found, _last_of(rows, trace))
    return found


def _last_of(rows: pa.RecordBatch, trace: StreamTrace) -> TraceFound | None:
    matches = pc.extract_regex(rows.column("key"), trace.pattern)
    is_match = matches.is_valid()
    hits = matches.filter(is_match)
    if not len(hits):
        return None
    offsets = rows.column("offset").filter(is_match).to_numpy()
    sequences = _numbers(hits, "sequence", is_hexadecimal=trace.is_hexadecimal)
    batches = _numbers(hits, "batch")
    # Not simply the last one: a request that came late may lie behind rows sent after it.
    at = int(np.lexsort((sequences, batches))[-1])
    digest = hits.field("digest")[at].as_py() if _has(hits, "digest") else "0"
    last = LandedStamp(int(batches[at]), int(sequences[at]), int(digest, 16), int(offsets[at]))
    first = int(offsets[batches == batches[at]].min())
    return TraceFound(last, first)


def _later(before: TraceFound | None, found: TraceFound | None) -> TraceFound | None:
    if before is None or found is None:
        return before or found
    if found.last.batch == before.last.batch:
        last = max(before.last, found.last, key=lambda stamp: stamp.sequence)
        return TraceFound(last, before.first_offset)
    return max(before, found, key=lambda trace: trace.last.batch)


def _has(hits: pa.StructArray, name: str) -> bool:
    return bool(hits.type.get_field_index(name) >= 0)


def _numbers(
    hits: pa.StructArray, name: str, *, is_hexadecimal: bool = False
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if not _has(hits, name):
        return np.zeros(len(hits), np.int64)
    texts = hits.field(name)
    if is_hexadecimal:
        return np.array([int(text, 16) for text in texts.to_pylist()], np.int64)
    numbers: np.ndarray[tuple[int], np.dtype[np.int64]] = texts.cast(pa.int64()).to_numpy()
    return numbers
