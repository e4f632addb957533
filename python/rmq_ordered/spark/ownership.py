"""What the driver-side reader holds while a run lasts: client, leases, committed offsets.

It lives in one process for the whole run and is never pickled. Everything about ownership fails
closed: a lease that cannot be confirmed ends the query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rmq_ordered.client.instances import InstanceRun
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.client.plan import (
    ALL_MESSAGES,
    ANONYMOUS_GROUP,
    SQL92_EXPRESSION,
    TAG_EXPRESSION,
    ReadPlan,
)
from rmq_ordered.client.retry import retry_until
from rmq_ordered.errors import QueueLeaseLost, RmqOrderedError
from rmq_ordered.model import MessageQueue, OffsetSpan, QueueLease, QueueRange
from rmq_ordered.net.system import fresh_client_id
from rmq_ordered.options import Boundary, LeaseMode, SourceOptions, StartPosition
from rmq_ordered.ordering.offsets import Positions, SourceOffset
from rmq_ordered.ordering.report import SourceReport
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.partition import QueuePartition, Witness
from rmq_ordered.spark.positions import LossPolicy, Places
from rmq_ordered.spark.resume import mend
from rmq_ordered.spark.selection import Subscription

_LOG: Final = logging.getLogger("rmq_ordered.spark")
# Long enough for a broker to restart, shorter than the trust in a lease.
_PATIENCE_MS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands before it plans a batch.

    Attributes:
        positions: The next offset of every queue that it knows.
        jumped: Those that do not go on from where the checkpoint had them.
        spans: What can be read: the queues that it owns, and what the brokers hold of them.
    """

    positions: Positions
    jumped: Positions
    spans: Mapping[MessageQueue, OffsetSpan]


