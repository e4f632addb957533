"""Reading a range of one queue as Arrow batches: pipelined pulls, merged in order, decoded in bulk.

The range decides what is read: the same range always gives the same rows, whenever it is read
again. Nothing is skipped silently; a broker that no longer has an offset of the range ends the read
with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from rmq_ordered.client.connection import Client
from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.client.pulls import Pulls
from rmq_ordered.client.retry import retry_until
from rmq_ordered.columnar import DecodeOptions, clip, decode_in_parts
from rmq_ordered.errors import QueueGap, QueueLeaseLost, RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.answers import refusal
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.pulls import PULL_CODES, PullLimits, pull_request

# Raw bytes decoded at once: large enough to amortise numpy's calls also where messages are of a
# kilobyte, small enough for memory.
_CHUNK_BYTES: Final = 6 * 1024 * 1024
_CHUNK_OFFSETS: Final = 8_192
# Smaller batches (large bodies, few matches) are joined, up to so much memory.
_MIN_ROWS: Final = 1_000
_MAX_JOINED_BYTES: Final = 32 * 1024 * 1024
# How often a long read asks whether it may still go on: RocketMQ's lock is trusted for 30 s.
_RECHECK_MS: Final = 10_000
# How long a broker may be unreachable when it is asked about the lease, and what it should send.
_PATIENCE_MS: Final = 30_000
_LEAST: Final = PullLimits(1, 1)


class QueueReader:
    """Reads ranges with one client. Not thread-safe: one read at a time.

    >>> from rmq_ordered.client import OrderedProducer
    >>> from rmq_ordered.model import QueueRange
    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("readings", 1)
    ...     sent = [OrderedProducer(client, "readings").send("m1", b"%d" % n) for n in range(3)]
    ...     plan = ReadPlan(QueueRange(sent[0].queue, 1, 3))
    ...     for rows in QueueReader(client).read(plan):
    ...         rows.column("offset").to_pylist(), rows.column("value").to_pylist()
    ([1, 2], [b'1', b'2'])
    """

    def __init__(self, client: Client, decode: DecodeOptions | None = None) -> None:
        self._client = client
        self._decode = decode or DecodeOptions()

    def read(
        self, plan: ReadPlan, *, recheck: Callable[[], None] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the range in queue-offset order, a thousand or more at once.

        Args:
            plan: What to read.
            recheck: Called every ten seconds, before rows are given out; raises when the read must
                not go on. For brokers that do not check the lease on every pull.

        Raises:
            OffsetOutOfRange: the broker does not have a part of the range (any more).
            QueueGap: the broker left out messages in the middle.
            QueueLeaseLost: the plan's lease is not valid at the broker.
            RemoteProtocolError: what the broker gave is damaged.
            TransportError: the broker could not be reached for half a minute.
        """
        clock = self._client.clock
        checked_ms = clock.monotonic_ms()
        for batch in _join_small(self._batches(plan)):
            if recheck is not None and clock.monotonic_ms() - checked_ms >= _RECHECK_MS:
                recheck()
                checked_ms = clock.monotonic_ms()
            yield batch

    def ensure_leased(self, plan: ReadPlan) -> None:
        """Ask the broker once more whether the plan's lease is live.

        Raises:
            QueueLeaseLost: it is over.
        """
        lease, queue = plan.lease, plan.range.queue
        if lease is None or lease.epoch is None:
            return
        what = f"a last look at the lease of {queue}"
        request = pull_request(
            queue, plan.range.end, group=plan.group, limits=_LEAST, lease_epoch=lease.epoch
        )

        def ask() -> None:
            timeout_ms = self._client.request_timeout_ms
            answer = self._client.broker.start(plan.address_queue, request, what, timeout_ms)
            response = answer.result()
            if response.code == ResponseCode.STALE_LEASE:
                reason = response.remark or "stale epoch"
                raise QueueLeaseLost(lease.group, queue, lease.client_id, reason)
            if response.code not in PULL_CODES:
                raise refusal(response, answer.channel.address, what)

        clock = self._client.clock
        retry_until(clock, clock.monotonic_ms() + _PATIENCE_MS, ask)

    def _batches(self, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
        chunk: list[bytes | memoryview] = []
        size = 0
        chunk_start = plan.range.start
        pulls = Pulls(self._client, plan)
        for position, body in _bodies(pulls):
            chunk.append(body)
            size += len(body)
            if size >= _CHUNK_BYTES or position - chunk_start >= _CHUNK_OFFSETS:
                yield from self._rows(plan, chunk, chunk_start, position, pulls.answered_by)
                chunk, size, chunk_start = [], 0, position
        if chunk_start < plan.range.end:
            yield from self._rows(plan, chunk, chunk_start, plan.range.end, pulls.answered_by)

    def _rows(
        self, plan: ReadPlan, chunk: list[bytes | memoryview], start: int, end: int, address: str
    ) -> Iterator[pa.RecordBatch]:
        """The rows of ``[start, end)``. Without a filter a hole is lost data, never skipped."""
        body = chunk[0] if len(chunk) == 1 else b"".join(chunk)
        decode = replace(self._decode, tag_filter=plan.tags) if plan.tags else self._decode
        has_all = not plan.is_filtered and not decode.tag_filter
        position = start
        for part in _decoded(body, plan.range.queue, decode, address):
            rows = clip(part, position, end)
            if not rows.num_rows:
                continue
            # Offsets rise, so the last one tells whether all are there.
            reached = rows.column("offset")[-1].as_py() + 1
            if has_all and reached - position != rows.num_rows:
                _raise_gap(plan, rows, position)
            position = reached
            yield rows
        if has_all and position != end:
            raise QueueGap(plan.range.queue, position, end)


def _bodies(pulls: Pulls) -> Iterator[tuple[int, bytes | memoryview]]:
    """Raw answers in order, each with the queue offset it reaches."""
    try:
        while not pulls.window.is_done:
            body = pulls.next_body()
            if body:
                yield pulls.window.position, body
    finally:
        pulls.close()


def _decoded(
    body: bytes | memoryview, queue: MessageQueue, decode: DecodeOptions, address: str
) -> Iterator[pa.RecordBatch]:
    """The rows of answers; when they cannot be read, the error names who answered."""
    try:
        yield from decode_in_parts(body, queue, decode)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{address} answered pulls of {queue}: {error}") from error


def _join_small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are worth their handling."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
        if rows >= _MIN_ROWS or size >= _MAX_JOINED_BYTES:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def _raise_gap(plan: ReadPlan, rows: pa.RecordBatch, start: int) -> NoReturn:
    """Name the first offset that the broker did not give."""
    offsets = rows.column("offset").to_numpy()
    expected = np.arange(start, start + len(offsets))
    index = int((offsets != expected).argmax())
    raise QueueGap(plan.range.queue, start + index, int(offsets[index]))
