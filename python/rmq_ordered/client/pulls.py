"""The pulls of one read: the window decides, this sends, waits and recovers."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.client.plan import TAG_EXPRESSION, ReadPlan
from rmq_ordered.columnar import skip_records
from rmq_ordered.errors import (
    BrokerBusy,
    BrokerError,
    ConnectionLost,
    OffsetOutOfRange,
    QueueLeaseLost,
    RemoteProtocolError,
    RequestTimedOut,
    RmqOrderedError,
)
from rmq_ordered.net.remoting import unchanged
from rmq_ordered.net.stream import Answer, AnswerStream
from rmq_ordered.ordering.window import PullWindow
from rmq_ordered.protocol.answers import ensure_success, not_rocketmq, refusal, unknown_answer
from rmq_ordered.protocol.codes import FEATURE_WIDE_PULL, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand, encode_command
from rmq_ordered.protocol.members import check_subscription_request
from rmq_ordered.protocol.pull_template import PullTemplate
from rmq_ordered.protocol.pulls import (
    PULL_CODES,
    PullLimits,
    PullResult,
    PullStatus,
    pull_request,
    pull_result,
)

_LOG: Final = logging.getLogger("rmq_ordered.client")
# What one pull asks for. RocketMQ gives 32 messages at most; the embedded broker gives what was
# asked for.
_STOCK_PULL: Final = PullLimits(32, 256 * 1024)
_WIDE_PULL: Final = PullLimits(4_096, 2 * 1024 * 1024)
# What is in flight becomes the next chunk: nothing is asked for while one is decoded and handed on,
# and the broker should not stand idle meanwhile.
_STOCK_DEPTH: Final = 256
_WIDE_DEPTH: Final = 4
# What the answers in flight should hold together, judged by the last one; two are always in flight.
_IN_FLIGHT_BYTES: Final = 8 * 1024 * 1024
_LEAST_DEPTH: Final = 2
# By what fewer pulls are in flight after one was not answered. RocketMQ's enableNetWorkFlowControl
# passes over pulls while answers to others wait to be sent: after the second time one is alone.
_NARROWER: Final = 16
# How long a read may make no progress before its last error is raised.
_STALL_MS: Final = 30_000
_PAUSE_MS: Final = 50

# The frame of a pull: its id, where it begins, how many messages it wants.
EncodePull = Callable[[int, int, int], bytes]


class Pulls:
    """Not thread-safe. Has a connection of its own while it reads; ``close`` ends it."""

    def __init__(self, client: Client, plan: ReadPlan) -> None:
        is_wide = FEATURE_WIDE_PULL in plan.features
        self._client = client
        self._plan = plan
        self._limits = _WIDE_PULL if is_wide else _STOCK_PULL
        self._depth = _WIDE_DEPTH if is_wide else _STOCK_DEPTH
        first, last = plan.range.start, plan.range.end
        self.window = PullWindow(first, last, self._limits.max_messages, self._depth)
        self._encode = _encoder(client, plan, self._limits, lambda: self.answered_by)
        self._stream: AnswerStream | None = None
        # Whether the broker at its other end may no longer be the one to ask.
        self._is_doubted = False
        # Ids and deadlines, in the order of the window.
        self._pending: deque[tuple[int, int]] = deque()
        self._stalled_since_ms: int | None = None
        self.answered_by = ""
        # Tags are compared again after every pull; anything else only the broker can judge.
        self._is_filter_known = plan.expression_type == TAG_EXPRESSION

    def next_body(self) -> bytes | memoryview:
        """The next raw answer in order; empty when a pull only moved on or has to be repeated."""
        try:
            self._ensure_filter()
            stream = self._fill()
            result = self._outcome(stream, *self._pending.popleft())
        except RmqOrderedError as error:
            self._recover(error)
            return b""
        asked, delivered = self.window.oldest, self.window.position
        if result.next_offset <= asked:
            self._recover(self._no_progress(result))
            return b""
        self._stalled_since_ms = None
        affordable = max(_LEAST_DEPTH, _IN_FLIGHT_BYTES // max(1, len(result.body)))
        self.window.depth = min(self._depth, affordable)
        for _ in range(self.window.answered(result.next_offset)):
            stream.forget(self._pending.popleft()[0])
        return result.body if asked == delivered else skip_records(result.body, delivered)

    def close(self) -> None:
        """Nobody wants the remaining answers."""
        self._pending.clear()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

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

    def _fill(self) -> AnswerStream:
        """Send the pulls that may be in flight now; returns where their answers come."""
        stream = self._connected()
        pulls = self.window.next_pulls()
        if pulls:
            opaques = stream.begin(len(pulls))
            frames = [
                self._encode(opaque, offset, count)
                for opaque, (offset, count) in zip(opaques, pulls, strict=True)
            ]
            first, last = pulls[0][0], pulls[-1][0]
            _LOG.debug("> pulls from=%s to=%s opaque=%s...", first, last, opaques[0])
            timeout_ms = self._client.request_timeout_ms
            try:
                deadline_ms = stream.send(b"".join(frames), self._what(first), timeout_ms)
            except (ConnectionLost, RemoteProtocolError) as error:
                raise self._named(error, first) from error
            self._pending += [(opaque, deadline_ms) for opaque in opaques]
        return stream

    def _connected(self) -> AnswerStream:
        """The connection to the queue's broker; another one where a route leads elsewhere now."""
        queue, stream = self._plan.address_queue, self._stream
        if stream is not None and self._is_doubted:
            if self._client.broker.address(queue) == stream.address:
                self._is_doubted = False
            else:
                self.close()
        if self._stream is None:
            opened = self._client.broker.open_stream(queue, f"a read of {self._plan.range.queue}")
            self._stream, self.answered_by, self._is_doubted = opened, opened.address, False
        return self._stream

    def _what(self, offset: int) -> str:
        return f"a pull of {self._plan.range.queue} at {offset}"

    def _named(self, error: ConnectionLost | RemoteProtocolError, offset: int) -> RmqOrderedError:
        """An error of the connection, with what it came instead of."""
        if isinstance(error, RemoteProtocolError):
            return not_rocketmq(self.answered_by, self._what(offset), error)
        reason = f"{error.reason}; it had not answered {self._what(offset)}"
        return ConnectionLost(error.address, reason)

    def _answer(self, stream: AnswerStream, opaque: int, deadline_ms: int) -> Answer:
        try:
            answer = stream.answer(opaque, deadline_ms)
        except (ConnectionLost, RemoteProtocolError) as error:
            raise self._named(error, self.window.oldest) from error
        if answer is None:
            self._narrow()
            timeout_ms = self._client.request_timeout_ms
            raise RequestTimedOut(stream.address, self._what(self.window.oldest), timeout_ms)
        return answer

    def _outcome(self, stream: AnswerStream, opaque: int, deadline_ms: int) -> PullResult:
        header, body = self._answer(stream, opaque, deadline_ms)
        queue, lease = self._plan.range.queue, self._plan.lease
        if header.code == ResponseCode.STALE_LEASE and lease is not None:
            reason = header.remark or "stale epoch"
            raise QueueLeaseLost(lease.group, queue, lease.client_id, reason)
        asked, address = self.window.oldest, stream.address
        if header.code not in PULL_CODES:
            raise refusal(header, address, self._what(asked))
        try:
            result = pull_result(header, body)
        except RemoteProtocolError as error:
            raise unknown_answer(address, self._what(asked), error) from error
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

    def _no_progress(self, result: PullResult) -> RmqOrderedError:
        remark = (
            f"{result.status.name} with next offset {result.next_offset}, "
            f"although the broker holds [{result.minimum}, {result.maximum})"
        )
        what = self._what(self.window.oldest)
        return BrokerBusy(self.answered_by, what, result.status.value, remark)

    def _give_up_pulls(self, error: RmqOrderedError) -> None:
        """What is in flight will be asked again.

        A broker that refuses is asked where it was, unless routes have led elsewhere since: one
        that was replaced as master goes on at its old address, and refuses.
        """
        if not isinstance(error, BrokerError) or self._stream is None:
            self.close()
            return
        self._is_doubted = True
        for opaque, _ in self._pending:
            self._stream.forget(opaque)
        self._pending.clear()

    def _narrow(self) -> None:
        """Have fewer pulls in flight for the rest of the read, if the broker may pass over some."""
        if self._limits is _STOCK_PULL:
            self._depth = max(1, self._depth // _NARROWER)
            self.window.depth = min(self.window.depth, self._depth)

    def _recover(self, error: RmqOrderedError) -> None:
        """Start the window again at the position reached, or give up."""
        now_ms = self._client.clock.monotonic_ms()
        if self._stalled_since_ms is None:
            self._stalled_since_ms = now_ms
        if not error.retryable or now_ms - self._stalled_since_ms >= _STALL_MS:
            raise error
        self._give_up_pulls(error)
        self._client.routes.forget(self._plan.address_queue.topic)
        self.window.restart()
        self._client.clock.pause_ms(_PAUSE_MS)


def _encoder(
    client: Client, plan: ReadPlan, limits: PullLimits, address: Callable[[], str]
) -> EncodePull:
    """How the pulls of a plan are written; a signature is another one for each of them."""

    def request(offset: int, count: int) -> RemotingCommand:
        return pull_request(
            plan.range.queue,
            offset,
            group=plan.group,
            limits=PullLimits(count, limits.max_bytes),
            expression=plan.expression,
            expression_type=plan.expression_type,
            lease_epoch=plan.lease.epoch if plan.lease else None,
            run=plan.fenced_run,
        )

    prepare = client.remoting.prepare
    if prepare is unchanged:
        return PullTemplate(request(0, 0)).encode
    return lambda opaque, offset, count: encode_command(
        prepare(request(offset, count), address()), opaque
    )