class SourceRun:
    """One run of a streaming source, or the planning of one batch read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.client = open_client(options.connection)
        self.subscription = Subscription(self.client, options.selection, options.wait_for_topic_ms)
        self.losses = LossPolicy(fails=options.fail_on_data_loss)
        self._places = Places(self.client, self.group, self.losses)
        self._keeper: LeaseKeeper | None = None
        self._run: InstanceRun | None = None
        self._expected: dict[MessageQueue, int | None] = {}
        self._has_looked = False

    @property
    def group(self) -> str:
        """The consumer group; a name that commits nothing when the user gave none."""
        return self._options.group or ANONYMOUS_GROUP

    def spans(self) -> dict[MessageQueue, OffsetSpan]:
        """What the brokers hold of every queue now; one request per broker and topic.

        Brokers that are away are waited for, but not by a run that has not seen them yet: an
        address that is wrong is told at once.
        """
        patience_ms = _PATIENCE_MS if self._has_looked else 0
        deadline_ms = self.client.clock.monotonic_ms() + patience_ms
        spans = retry_until(self.client.clock, deadline_ms, self._look)
        self._has_looked = True
        return spans

    def _look(self) -> dict[MessageQueue, OffsetSpan]:
        try:
            spans = self.subscription.spans()
            if self.losses.fails:
                self._ensure_all_there(spans)
        except RmqOrderedError as error:
            # Who slept for long finds every answer late; what matters is that its leases are over.
            if error.retryable and self._keeper is not None:
                self._keeper.ensure_held()
            raise
        return spans

    def _ensure_all_there(self, spans: Mapping[MessageQueue, OffsetSpan]) -> None:
        """Where queues of ours are not, say that their broker is away before they look like lost.

        That a topic was deleted is told elsewhere.
        """
        missing = {queue.topic for queue in self._expected.keys() - spans.keys()}
        for topic in sorted(missing.intersection(self.subscription.topics())):
            self.client.routes.ensure_complete(topic)

    def own(self, queues: Iterable[MessageQueue]) -> None:
        """Own these queues for the group, or raise; with ``leaseMode=none`` do nothing."""
        if self._options.lease_mode is LeaseMode.NONE:
            return
        new = [queue for queue in sorted(queues) if queue not in self._expected]
        if self._keeper is None:
            self._keeper = self._register()
        if new:
            self._keeper.acquire(new, self._options.lease_timeout_ms)
            if self._run is not None:
                self._run.forget_earlier()
            self._expected |= self.client.broker.committed_offsets(self.group, new)
        self._keeper.ensure_held()

    def begin(self) -> tuple[dict[MessageQueue, OffsetSpan], Positions]:
        """Own the queues; what they hold, and where a query without a checkpoint begins."""
        self.own(self.spans())
        # Owned first, looked up second: the previous owner may have committed until the hand-over.
        spans = self.spans()
        return spans, self.starting_positions(spans)

    def hold(
        self,
        offset: SourceOffset,
        spans: Mapping[MessageQueue, OffsetSpan],
        made_anew: frozenset[MessageQueue],
    ) -> Standing:
        """Own every queue and commit what is finished; ``offset`` ends the last finished batch."""
        self._let_go_of_dropped(offset, spans)
        mended = mend(offset, spans, made_anew, self.losses)
        self.own(spans)
        self.commit({q: p for q, p in offset.positions.items() if mended[q] == p and q in spans})
        jumped = {q: p for q, p in mended.items() if p != offset.positions[q]}
        jumped |= self.joining_positions(mended, spans)
        return Standing(mended | jumped, jumped, spans)

    def hold_for_replay(self, queues: Iterable[MessageQueue]) -> None:
        """Own what a batch of an earlier run is read from again."""
        self.own(queues)

    def starting_positions(self, spans: Mapping[MessageQueue, OffsetSpan]) -> Positions:
        """Where a query without a checkpoint begins."""
        self.subscription.ensure_complete()
        self._places.ensure_known(self._options.starting, spans, "startingOffsets")
        until = {q: at for q, at in self._options.ending.offsets.items() if at >= 0}
        return self._places.start(self._options.starting, spans, "startingTimestamp", until)

    def ending_positions(self, spans: Mapping[MessageQueue, OffsetSpan]) -> Positions:
        """Where a batch read ends."""
        self._places.ensure_known(self._options.ending, spans, "endingOffsets")
        return self._places.end(self._options.ending, spans, "endingTimestamp")

    def joining_positions(
        self, known: Mapping[MessageQueue, int], spans: Mapping[MessageQueue, OffsetSpan]
    ) -> Positions:
        """Where queues begin that a running query has not read yet.

        A new queue of a topic that is being read: at its first message. A new topic of a pattern:
        there too, whatever a new query would do, unless ``startingOffsets`` names its queues, or
        is ``group`` and the group stands somewhere. A topic that was added to the subscription:
        where a new query would begin.
        """
        topics = {queue.topic for queue in known}
        joining = {queue: span for queue, span in spans.items() if queue not in known}
        added = {queue: span for queue, span in joining.items() if queue.topic not in topics}
        first = {queue: span.minimum for queue, span in joining.items()}
        starting = self._options.starting
        if self.subscription.is_open_ended:
            starting = _from_the_first(starting)
        return first | self._places.start(starting, added, "startingTimestamp")

    def commit(self, positions: Mapping[MessageQueue, int]) -> None:
        """Commit finished offsets for the group; never moves one back, never without the lease."""
        if self._keeper is None:
            return
        progress: Positions = {}
        for queue, position in sorted(positions.items()):
            committed = self._expected.get(queue)
            if queue in self._expected and (committed is None or position > committed):
                progress[queue] = position
        if progress:
            self._commit_all(self._keeper, progress)
            self._expected |= progress

    def partitions(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> list[QueuePartition]:
        """One partition per queue with something to read, each carrying its lease."""
        if self._keeper is not None:
            self._keeper.ensure_held()
        return [
            self._partition(QueueRange(queue, first, last))
            for queue, (first, last) in sorted(ranges.items())
        ]

    def report(self, ends: Positions) -> SourceReport:
        """Where these queues end, and under which leases this run reads them."""
        if self._keeper is None:
            return SourceReport(ends)
        keeper = self._keeper
        epochs = {queue: keeper.lease(queue).epoch for queue in self._expected}
        return SourceReport(ends, self.group, keeper.client_id, epochs)

    def close(self) -> None:
        """Give the leases back and close every connection. Idempotent."""
        keeper, self._keeper = self._keeper, None
        self._expected.clear()
        if keeper is not None:
            keeper.release()
        if self._run is not None:
            self._run.leave()
        self.client.close()

    def _let_go_of_dropped(
        self, offset: SourceOffset, spans: Mapping[MessageQueue, OffsetSpan]
    ) -> None:
        """Own nothing of topics that were dropped from the offsets: their leases would run out.

        They are not unlocked: the topic is gone, and with it the way to its locks.
        """
        dropped = [q for q in self._expected if q not in spans and q not in offset.positions]
        if self._keeper is not None and dropped:
            self._keeper.abandon(dropped)
            for queue in dropped:
                del self._expected[queue]

    def _register(self) -> LeaseKeeper:
        """Make the group known (so that mqadmin sees it) without staying a member of it."""
        broker, topics = self.client.broker, self.subscription.topics()
        instance = self._options.instance_id
        client_id = fresh_client_id("spark") if instance is None else _instance_client_id(instance)
        broker.heartbeat(client_id, self.group, topics)
        others = [
            member for member in broker.group_members(self.group, topics) if member != client_id
        ]
        broker.leave_group(client_id, self.group, topics)
        if others:
            _LOG.warning(
                "group=%s has other members, which compete for its queues: %s", self.group, others
            )
        if instance is None:
            return LeaseKeeper(broker, self.client.clock, self.group, client_id)
        # Recorded before the first lock, so that the next run knows as whom it may unlock.
        self._run = InstanceRun(self.client.kv, self.group, instance)
        self._run.enter(client_id)
        return LeaseKeeper(
            broker,
            self.client.clock,
            self.group,
            client_id,
            predecessors=self._run.predecessors(),
            announce=self._run.enter,
        )

    def _commit_all(self, keeper: LeaseKeeper, positions: Positions) -> None:
        """Commit in one go, again and again until all have landed or patience ends."""
        leases = {queue: keeper.lease(queue) for queue in positions}

        def attempt() -> None:
            unfenced = [queue for queue, lease in leases.items() if lease.epoch is None]
            found = self.client.broker.committed_offsets(self.group, unfenced)
            # What an earlier attempt has left there is ours and need not be sent again.
            landed = {queue for queue in unfenced if found[queue] == positions[queue]}
            for queue in found.keys() - landed:
                ensure_witness(Witness(leases[queue], self._expected[queue]), found[queue])
            rest = {queue: at for queue, at in positions.items() if queue not in landed}
            self.client.broker.commit_offsets(self.group, rest, leases=leases)

        deadline_ms = self.client.clock.monotonic_ms() + _PATIENCE_MS
        retry_until(self.client.clock, deadline_ms, attempt)

    def _partition(self, queue_range: QueueRange) -> QueuePartition:
        queue, lease = queue_range.queue, self._lease_of(queue_range.queue)
        features = self.client.routes.features(queue.topic)
        plan = ReadPlan(queue_range, self.group, lease, features, *self._filter())
        if lease is None or lease.epoch is not None:
            return QueuePartition(plan)
        return QueuePartition(plan, Witness(lease, self._expected[queue]))

    def _lease_of(self, queue: MessageQueue) -> QueueLease | None:
        """The right to read a queue; raises QueueLeaseLost where one is needed and not held."""
        return None if self._keeper is None else self._keeper.lease(queue)

    def _filter(self) -> tuple[str, str]:
        """The expression that the broker filters by, and what kind it is."""
        if self._options.sql92 is not None:
            return self._options.sql92, SQL92_EXPRESSION
        tags = self._options.tags
        return ALL_MESSAGES if tags is None else " || ".join(tags), TAG_EXPRESSION


def _from_the_first(starting: Boundary) -> Boundary:
    """The same for topics that were not there when the query began: nothing of them is left out."""
    is_group = starting.position is StartPosition.GROUP
    position = StartPosition.GROUP if is_group else StartPosition.EARLIEST
    return Boundary(position, StartPosition.EARLIEST, starting.offsets)


def ensure_witness(witness: Witness, found: int | None) -> None:
    """Raise QueueLeaseLost when the group's committed offset is not what this run left there."""
    if found != witness.expected:
        lease = witness.lease
        raise QueueLeaseLost(
            lease.group,
            lease.queue,
            lease.client_id,
            f"the group's committed offset is {found}, but this run left {witness.expected}: "
            "another consumer of the group was there",
        )


def _instance_client_id(instance: str) -> str:
    return f"{instance}#{fresh_client_id('run')}"
