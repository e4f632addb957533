"""The end of work on queues: offsets committed, leases given back, all brokers side by side.

A queue is unlocked only after its offset was committed. Where that cannot be, it stays locked until
its lock ends by itself: nobody handles again what somebody else has just handled before that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from rmq_ordered.client.batches import Record
from rmq_ordered.client.connection import Client
from rmq_ordered.client.fanout import at_each
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.errors import OffsetWentBack, QueueLeaseLost, RmqOrderedError
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.ordering.progress import Phase, QueueProgress
from rmq_ordered.protocol.members import Subscription

T = TypeVar("T")
_LOG: Final = logging.getLogger("rmq_ordered.client")


@dataclass(slots=True)
class Owned:
    """One queue of ours. ``progress`` is shared and guarded; ``pull`` is its driver's alone."""

    subscription: Subscription
    progress: QueueProgress[Record]
    committed: int
    pull: PendingAnswer | None = None
    pull_after_ms: int = 0
    is_scheduled: bool = False
    # Not ours any more, or to go on elsewhere: nothing of what was done here is committed.
    is_void: bool = False
    resume_at: int | None = None
    pulled_at_ms: int = 0
    # Somebody commits it, or gives it back; one at a time, or an older offset might land last.
    is_settling: bool = False
    # Since when its last offset could not be committed.
    unsettled_since_ms: int | None = None

    def to_commit(self) -> int | None:
        """The offset that the broker does not have yet."""
        if self.is_void:
            return self.resume_at
        offset = self.progress.commit_offset
        return offset if offset > self.committed else None

    def landed(self, offset: int) -> None:
        """An offset was committed."""
        self.committed = offset
        if self.resume_at == offset:
            self.resume_at = None


class Settlement:
    """Commits and gives back. Thread-safe: with each queue one thread at a time.

    Args:
        client: where to commit.
        keeper: holds the leases.
        owned: the queues of the consumer; those that are given back are taken out.
        lock: guards ``owned`` and what is in it.
        lose: told of a queue that turned out to be somebody else's.
        patience_ms: how long a stopped queue waits for its last commit.
    """

    def __init__(
        self,
        client: Client,
        keeper: LeaseKeeper,
        owned: dict[MessageQueue, Owned],
        lock: threading.RLock,
        *,
        lose: Callable[[Owned, RmqOrderedError], None],
        patience_ms: int,
    ) -> None:
        self._client = client
        self._keeper = keeper
        self._owned = owned
        self._lock = lock
        self._lose = lose
        self._patience_ms = patience_ms

    def commit(self) -> None:
        """Commit what was handled since the last time."""
        with self._lock:
            behind = [one for one in self._owned.values() if one.to_commit() is not None]
        self._settle(behind, self._commit, None)

    def finish(self, deadline_ms: int | None = None) -> list[MessageQueue]:
        """Commit and give back the queues that have stopped; returns them.

        One whose offset cannot be committed is kept and tried again by the next call. When patience
        is over it is left locked.
        """
        with self._lock:
            ended = [one for one in self._owned.values() if one.progress.phase is Phase.STOPPED]
        outcomes = self._settle(ended, self._give_back, deadline_ms)
        return [queue for given in outcomes for queue in given]

    def leave_locked(self, owned: Sequence[Owned]) -> None:
        """Give up queues that nobody else may have yet; their locks end when nobody renews them."""
        for one in owned:
            has_stopped = one.progress.phase is Phase.STOPPED
            _LOG.warning(
                "%s stays locked until its lease ends, nobody else gets it before: %s group=%s",
                one.progress.queue,
                f"offset {one.to_commit()} could not be committed, what was handled after "
                f"{one.committed} will be handled again"
                if has_stopped
                else "the listener still works on it",
                self._keeper.group,
            )
        self._keeper.abandon([one.progress.queue for one in owned])
        with self._lock:
            for one in owned:
                self._owned.pop(one.progress.queue, None)

    def _settle(
        self,
        owned: Iterable[Owned],
        job: Callable[[Sequence[Owned], int | None], T],
        deadline_ms: int | None,
    ) -> list[T]:
        """Do something with the queues of each broker, side by side, one at a time with each."""
        batches: dict[str, list[Owned]] = {}
        with self._lock:
            for one in owned:
                if not one.is_settling:
                    one.is_settling = True
                    batches.setdefault(one.progress.queue.broker_name, []).append(one)

        def settle(batch: Sequence[Owned]) -> T:
            try:
                return job(batch, deadline_ms)
            finally:
                with self._lock:
                    for one in batch:
                        one.is_settling = False

        jobs = {name: partial(settle, batch) for name, batch in batches.items()}
        outcomes = at_each(self._client.clock, jobs, deadline_ms)
        return [one for one in outcomes.values() if not isinstance(one, RmqOrderedError)]

    def _give_back(self, ended: Sequence[Owned], deadline_ms: int | None) -> list[MessageQueue]:
        """Commit and unlock queues of one broker; returns what is ours no longer."""
        self._commit(ended, deadline_ms)
        now_ms = self._client.clock.monotonic_ms()
        done: list[MessageQueue] = []
        given_up: list[Owned] = []
        with self._lock:
            for one in ended:
                if one.to_commit() is None:
                    done.append(one.progress.queue)
                    self._owned.pop(one.progress.queue, None)
                elif one.unsettled_since_ms is None:
                    one.unsettled_since_ms = now_ms
                elif now_ms - one.unsettled_since_ms >= self._patience_ms:
                    given_up.append(one)
        self.leave_locked(given_up)
        self._keeper.give_back(done, self._left_ms(deadline_ms))
        for queue in done:
            _LOG.info("queue given back queue=%s group=%s", queue, self._keeper.group)
        return done + [one.progress.queue for one in given_up]

    def _commit(self, owned: Sequence[Owned], deadline_ms: int | None) -> None:
        """Commit what can be; what fails stays to be committed, what is lost is void."""
        positions: dict[MessageQueue, int] = {}
        leases: dict[MessageQueue, QueueLease] = {}
        by_queue = {one.progress.queue: one for one in owned}
        for queue, one in by_queue.items():
            try:
                lease = self._keeper.lease(queue)
            except QueueLeaseLost as error:
                self._lose(one, error)
                continue
            with self._lock:
                offset, is_void = one.to_commit(), one.is_void
            if offset is not None:
                positions[queue] = offset
                # Under a lease an offset never goes back; where an operator wants it to, it must.
                leases |= {} if is_void else {queue: lease}
        failures = self._client.broker.try_commit_offsets(
            self._keeper.group, positions, leases=leases, timeout_ms=self._left_ms(deadline_ms)
        )
        with self._lock:
            for queue in positions.keys() - failures.keys():
                by_queue[queue].landed(positions[queue])
        for queue, failure in failures.items():
            if isinstance(failure, QueueLeaseLost | OffsetWentBack):
                self._lose(by_queue[queue], failure)
            else:
                _LOG.warning("could not commit, will try again: %s", failure)

    def _left_ms(self, deadline_ms: int | None) -> int | None:
        if deadline_ms is None:
            return None
        return max(0, deadline_ms - self._client.clock.monotonic_ms())
