"""Holding queues for a consumer group: take, renew, notice loss, give back.

The rules (when to trust, what counts as lost) are in ``ordering.lease``, the requests in
``client.locking``; this file adds the clock and the renewing thread. Everything unknown counts as
"not ours".
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from rmq_ordered.client.broker import BrokerOperations
from rmq_ordered.client.instances import Predecessor
from rmq_ordered.client.locking import QueueLocks
from rmq_ordered.clock import Clock
from rmq_ordered.errors import (
    QueueLeaseLost,
    QueueLeaseUnavailable,
    RmqOrderedError,
    TransportError,
)
from rmq_ordered.model import LockAnswer, MessageQueue, QueueLease
from rmq_ordered.ordering.lease import LeaseTable

_LOG: Final = logging.getLogger("rmq_ordered.client")

# RocketMQ's three lifetimes, in this order: renew every 20 s, trust for 30 s, the broker keeps 60
# s.
RENEW_MS: Final = 20_000
TRUST_MS: Final = 30_000
# After a failed renewal there are ten seconds of trust left: try often.
_RENEW_RETRY_MS: Final = 1_000
_ACQUIRE_POLL_MS: Final = 500
_PROGRESS_LOG_MS: Final = 5_000


class LeaseKeeper:
    """The leases of one client of one group. Thread-safe; renews on a daemon thread of its own.

    Invariant: ``lease`` and ``ensure_held`` answer only while the table trusts the queue; a loss is
    final until the queue is given back.

    >>> from rmq_ordered.client import Client
    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("claims", 1)
    ...     (queue,) = client.routes.readable("claims")
    ...     keepers = [
    ...         LeaseKeeper(client.broker, client.clock, "adjusters", run) for run in ("r-1", "r-2")
    ...     ]
    ...     [keeper.try_acquire([queue]) == [queue] for keeper in keepers]
    ...     keepers[0].release()
    ...     keepers[1].try_acquire([queue]) == [queue]
    [True, False]
    True

    Args:
        broker: where to lock.
        clock: for durations.
        group: whose queues these are.
        client_id: under which to lock; nobody else, and no other run, may ever use it.
        trust_ms: how long to believe a grant, less than the broker keeps it.
        renew_ms: how often to renew, less than ``trust_ms``.
        predecessors: earlier runs of this client, from whom it may take queues over.
        announce: told every further client id before it is used.
    """

    def __init__(
        self,
        broker: BrokerOperations,
        clock: Clock,
        group: str,
        client_id: str,
        *,
        trust_ms: int = TRUST_MS,
        renew_ms: int = RENEW_MS,
        predecessors: Sequence[Predecessor] = (),
        announce: Callable[[str], None] = lambda client_id: None,
    ) -> None:
        self.group = group
        self.client_id = client_id
        self._clock = clock
        self._renew_ms = renew_ms
        self._trust_ms = trust_ms
        self._table = LeaseTable(group, client_id, trust_ms)
        self._predecessors = tuple(predecessors)
        self._locks = QueueLocks(broker, group, client_id, announce)
        # Until when an earlier run, alive somewhere, may still believe in what was taken over.
        self._settled_at_ms: int | None = None
        self._lock = threading.Lock()
        # One exchange with the brokers at a time: a renewal must not overtake an unlock.
        self._exchange = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, queues: Iterable[MessageQueue], timeout_ms: int) -> None:
        """Own every one of these queues, or raise QueueLeaseUnavailable.

        Queues are taken in their sorted order, and only those before the first refused one are kept
        while waiting: of two clients that want the same queues, one always gets them all.
        """
        started_ms = self._clock.monotonic_ms()
        last_log_ms = started_ms
        with self._lock:
            held = set(self._table.queues)
        wanted = [queue for queue in sorted(queues) if queue not in held]
        while wanted:
            refused, failure = self._take_prefix(wanted)
            if not refused:
                break
            now_ms = self._clock.monotonic_ms()
            is_final = failure is not None and not failure.retryable
            if is_final or now_ms - started_ms >= timeout_ms:
                self._give_up(refused, now_ms - started_ms, failure)
            if now_ms - last_log_ms >= _PROGRESS_LOG_MS:
                last_log_ms = now_ms
                _log_waiting(self.group, refused, now_ms - started_ms)
            wanted = wanted[wanted.index(refused[0].queue) :]
            self._clock.pause_ms(_ACQUIRE_POLL_MS)
        self._start_renewing()
        self._settle()

    def try_acquire(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Ask once for queues not held yet; returns those that are ours now, in their order.

        For members of a shared group, who are assigned their queues and need not take them all. A
        broker that cannot be reached grants nothing.
        """
        with self._lock:
            held = set(self._table.queues)
        wanted = [queue for queue in sorted(queues) if queue not in held]
        if not wanted:
            return []
        asked_at_ms = self._clock.monotonic_ms()
        with self._exchange:
            answers, failure = self._locks.ask(wanted)
            granted = self._keep([answer for answer in answers if answer.granted], asked_at_ms)
        if failure is not None:
            _LOG.warning("could not ask for queues group=%s: %s", self.group, failure)
        return [queue for queue in granted if self.is_held(queue)]

    def is_held(self, queue: MessageQueue) -> bool:
        """Whether the queue is ours now."""
        with self._lock:
            return self._table.loss(queue, self._clock.monotonic_ms()) is None

    def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock these queues, held or lost, and go on with the others.

        Whoever works on a queue must have stopped before.
        """
        given = list(queues)
        with self._exchange:
            self._drop(given)
            self._locks.give_back(given)

    def abandon(self, queues: Iterable[MessageQueue]) -> None:
        """Neither trust nor renew these queues any more, but leave them locked until that ends.

        For queues on which somebody still works: unlocked, they could be worked on twice.
        """
        left = list(queues)
        with self._exchange:
            self._drop(left)
            self._locks.forget(left)

    def lease(self, queue: MessageQueue) -> QueueLease:
        """The token of a queue that is ours now; raises QueueLeaseLost."""
        self.ensure_held([queue])
        with self._lock:
            return replace(self._table.lease(queue), client_id=self._locks.id_of(queue))

    def ensure_held(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Raise QueueLeaseLost unless these queues (default: all acquired) are ours now."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            for queue in self._table.queues if queues is None else queues:
                reason = self._table.loss(queue, now_ms)
                if reason is not None:
                    raise QueueLeaseLost(self.group, queue, self.client_id, reason)

    def renew(self) -> None:
        """Renew everything once; what counts is when the request left, not when it was answered."""
        with self._exchange:
            failure = self._renew_held()
        if failure is not None:
            raise failure

    def _renew_held(self) -> RmqOrderedError | None:
        with self._lock:
            queues = self._table.queues
        if not queues:
            return None
        asked_at_ms = self._clock.monotonic_ms()
        answers, failure = self._locks.ask(queues)
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            still_held = set(self._table.queues)
            for answer in answers:
                if answer.queue not in still_held:
                    continue  # given back while the answer was on its way: not ours again
                if answer.granted:
                    self._table.granted(answer.queue, asked_at_ms, now_ms, answer.epoch)
                else:
                    self._table.refused(answer.queue, answer.owner)
        return failure

    def release(self) -> None:
        """Stop renewing and unlock everything. Idempotent.

        A broker that cannot be reached keeps the locks until they end.
        """
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None
        with self._lock:
            held = self._table.queues
        self._drop(held)
        if count := self._locks.give_back_all():
            _LOG.info(
                "queues released count=%s group=%s client=%s", count, self.group, self.client_id
            )

    def _drop(self, queues: Iterable[MessageQueue]) -> None:
        with self._lock:
            for queue in queues:
                self._table.dropped(queue)

    def _take_prefix(
        self, wanted: Sequence[MessageQueue]
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        """Ask for all, keep those before the first that was not granted; returns the latter."""
        with self._exchange:
            return self._take_prefix_now(wanted)

    def _take_prefix_now(
        self, wanted: Sequence[MessageQueue]
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        asked_at_ms = self._clock.monotonic_ms()
        answered, failure = self._ask_or_take_over(wanted)
        by_queue = {answer.queue: answer for answer in answered}
        # No answer is no grant. If it was granted all the same, asking again is a renewal.
        answers = [by_queue.get(queue, LockAnswer(queue, granted=False)) for queue in wanted]
        keep = list(itertools.takewhile(lambda answer: answer.granted, answers))
        refused = [answer for answer in answers if not answer.granted]
        give_back = [answer.queue for answer in answers[len(keep) :] if answer.granted]
        self._keep(keep, asked_at_ms)
        if give_back:
            self._locks.unlock(give_back)
        return refused, failure

    def _keep(self, granted: Sequence[LockAnswer], asked_at_ms: int) -> list[MessageQueue]:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            for answer in granted:
                self._table.granted(answer.queue, asked_at_ms, now_ms, answer.epoch)
        if granted:
            _LOG.info(
                "queues leased count=%s group=%s client=%s",
                len(granted),
                self.group,
                self._locks.current_id,
            )
            self._start_renewing()
        return [answer.queue for answer in granted]

    def _ask_or_take_over(
        self, wanted: Sequence[MessageQueue]
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        """Ask; where refused, unlock as the earlier runs of this client and ask again.

        Only what was refused is taken: who holds it renewed at most one lock's lifetime ago.
        """
        answers, failure = self._locks.ask(wanted)
        refused = [answer.queue for answer in answers if not answer.granted]
        if not refused or not self._predecessors:
            return answers, failure
        for predecessor in self._predecessors:
            self._locks.unlock_as(predecessor.client_id, refused)
        again, late_failure = self._locks.ask(refused)
        taken = [answer for answer in again if answer.granted]
        if taken:
            self._note_take_over(taken)
        kept = [answer for answer in answers if answer.granted]
        return [*kept, *again], failure or late_failure

    def _note_take_over(self, taken: Sequence[LockAnswer]) -> None:
        """A broker with epochs fences the old run; elsewhere its trust has to run out first."""
        _LOG.info(
            "took over count=%s group=%s from=%s",
            len(taken),
            self.group,
            [one.client_id for one in self._predecessors],
        )
        is_fenced = all(answer.epoch is not None for answer in taken)
        if not is_fenced and not all(one.is_known_dead for one in self._predecessors):
            # Its last granted request left before ours was granted, so before now.
            self._settled_at_ms = self._clock.monotonic_ms() + self._trust_ms

    def _settle(self) -> None:
        """Wait until no earlier run can believe any more in what was taken from it."""
        if self._settled_at_ms is None:
            return
        _LOG.info("an earlier run may still be alive, waiting for its trust to end: %s", self.group)
        while (remaining_ms := self._settled_at_ms - self._clock.monotonic_ms()) >= 0:
            self._clock.pause_ms(min(remaining_ms + 1, _ACQUIRE_POLL_MS))
        self._settled_at_ms = None

    def _give_up(
        self, refused: Sequence[LockAnswer], waited_ms: int, failure: RmqOrderedError | None
    ) -> NoReturn:
        """Hold nothing, also not what a lost answer may have granted, and say why."""
        self.release()
        if failure is not None:
            raise failure
        owners = [(answer.queue, answer.owner) for answer in refused]
        raise QueueLeaseUnavailable(self.group, waited_ms, owners)

    def _start_renewing(self) -> None:
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(
                target=self._renew_for_ever, name="rmq-ordered leases", daemon=True
            )
            self._thread.start()

    def _renew_for_ever(self) -> None:
        pause_ms = self._renew_ms
        while not self._stopping.wait(pause_ms / 1000):
            try:
                self.renew()
                pause_ms = self._renew_ms
            except TransportError as error:
                _LOG.warning("renewal failed, will try again group=%s: %s", self.group, error)
                pause_ms = _RENEW_RETRY_MS
            except RmqOrderedError:
                # Not renewed is not held: trust runs out by itself, and ensure_held says so.
                _LOG.exception("renewal was refused group=%s client=%s", self.group, self.client_id)
                pause_ms = _RENEW_RETRY_MS


def _log_waiting(group: str, refused: Sequence[LockAnswer], waited_ms: int) -> None:
    owners = sorted({answer.owner or "another client" for answer in refused})
    _LOG.info(
        "waiting for %s queues group=%s for_ms=%s owners=%s", len(refused), group, waited_ms, owners
    )
