"""Reading a range of one queue as Arrow batches: pipelined pulls, merged in order, decoded in bulk.

The range decides what is read: the same range always gives the same rows, whenever it is read
again. Nothing is skipped silently; a broker that no longer has an offset of the range ends the read
with an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from rmq_ordered.client.connection import Client
from rmq_ordered.columnar import DecodeOptions, clip, decode_in_parts, skip_records
from rmq_ordered.errors import (
    BrokerBusy,
    OffsetOutOfRange,
    QueueGap,
    QueueLeaseLost,
    RemoteProtocolError,
    RmqOrderedError,
)
from rmq_ordered.model import MessageQueue, QueueLease, QueueRange
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.ordering.window import PullWindow
from rmq_ordered.protocol.answers import ensure_success, refusal, understood
from rmq_ordered.protocol.codes import FEATURE_WIDE_PULL, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import (
    ALL_TAGS,
    FilterKind,
    Subscription,
    check_subscription_request,
)
from rmq_ordered.protocol.pulls import (
    PULL_CODES,
    PullLimits,
    PullResult,
    PullStatus,
    parse_pull,
    pull_request,
)

# A group name for reads that belong to no group: pulls need one, but nothing is committed under it.
ANONYMOUS_GROUP: Final = "rmq-ordered-reader"
# The tag expression that lets everything through.
ALL_MESSAGES: Final = ALL_TAGS
# What an expression is: tags joined by "||", or a condition over properties.
TAG_EXPRESSION: Final = FilterKind.TAG.value
SQL92_EXPRESSION: Final = FilterKind.SQL92.value
# What one pull asks for. RocketMQ gives 32 messages at most; the embedded broker gives what was
# asked for.
_STOCK_PULL: Final = PullLimits(32, 256 * 1024)
_WIDE_PULL: Final = PullLimits(4_096, 2 * 1024 * 1024)
# What is in flight becomes the next chunk: nothing is asked for while one is decoded and handed on,
# and the broker should not stand idle meanwhile.
_STOCK_DEPTH: Final = 256
_WIDE_DEPTH: Final = 4
# What the answers in flight may hold together, judged by the last one. Two are always in flight.
_IN_FLIGHT_BYTES: Final = 8 * 1024 * 1024
_LEAST_DEPTH: Final = 2
# Raw bytes decoded at once: large enough to amortise numpy's calls also where messages are of a
# kilobyte, small enough for memory.
_CHUNK_BYTES: Final = 6 * 1024 * 1024
_CHUNK_OFFSETS: Final = 8_192
# Smaller batches (large bodies, few matches) are joined, up to so much memory.
_MIN_ROWS: Final = 1_000
_MAX_JOINED_BYTES: Final = 32 * 1024 * 1024
# How often a long read asks whether it may still go on: RocketMQ's lock is trusted for 30 s.
_RECHECK_MS: Final = 10_000
# How long a read may make no progress before its last error is raised.
_STALL_MS: Final = 30_000
_PAUSE_MS: Final = 50


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Everything an executor needs to read one range; plain and picklable.

    Attributes:
        range: What is read.
        group: Under whose name.
        lease: The right to read it; its epoch goes with every pull.
        features: What the broker announces beyond RocketMQ.
        expression: Which messages the broker should give.
        expression_type: ``TAG`` or ``SQL92``. Tags are compared again here, as Java's clients do:
            the broker compares their hashes.
        route_topic: The topic whose route leads to the queue's broker, where that is another one:
            RocketMQ's name servers learn late of the retry topics of pops.
    """

    range: QueueRange
    group: str = ANONYMOUS_GROUP
    lease: QueueLease | None = None
    features: frozenset[str] = frozenset()
    expression: str = ALL_MESSAGES
    expression_type: str = TAG_EXPRESSION
    route_topic: str | None = None

    @property
    def address_queue(self) -> MessageQueue:
        """The queue to name when the broker's address is looked up."""
        queue = self.range.queue
        return queue if self.route_topic is None else replace(queue, topic=self.route_topic)

    @property
    def subscription(self) -> Subscription:
        """What of the topic is wanted."""
        kind = FilterKind(self.expression_type)
        return Subscription(self.range.queue.topic, self.expression, kind)

    @property
    def tags(self) -> frozenset[str]:
        """The tags that are wanted; empty if the expression does not choose by tags."""
        return self.subscription.tags

    @property
    def is_filtered(self) -> bool:
        """Whether the broker may rightly leave messages out."""
        return self.expression_type != TAG_EXPRESSION or bool(self.tags)


