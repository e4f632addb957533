"""What of a stream a queue holds, found by reading the queue back from a floor.

For brokers that cannot be asked. Two things remain that reading cannot find out: a request that the
broker appends after it was read back, and a second live attempt of the same stream.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.client.connection import Client
from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.client.reader import QueueReader
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.columnar.records import STAMPED_DIGEST_DIGITS, STAMPED_SEQUENCE_DIGITS
from rmq_ordered.errors import AccessDenied, BrokerBusy, OffsetOutOfRange
from rmq_ordered.model import LandedStamp, MessageQueue, QueueRange, SendStream
from rmq_ordered.protocol.answers import accepted
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.groups import max_offset_request
from rmq_ordered.protocol.runtime import LogProgress, parse_log_progress, runtime_request
from rmq_ordered.protocol.stamps import STAMP_PROPERTY, stamp_pattern

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Integers

# RocketMQ builds its consume queues a moment after the append; more than this is a broken broker.
_DISPATCH_MS: Final = 30_000
_DISPATCH_PAUSE_MS: Final = 50
# Who may not ask the broker how far it is waits this long: as a rule it is far less behind.
_UNTOLD_MS: Final = 1_000
_LOOKED_AT: Final = frozenset({"key", "message_id"})

_LOG: Final = logging.getLogger("rmq_ordered.client")


@dataclass(frozen=True, slots=True)
class StreamTrace:
    """How the messages of one stream are recognised.

    By the first digits of their UNIQ_KEY, which nobody else's messages have. Messages of the same
    sink and partition in other batches have others; of these a stamp tells, in the first message of
    each request at least.

    Attributes:
        batch: which batch has this UNIQ_KEY.
        unique_keys: a regular expression with the group ``sequence`` and perhaps ``digest``, both
            in hexadecimal digits, always equally many; a digest that is missing counts as 0.
        stamps: a regular expression with the groups ``batch``, ``sequence`` and ``digest``; None
            where there are no stamps.
    """

    batch: int
    unique_keys: str
    stamps: str | None = None

    @classmethod
    def of_stamped(cls, stream: SendStream, unique_prefix: str) -> StreamTrace:
        """Of a stream whose records carry digests."""
        sequence = f"(?P<sequence>[0-9A-F]{{{STAMPED_SEQUENCE_DIGITS}}})"
        digest = f"(?P<digest>[0-9A-F]{{{STAMPED_DIGEST_DIGITS}}})"
        return cls(stream.batch, f"^{unique_prefix}{sequence}{digest}$", stamp_pattern(stream))

    @classmethod
    def of_unique_keys(cls, stream: SendStream, unique_prefix: str) -> StreamTrace:
        """Of messages that have nothing but their UNIQ_KEY."""
        return cls(stream.batch, f"^{unique_prefix}(?P<sequence>[0-9A-F]{{12}})$")


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
    options = DecodeOptions(key_from=STAMP_PROPERTY, verify_crc=False, columns=_LOOKED_AT)
    reader = QueueReader(client, options)
    found: TraceFound | None = None
    for rows in reader.read(ReadPlan(QueueRange(queue, floor, end), features=features)):
        found = _later(_later(found, _stamped_last(rows, trace)), _last(rows, trace))
    return found


def _last(rows: pa.RecordBatch, trace: StreamTrace) -> TraceFound | None:
    """The last row that is known by its unique key."""
    hits, offsets = _matches(rows, "message_id", trace.unique_keys)
    if not len(hits):
        return None
    sequences = hits.field("sequence")
    # Texts of one length are in the order of their numbers. Not simply the last one: a request that
    # came late may lie behind rows sent after it.
    sequence = pc.max(sequences).as_py()
    at = sequences.index(sequence).as_py()
    digest = hits.field("digest")[at].as_py() if hits.type.get_field_index("digest") >= 0 else "0"
    last = LandedStamp(trace.batch, int(sequence, 16), int(digest, 16), int(offsets[at]))
    return TraceFound(last, int(offsets.min()))


def _stamped_last(rows: pa.RecordBatch, trace: StreamTrace) -> TraceFound | None:
    """The last row, of whatever batch, that is known by its stamp."""
    if trace.stamps is None:
        return None
    hits, offsets = _matches(rows, "key", trace.stamps)
    if not len(hits):
        return None
    batches, sequences = (
        hits.field(name).cast(pa.int64()).to_numpy() for name in ("batch", "sequence")
    )
    at = int(np.lexsort((sequences, batches))[-1])
    # As many digits as a unique key has: whoever stamps each message of a batch tells more of them.
    digest = int(hits.field("digest")[at].as_py()[-STAMPED_DIGEST_DIGITS:], 16)
    last = LandedStamp(int(batches[at]), int(sequences[at]), digest, int(offsets[at]))
    return TraceFound(last, int(offsets[batches == batches[at]].min()))


def _matches(rows: pa.RecordBatch, column: str, pattern: str) -> tuple[pa.StructArray, Integers]:
    """The groups of each row that matches, and the row's offset."""
    groups = pc.extract_regex(rows.column(column), pattern)
    is_match = groups.is_valid()
    return groups.filter(is_match), rows.column("offset").filter(is_match).to_numpy()


def _later(before: TraceFound | None, found: TraceFound | None) -> TraceFound | None:
    if before is None or found is None:
        return before or found
    if found.last.batch == before.last.batch:
        last = max(before.last, found.last, key=lambda stamp: stamp.sequence)
        return TraceFound(last, min(before.first_offset, found.first_offset))
    return max(before, found, key=lambda trace: trace.last.batch)
