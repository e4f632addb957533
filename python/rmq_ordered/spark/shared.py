"""A run that is one member of its group: it owns its share of the queues, beside whoever else.

Members work out who gets which queue as Java's clients do, each for itself, from the same sorted
lists. Queues change hands only while no batch is in flight: what was finished is committed first,
then the queue is given back; a queue that is gained goes on where the group stands. The offset
records both ends of what a batch reads of a gained queue, so that it can be repeated; a repeated
range whose queue somebody else owns by then is read without a lease and not committed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.errors import RmqOrderedError, TopicNotFound
from rmq_ordered.model import MessageQueue, OffsetSpan, QueueLease
from rmq_ordered.net.system import fresh_client_id
from rmq_ordered.options import SourceOptions
from rmq_ordered.ordering.allocation import allocate_averagely
from rmq_ordered.ordering.offsets import Positions, SourceOffset
from rmq_ordered.protocol.answers import ensure_success
from rmq_ordered.protocol.members import (
    FilterKind,
    StartPoint,
    Subscription,
    member_heartbeat_request,
    retry_topic,
)
from rmq_ordered.spark.ownership import SourceRun, Standing
from rmq_ordered.spark.resume import mend

_LOG: Final = logging.getLogger("rmq_ordered.spark")
# Java's clients: 30 s. A broker forgets a client after 120 s.
_HEARTBEAT_MS: Final = 20_000
_HEARTBEAT_RETRY_MS: Final = 1_000
# Who is in the group is asked for this often at most.
_MEMBERS_LIFETIME_MS: Final = 1_000
_POLL_MS: Final = 500


class Membership:
    """Stays in the group by heartbeats, on a daemon thread of its own. Thread-safe."""

    def __init__(self, client: Client, group: str, expression: tuple[str, str]) -> None:
        self.client_id = fresh_client_id("spark")
        self._client = client
        self._group = group
        self._expression = expression
        self._version_ms = client.clock.wall_ms()
        self._topics: tuple[str, ...] = ()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def stay(self, topics: tuple[str, ...]) -> None:
        """Be a member who reads these topics; returns when every broker knows."""
        if topics == self._topics:
            return
        self._topics = topics
        self.heartbeat()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._beat_for_ever, name="rmq-ordered member", daemon=True
            )
            self._thread.start()

    def members(self) -> tuple[str, ...]:
        """Everybody in the group; a broker that forgot us is told again first."""
        found = self._client.broker.group_members(self._group, self._topics)
        if self.client_id not in found:
            self.heartbeat()
            found = self._client.broker.group_members(self._group, self._topics)
        return found

    def leave(self) -> None:
        """Stop being a member; the others may share out what was ours."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if not self._topics:
            return
        try:
            self._client.broker.leave_group(self.client_id, self._group, self._topics)
        except RmqOrderedError as error:
            _LOG.warning("the group notices only when the connection ends: %s", error)

    def heartbeat(self) -> None:
        """Tell every broker of the topics once."""
        expression, kind = self._expression
        wanted = [Subscription(t, expression, FilterKind(kind)) for t in self._topics]
        request = member_heartbeat_request(
            self.client_id,
            self._group,
            # Without it the others would lose their subscription of it.
            [*wanted, Subscription(retry_topic(self._group))],
            start=StartPoint.FIRST,
            version_ms=self._version_ms,
        )
        what = f"a heartbeat of group {self._group}"
        routes = []
        for topic in self._topics:
            # One that was deleted since must not cost the membership at all brokers.
            with suppress(TopicNotFound):
                routes.append(self._client.routes.route(topic))
        for address in sorted({one.master for r in routes for one in r.brokers if one.master}):
            timeout_ms = self._client.request_timeout_ms
            response = self._client.remoting.call(address, request, what, timeout_ms)
            ensure_success(response, address, what)

    def _beat_for_ever(self) -> None:
        pause_ms = _HEARTBEAT_MS
        while not self._stopping.wait(pause_ms / 1000):
            try:
                self.heartbeat()
                pause_ms = _HEARTBEAT_MS
            except RmqOrderedError as error:
                _LOG.warning("heartbeat failed, will try again group=%s: %s", self._group, error)
                pause_ms = _HEARTBEAT_RETRY_MS


