"""What the driver-side reader holds while a run lasts: client, leases, committed offsets.

It lives in one process for the whole run and is never pickled. Everything about ownership fails
closed: a lease that cannot be confirmed ends the query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from rmq_ordered.client.leases import LeaseKeeper, release_predecessors
from rmq_ordered.client.reader import ANONYMOUS_GROUP, ReadPlan
from rmq_ordered.client.retry import retry_until
from rmq_ordered.errors import BrokerError, QueueLeaseLost
from rmq_ordered.model import MessageQueue, OffsetSpan, QueueRange
from rmq_ordered.net.system import fresh_client_id
from rmq_ordered.options import LeaseMode, SourceOptions, StartPosition
from rmq_ordered.ordering.offsets import Positions
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.partition import QueuePartition, Witness
from rmq_ordered.spark.positions import LossPolicy, Places
from rmq_ordered.spark.selection import Subscription

_LOG: Final = logging.getLogger("rmq_ordered.spark")
# Long enough for a broker to restart, shorter than the trust in a lease.
_COMMIT_PATIENCE_MS: Final = 20_000


class SourceRun:
    """One run of a streaming source, or the planning of one batch read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.client = open_client(options.connection)
        self.subscription = Subscription(self.client, options.selection, options.wait_for_topic_ms)
        self.losses = LossPolicy(fails=options.fail_on_data_loss)
        self._places = Places(self.client, self.group, self.losses)
        self._keeper: LeaseKeeper | None = None
        self._expected: dict[MessageQueue, int | None] = {}

    @property
    def group(self) -> str:
        """The consumer group; a name that commits nothing when the user gave none."""
        return self._options.group or ANONYMOUS_GROUP

    def spans(self) -> dict[MessageQueue, OffsetSpan]:
        """What the brokers hold of every queue now; one request per broker and topic."""
        return self.subscription.spans()

    def own(self, queues: Iterable[MessageQueue]) -> None:
        """Own these queues for the group, or raise; with ``leaseMode=none`` do nothing."""
        if self._options.lease_mode is LeaseMode.NONE:
            return
        new = [queue for queue in sorted(queues) if queue not in self._expected]
        if self._keeper is None:
            self._keeper = self._register(new)
        if new:
            self._keeper.acquire(new, self._options.lease_timeout_ms)
            for queue in new:
                self._expected[queue] = self.client.broker.committed_offset(self.group, queue)
        self._keeper.ensure_held()

    def starting_positions(self, spans: Mapping[MessageQueue, OffsetSpan]) -> Positions:
        """Where a query without a checkpoint begins."""
        self.subscription.ensure_complete()
        self._places.ensure_known(self._options.starting, spans, "startingOffsets")
        return self._places.resolve(self._options.starting, spans, "startingTimestamp")

    def ending_positions(self, spans: Mapping[MessageQueue, OffsetSpan]) -> Positions:
        """Where a batch read ends."""
        self._places.ensure_known(self._options.ending, spans, "endingOffsets")
        return self._places.resolve(self._options.ending, spans, "endingTimestamp")

    def joining_positions(
        self, known: Mapping[MessageQueue, int], spans: Mapping[MessageQueue, OffsetSpan]
    ) -> Positions:
        """Where queues begin that a running query has not read yet.

        A new queue of a topic that is being read, or a new topic of a pattern: at its first
        message, unless the group stands somewhere. A topic that was added to the subscription:
        where a new query would begin.
        """
        topics = {queue.topic for queue in known}
        joining = {queue: span for queue, span in spans.items() if queue not in known}
        starts_late = self._options.starting.position is StartPosition.LATEST
        is_from_beginning = self.subscription.is_open_ended and starts_late
        added = {
            queue: span
            for queue, span in joining.items()
            if queue.topic not in topics and not is_from_beginning
        }
        first = {queue: span.minimum for queue, span in joining.items()}
        return first | self._places.resolve(self._options.starting, added, "startingTimestamp")

    def committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's committed offsets as this run last wrote or found them."""
        return {queue: self._expected.get(queue) for queue in queues}

    def commit(self, positions: Mapping[MessageQueue, int]) -> None:
        """Commit finished offsets for the group; never moves one back, never without the lease."""
        if self._keeper is None:
            return
        for queue, position in sorted(positions.items()):
            committed = self._expected.get(queue)
            if queue in self._expected and (committed is None or position > committed):
                self._commit_one(self._keeper, queue, position)
                self._expected[queue] = position

    def partitions(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> list[QueuePartition]:
        """One partition per queue with something to read, each carrying its lease."""
        return [
            self._partition(QueueRange(queue, first, last))
            for queue, (first, last) in sorted(ranges.items())
        ]

    def close(self) -> None:
        """Give the leases back and close every connection. Idempotent."""
        keeper, self._keeper = self._keeper, None
        self._expected.clear()
        if keeper is not None:
            keeper.release()
        self.client.close()

    def _register(self, queues: list[MessageQueue]) -> LeaseKeeper:
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
        if instance is not None:
            self._take_over(instance, queues)
        return LeaseKeeper(broker, self.client.clock, self.group, client_id)

    def _take_over(self, instance: str, queues: list[MessageQueue]) -> None:
        try:
            release_predecessors(self.client.broker, self.group, instance, queues)
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            _LOG.warning(
                "instanceId=%s has no effect here, a dead run is waited for: %s", instance, error
            )

    def _commit_one(self, keeper: LeaseKeeper, queue: MessageQueue, position: int) -> None:
        lease = keeper.lease(queue)
        expected = self._expected[queue]

        def attempt() -> None:
            if lease.epoch is None:
                found = self.client.broker.committed_offset(self.group, queue)
                if found == position:
                    return
                ensure_witness(Witness(lease, expected), found)
            self.client.broker.commit_offset(self.group, queue, position, lease=lease)

        deadline_ms = self.client.clock.monotonic_ms() + _COMMIT_PATIENCE_MS
        retry_until(self.client.clock, deadline_ms, attempt)

    def _partition(self, queue_range: QueueRange) -> QueuePartition:
        queue = queue_range.queue
        features = self.client.routes.features(queue.topic)
        if self._keeper is None:
            return QueuePartition(ReadPlan(queue_range, self.group, None, features))
        lease = self._keeper.lease(queue)
        witness = Witness(lease, self._expected[queue]) if lease.epoch is None else None
        return QueuePartition(ReadPlan(queue_range, self.group, lease, features), witness)


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
