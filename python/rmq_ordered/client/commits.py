"""Offsets committed for a group, many of them in flight together, each sent once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rmq_ordered.client.pipeline import Pipeline, Question
from rmq_ordered.client.routes import RouteTable
from rmq_ordered.clock import Clock
from rmq_ordered.errors import OffsetWentBack, QueueLeaseLost, RmqOrderedError, TransportError
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.protocol.answers import ensure_success, understood
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.groups import update_offset_request

Positions = Mapping[MessageQueue, int]
Leases = Mapping[MessageQueue, QueueLease]


class OffsetCommits:
    """The commits of ``BrokerOperations``, which says what they promise. Thread-safe.

    Args:
        remoting: the connections.
        routes: where brokers are.
        clock: for deadlines.
        pipeline: sends what may fail as a whole.
        committed: where a group stands in a queue, for an error that says so.
    """

    def __init__(
        self,
        remoting: Remoting,
        routes: RouteTable,
        clock: Clock,
        pipeline: Pipeline,
        *,
        committed: Callable[[str, MessageQueue], int | None],
    ) -> None:
        self._remoting = remoting
        self._routes = routes
        self._clock = clock
        self._pipeline = pipeline
        self._committed = committed

    def commit(self, group: str, positions: Positions, leases: Leases) -> None:
        """Commit all; raises the first failure, after every answer was waited for."""
        failures: list[RmqOrderedError] = []
        for part in _waves(positions):
            try:
                self._pipeline.write(
                    [self._question(group, q, positions[q], leases.get(q)) for q in part]
                )
            except RmqOrderedError as error:
                failures.append(error)
        for failure in failures:
            raise failure

    def try_commit(
        self, group: str, positions: Positions, leases: Leases, timeout_ms: int
    ) -> dict[MessageQueue, RmqOrderedError]:
        """Commit what can be; what failed, by queue."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        failures: dict[MessageQueue, RmqOrderedError] = {}
        away: dict[str, RmqOrderedError] = {}
        for part in _waves(positions):
            started: list[tuple[MessageQueue, Question[None], PendingAnswer]] = []
            for queue in part:
                question = self._question(group, queue, positions[queue], leases.get(queue))
                try:
                    started.append((queue, question, self._start(question, deadline_ms, away)))
                except RmqOrderedError as error:
                    failures[queue] = error
            for queue, question, pending in started:
                try:
                    answer, address = pending.result(), pending.channel.address
                    understood(question.parse, answer, address, question.what)
                except RmqOrderedError as error:
                    failures[queue] = error
                    self._note_absence(question, error, away)
        return failures

    def _start(
        self, question: Question[None], deadline_ms: int, away: dict[str, RmqOrderedError]
    ) -> PendingAnswer:
        """Send a request unless its broker is known to be away."""
        if question.broker_name in away:
            raise away[question.broker_name]
        try:
            address = self._routes.master(question.topic, question.broker_name)
            left_ms = max(1, deadline_ms - self._clock.monotonic_ms())
            return self._remoting.start(address, question.request, question.what, left_ms)
        except RmqOrderedError as error:
            self._note_absence(question, error, away)
            raise

    def _note_absence(
        self, question: Question[None], error: RmqOrderedError, away: dict[str, RmqOrderedError]
    ) -> None:
        if isinstance(error, TransportError):
            away[question.broker_name] = error
            self._routes.forget(question.topic)

    def _question(
        self, group: str, queue: MessageQueue, position: int, lease: QueueLease | None
    ) -> Question[None]:
        what = f"the commit of offset {position} of group {group} on {queue}"
        epoch = lease.epoch if lease is not None else None
        request = update_offset_request(group, queue, position, lease_epoch=epoch)

        def parse(response: RemotingCommand, address: str) -> None:
            if lease is not None and response.code == ResponseCode.STALE_LEASE:
                reason = response.remark or "stale epoch"
                raise QueueLeaseLost(group, queue, lease.client_id, reason)
            if response.code == ResponseCode.OFFSET_WENT_BACK:
                committed = self._committed(group, queue)
                raise OffsetWentBack(group, queue, -1 if committed is None else committed, position)
            ensure_success(response, address, what)

        return Question(queue.topic, queue.broker_name, request, what, parse)


def _waves(positions: Iterable[MessageQueue]) -> tuple[list[MessageQueue], ...]:
    """One queue of every topic and broker ahead, then all others.

    RocketMQ makes the group's table of a topic with the first commit, and of two first commits at
    the same moment it may forget one.
    """
    ahead: dict[tuple[str, str], MessageQueue] = {}
    for queue in positions:
        ahead.setdefault((queue.topic, queue.broker_name), queue)
    leading = set(ahead.values())
    return sorted(leading), [queue for queue in positions if queue not in leading]
