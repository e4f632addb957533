"""When a client may believe that a queue is its own.

    UNHELD --granted--> HELD --refused, other epoch, or trust ran out--> LOST (for ever)

The broker keeps a lock for 60 s after the last renewal it saw; we trust it for less (30 s), counted
from the moment the granted *request* was sent, so that our trust always ends first. A loss is
final: on a broker without fencing a later grant proves only that the lock was free at that moment,
not that nobody was there in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rmq_ordered.model import MessageQueue, QueueLease


@dataclass(slots=True)
class _Holding:
    asked_at_ms: int
    epoch: int | None
    lost_because: str | None = None


@dataclass(slots=True)
class LeaseTable:
    """What one client of one group knows of its leases. Not thread-safe; it never reads a clock."""

    group: str
    client_id: str
    trust_ms: int
    _holdings: dict[MessageQueue, _Holding] = field(default_factory=dict)

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """Every queue that was ever granted and not dropped since, lost ones included."""
        return tuple(sorted(self._holdings))

    def granted(
        self, queue: MessageQueue, asked_at_ms: int, now_ms: int, epoch: int | None
    ) -> None:
        """A lock request sent at ``asked_at_ms`` was granted."""
        holding = self._holdings.get(queue)
        if holding is None:
            self._holdings[queue] = _Holding(asked_at_ms, epoch)
            return
        self._note_expiry(holding, now_ms)
        if holding.lost_because is not None:
            return
        if holding.epoch != epoch:
            holding.lost_because = (
                f"the broker renewed it with epoch {epoch} instead of {holding.epoch}, "
                "so it was given up or held by another client in between"
            )
            return
        holding.asked_at_ms = max(holding.asked_at_ms, asked_at_ms)

    def refused(self, queue: MessageQueue, owner: str | None) -> None:
        """A renewal was refused."""
        by = owner or "another client"
        self._lost(queue, f"the broker refused to renew it; it is held by {by}")

    def gone(self, queue: MessageQueue) -> None:
        """The queue's topic is not there any more."""
        self._lost(queue, f"topic {queue.topic} is gone, it was deleted")

    def dropped(self, queue: MessageQueue) -> None:
        """The lease was given back on purpose."""
        self._holdings.pop(queue, None)

    def loss(self, queue: MessageQueue, now_ms: int) -> str | None:
        """Why the queue is not ours, or None while it is."""
        holding = self._holdings.get(queue)
        if holding is None:
            return "it was never granted to this client"
        self._note_expiry(holding, now_ms)
        return holding.lost_because

    def lease(self, queue: MessageQueue) -> QueueLease:
        """The token of a queue that was granted."""
        return QueueLease(self.group, queue, self.client_id, self._holdings[queue].epoch)

    def _lost(self, queue: MessageQueue, because: str) -> None:
        holding = self._holdings.get(queue)
        if holding is not None and holding.lost_because is None:
            holding.lost_because = because

    def _note_expiry(self, holding: _Holding, now_ms: int) -> None:
        if holding.lost_because is None and now_ms - holding.asked_at_ms > self.trust_ms:
            holding.lost_because = (
                f"its last granted renewal was asked for {now_ms - holding.asked_at_ms} ms ago, "
                f"and a lease is trusted for {self.trust_ms} ms"
            )
