"""The broker's side of queue locks, as simple as it can be written: a model to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rmq_ordered.model import LockAnswer, MessageQueue

# RocketMQ 5.x RebalanceLockManager: a lock lives 60 s after the last time it was asked for.
LOCK_LIFETIME_MS: Final = 60_000


@dataclass(slots=True)
class Lock:
    """Who holds a queue for a group, since when, and the number of this tenure."""

    owner: str | None
    epoch: int
    granted_at_ms: int
    renewed_at_ms: int


class LockTable:
    """Expiry is computed when asked. An epoch ends with an unlock, an expiry or another owner."""

    def __init__(self, lifetime_ms: int = LOCK_LIFETIME_MS) -> None:
        self._lifetime_ms = lifetime_ms
        self.locks: dict[tuple[str, MessageQueue], Lock] = {}

    def owner(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """Who holds the queue now."""
        lock = self.locks.get((group, queue))
        if lock is None or now_ms - lock.renewed_at_ms > self._lifetime_ms:
            return None
        return lock.owner

    def epoch(self, group: str, queue: MessageQueue) -> int:
        """The number of the present or last tenure; 0 if there never was one."""
        lock = self.locks.get((group, queue))
        return 0 if lock is None else lock.epoch

    def lock(self, group: str, client_id: str, queue: MessageQueue, now_ms: int) -> LockAnswer:
        """Grant, renew or refuse."""
        owner = self.owner(group, queue, now_ms)
        if owner == client_id:
            self.locks[group, queue].renewed_at_ms = now_ms
        elif owner is None:
            epoch = self.epoch(group, queue) + 1
            self.locks[group, queue] = Lock(client_id, epoch, now_ms, now_ms)
        is_granted = owner in (None, client_id)
        return LockAnswer(
            queue, is_granted, client_id if is_granted else owner, self.epoch(group, queue)
        )

    def unlock(self, group: str, client_id: str, queue: MessageQueue) -> None:
        """Give up a lock; somebody else's is left alone."""
        lock = self.locks.get((group, queue))
        if lock is not None and lock.owner == client_id:
            lock.owner = None

    def lose_memory(self) -> None:
        """What a restart does to a broker that keeps its locks in memory."""
        self.locks.clear()