class QueueReader:
    """Reads ranges with one client. Not thread-safe: one read at a time.

    >>> from rmq_ordered.client import OrderedProducer
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

    def _batches(self, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
        chunk: list[bytes | memoryview] = []
        size = 0
        chunk_start = plan.range.start
        pulls = _Pulls(self._client, plan)
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


def _bodies(pulls: _Pulls) -> Iterator[tuple[int, bytes | memoryview]]:
    """Raw answers in order, each with the queue offset it reaches."""
    try:
        while not pulls.window.is_done:
            body = pulls.next_body()
            if body:
                yield pulls.window.position, body
    finally:
        pulls.abandon_all()


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


def _parse(response: RemotingCommand, address: str) -> PullResult:
    return parse_pull(response)


class _Pulls:
    """The pulls of one read: the window decides, this class sends, waits and recovers."""

    def __init__(self, client: Client, plan: ReadPlan) -> None:
        is_wide = FEATURE_WIDE_PULL in plan.features
        self._client = client
        self._plan = plan
        self._limits = _WIDE_PULL if is_wide else _STOCK_PULL
        self._depth = _WIDE_DEPTH if is_wide else _STOCK_DEPTH
        first, last = plan.range.start, plan.range.end
        self.window = PullWindow(first, last, self._limits.max_messages, self._depth)
        self._pending: deque[PendingAnswer] = deque()
        self._stalled_since_ms: int | None = None
        self.answered_by = ""
        # Tags are compared again after every pull; anything else only the broker can judge.
        self._is_filter_known = plan.expression_type == TAG_EXPRESSION

    def next_body(self) -> bytes | memoryview:
        """The next raw answer in order; empty when a pull only moved on or has to be repeated."""
        try:
            self._ensure_filter()
            self._fill()
            answer = self._pending.popleft()
            result = self._outcome(answer)
        except RmqOrderedError as error:
            self._recover(error)
            return b""
        asked, delivered = self.window.oldest, self.window.position
        if result.next_offset <= asked:
            self._recover(self._no_progress(answer, result))
            return b""
        self._stalled_since_ms = None
        affordable = max(_LEAST_DEPTH, _IN_FLIGHT_BYTES // max(1, len(result.body)))
        self.window.depth = min(self._depth, affordable)
        for _ in range(self.window.answered(result.next_offset)):
            self._pending.popleft().abandon()
        return result.body if asked == delivered else skip_records(result.body, delivered)

    def abandon_all(self) -> None:
        """Nobody wants the remaining answers."""
        while self._pending:
            self._pending.popleft().abandon()

    def _ensure_filter(self) -> None:
        """Raise BrokerError unless the broker understands the plan's expression."""
        if self._is_filter_known:
            return
        plan = self._plan
        request = check_subscription_request(
            plan.group, plan.group, plan.subscription, version_ms=0
        )
        what = f"the check of the {plan.expression_type} filter {plan.expression!r}"
        timeout_ms = self._client.request_timeout_ms
        answer = self._client.broker.start(plan.address_queue, request, what, timeout_ms)
        ensure_success(answer.result(), answer.channel.address, what)
        self._is_filter_known = True

    def _fill(self) -> None:
        requests = [self._request(*pull) for pull in self.window.next_pulls()]
        if requests:
            queue, timeout_ms = self._plan.address_queue, self._client.request_timeout_ms
            self._pending += self._client.broker.start_many(queue, requests, timeout_ms)

    def _request(self, offset: int, count: int) -> tuple[RemotingCommand, str]:
        lease = self._plan.lease
        request = pull_request(
            self._plan.range.queue,
            offset,
            group=self._plan.group,
            limits=PullLimits(count, self._limits.max_bytes),
            expression=self._plan.expression,
            expression_type=self._plan.expression_type,
            lease_epoch=lease.epoch if lease else None,
        )
        return request, f"a pull of {self._plan.range.queue} at {offset}"

    def _outcome(self, answer: PendingAnswer) -> PullResult:
        response = answer.result()
        self.answered_by = answer.channel.address
        queue, lease = self._plan.range.queue, self._plan.lease
        if response.code == ResponseCode.STALE_LEASE and lease is not None:
            raise QueueLeaseLost(
                lease.group, queue, lease.client_id, response.remark or "stale epoch"
            )
        if response.code not in PULL_CODES:
            raise refusal(response, answer.channel.address, answer.what)
        asked, address = self.window.oldest, answer.channel.address
        result = understood(_parse, response, address, answer.what)
        if (
            result.status is PullStatus.OFFSET_ILLEGAL
            and not result.minimum <= asked < result.maximum
        ):
            raise OffsetOutOfRange(address, queue, asked, result.minimum, result.maximum)
        if result.status is PullStatus.NO_NEW_MESSAGE and result.maximum < self._plan.range.end:
            raise OffsetOutOfRange(address, queue, asked, result.minimum, result.maximum)
        if result.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
            return result
        # The offset exists but is not served yet (being dispatched) or was reset under us: ask
        # again.
        return PullResult(result.status, asked, result.minimum, result.maximum, b"")

    def _no_progress(self, answer: PendingAnswer, result: PullResult) -> RmqOrderedError:
        remark = (
            f"{result.status.name} with next offset {result.next_offset}, "
            f"although the broker holds [{result.minimum}, {result.maximum})"
        )
        return BrokerBusy(answer.channel.address, answer.what, result.status.value, remark)

    def _recover(self, error: RmqOrderedError) -> None:
        """Start the window again at the position reached, or give up."""
        now_ms = self._client.clock.monotonic_ms()
        if self._stalled_since_ms is None:
            self._stalled_since_ms = now_ms
        if not error.retryable or now_ms - self._stalled_since_ms >= _STALL_MS:
            raise error
        self.abandon_all()
        self._client.routes.forget(self._plan.address_queue.topic)
        self.window.restart()
        self._client.clock.pause_ms(_PAUSE_MS)