class SharedRun(SourceRun):
    """One run of a source in ``leaseMode=shared``."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._membership = Membership(self.client, self.group, self._filter())
        self._members: tuple[str, ...] = ()
        self._asked_at_ms: int | None = None
        self._has_settled = False
        # What was there when the query began, as far as this run can tell.
        self._old: frozenset[MessageQueue] = frozenset()

    def begin(self) -> tuple[dict[MessageQueue, OffsetSpan], Positions]:
        """Join the group and take a share; where the group stands in it."""
        first_look = self.spans()
        self._old = frozenset(first_look)
        self._settle_in(first_look)
        spans = self.spans()
        self.subscription.ensure_complete()
        mine = {queue: span for queue, span in spans.items() if queue in self._expected}
        return spans, self._taken_over(mine, SourceOffset({}))

    def hold(
        self,
        offset: SourceOffset,
        spans: Mapping[MessageQueue, OffsetSpan],
        made_anew: frozenset[MessageQueue],
    ) -> Standing:
        """Commit what is finished, give back what is others', take what is ours."""
        self._let_go_of_dropped(offset, spans)
        if self._keeper is not None:
            self._keeper.ensure_held()
            self.commit({q: p for q, p in offset.positions.items() if q in self._expected})
        # What was taken to repeat a batch is looked at as if it were gained now.
        before = set(self._expected) if self._has_settled else set()
        if self._has_settled:
            self._rebalance(spans)
        else:
            self._old = self._known_before(offset, spans)
            self._settle_in(spans)
        kept = {q: p for q, p in offset.positions.items() if q in self._expected and q in before}
        mended = mend(replace(offset, positions=kept), spans, made_anew, self.losses)
        gained = {q: spans[q] for q in self._expected.keys() - before if q in spans}
        now = mended | self._taken_over(gained, offset)
        jumped = {q: p for q, p in now.items() if p != offset.positions.get(q)}
        mine = {queue: span for queue, span in spans.items() if queue in self._expected}
        return Standing(offset.positions | now, jumped, mine)

    def hold_for_replay(self, queues: Iterable[MessageQueue]) -> None:
        """Own what can be owned of an earlier batch; the rest is read all the same."""
        self._take(self._enter(), queues)

    def close(self) -> None:
        """Give everything back and leave the group. Idempotent."""
        keeper, self._keeper = self._keeper, None
        self._expected.clear()
        if keeper is not None:
            keeper.release()
            self._membership.leave()
        self.client.close()

    def _lease_of(self, queue: MessageQueue) -> QueueLease | None:
        """A range that is repeated while somebody else owns its queue is read without a lease."""
        return super()._lease_of(queue) if queue in self._expected else None

    def _enter(self) -> LeaseKeeper:
        self._membership.stay(self.subscription.topics())
        if self._keeper is None:
            broker, clock = self.client.broker, self.client.clock
            self._keeper = LeaseKeeper(broker, clock, self.group, self._membership.client_id)
        return self._keeper

    def _settle_in(self, spans: Mapping[MessageQueue, OffsetSpan]) -> None:
        """Wait until the others have left our share to us, or ``leaseTimeout`` is over."""
        self._has_settled = True
        clock = self.client.clock
        deadline_ms = clock.monotonic_ms() + self._options.lease_timeout_ms
        while not self._rebalance(spans):
            if clock.monotonic_ms() >= deadline_ms:
                _LOG.warning("group=%s: others still hold queues of our share", self.group)
                return
            clock.pause_ms(_POLL_MS)

    def _rebalance(self, spans: Mapping[MessageQueue, OffsetSpan]) -> bool:
        """Make what we own our share, as far as others let us; whether it is."""
        keeper = self._enter()
        share = self._share(spans)
        foreign = sorted(self._expected.keys() - share)
        if foreign:
            _LOG.info("giving back count=%s group=%s", len(foreign), self.group)
            # No batch is at work: what was read of them is written and finished.
            keeper.give_back(foreign, run_goes_on=True)
            for queue in foreign:
                del self._expected[queue]
        self._take(keeper, share)
        return share == self._expected.keys()

    def _take(self, keeper: LeaseKeeper, queues: Iterable[MessageQueue]) -> None:
        taken = keeper.try_acquire([q for q in queues if q not in self._expected])
        if taken:
            # Asked only now that nobody else can move them.
            self._expected |= self.client.broker.committed_offsets(self.group, taken)

    def _share(self, spans: Mapping[MessageQueue, OffsetSpan]) -> set[MessageQueue]:
        now_ms = self.client.clock.monotonic_ms()
        if self._asked_at_ms is None or now_ms - self._asked_at_ms >= _MEMBERS_LIFETIME_MS:
            self._members = self._membership.members()
            self._asked_at_ms = now_ms
        if self._membership.client_id not in self._members:
            # The broker is about to learn of us again: until then nothing changes hands.
            return set(self._expected)
        share: set[MessageQueue] = set()
        for topic in {queue.topic for queue in spans}:
            queues = [queue for queue in spans if queue.topic == topic]
            share.update(allocate_averagely(queues, self._members, self._membership.client_id))
        return share

    def _known_before(
        self, offset: SourceOffset, spans: Mapping[MessageQueue, OffsetSpan]
    ) -> frozenset[MessageQueue]:
        """What is not new to a query with a checkpoint: of a pattern, the topics that it names."""
        topics = {queue.topic for queue in offset.positions}
        if not self.subscription.is_open_ended or not topics:
            return frozenset(spans)
        return frozenset(queue for queue in spans if queue.topic in topics)

    def _taken_over(
        self, gained: Mapping[MessageQueue, OffsetSpan], offset: SourceOffset
    ) -> Positions:
        """Where gained queues go on: where the group stands, or the checkpoint if that is ahead.

        Where the group never was: at the first message if the queue was added since the query
        began, else where ``startingOffsetsFallback`` says.
        """
        fresh = {q: s for q, s in gained.items() if self._expected[q] is None}
        old = {q: s for q, s in fresh.items() if q in self._old}
        started = {queue: span.minimum for queue, span in fresh.items()}
        started |= self._places.start(self._options.starting, old, "startingOffsets")
        taken: Positions = {}
        for queue, span in gained.items():
            known = offset.positions.get(queue)
            committed = self._expected[queue]
            stands = max(p for p in (known, committed, -1) if p is not None)
            place = started[queue] if stands < 0 else self.losses.settle(queue, stands, span)
            taken[queue] = place
        return taken
