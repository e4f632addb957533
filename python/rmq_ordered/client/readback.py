"""What of a stream a queue holds, found by reading the queue back from a floor.

For brokers that cannot be asked. Two things remain that reading cannot find out: a request that the
broker appends after it was read back, and a second live attempt of the same stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.client.connection import Client
from rmq_ordered.client.reader import QueueReader, ReadPlan
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.errors import BrokerBusy, OffsetOutOfRange
from rmq_ordered.model import LandedStamp, MessageQueue, QueueRange
from rmq_ordered.protocol.answers import ensure_success, understood
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.groups import max_offset_request
from rmq_ordered.protocol.properties import PROPERTY_UNIQ_KEY
from rmq_ordered.protocol.stamps import STAMP_PROPERTY

# RocketMQ builds its consume queues a moment after the append; more than this is a broken broker.
_DISPATCH_MS: Final = 30_000
_DISPATCH_PAUSE_MS: Final = 50


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
    return _ask_end(client, queue, committed=True)


def end_of_queue(client: Client, queue: MessageQueue) -> int:
    """The offset that the next message will get, once everything before it can be read.

    Raises:
        BrokerBusy: what was appended cannot be read for half a minute.
        TransportError: the broker cannot be reached; the caller decides whether to try again.
    """
    deadline_ms = client.clock.monotonic_ms() + _DISPATCH_MS
    while True:
        # First what was appended, then what can be read; 4.x knows only the latter.
        appended = _ask_end(client, queue, committed=False)
        readable = _ask_end(client, queue, committed=True)
        if readable >= appended:
            return readable
        if client.clock.monotonic_ms() >= deadline_ms:
            remark = f"offset {appended} was given away, but only {readable} can be read yet"
            address = client.broker.address(queue)
            raise BrokerBusy(address, f"the end of {queue}", ResponseCode.SYSTEM_BUSY, remark)
        client.clock.pause_ms(_DISPATCH_PAUSE_MS)


def _ask_end(client: Client, queue: MessageQueue, *, committed: bool) -> int:
    what = f"the end of {queue}"
    request = max_offset_request(queue)
    fields = {**(request.ext_fields or {}), "committed": str(committed).lower()}
    answer = client.broker.start(
        queue, replace(request, ext_fields=fields), what, client.request_timeout_ms
    )
    address = answer.channel.address
    return understood(_offset_in, ensure_success(answer.result(), address, what), address, what)


def _offset_in(response: RemotingCommand, address: str) -> int:
    return response.ext_int("offset")


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
