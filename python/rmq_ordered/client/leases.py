"""Holding queues for a consumer group: take, renew, notice loss, give back.

The rules (when to trust, what counts as lost) are in ``ordering.lease``; this file adds the broker,
the clock and the renewing thread. Everything unknown counts as "not ours".
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

from rmq_ordered.client.broker import BrokerOperations
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
    final.
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
    ) -> None:
        self.group = group
        self.client_id = client_id
        self._broker = broker
        self._clock = clock
        self._renew_ms = renew_ms
        self._table = LeaseTable(group, client_id, trust_ms)
        # Everything ever asked for and not given back: an answer that never came may be a grant.
        self._asked: set[MessageQueue] = set()
        self._lock = threading.Lock()
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

    def lease(self, queue: MessageQueue) -> QueueLease:
        """The token of a queue that is ours now; raises QueueLeaseLost."""
        self.ensure_held([queue])
        with self._lock:
            return self._table.lease(queue)

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
        with self._lock:
            queues = self._table.queues
        if not queues:
            return
        asked_at_ms = self._clock.monotonic_ms()
        answers, failure = self._ask(queues)
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
        if failure is not None:
            raise failure

    def release(self) -> None:
        """Stop renewing and unlock everything. Idempotent.

        A broker that cannot be reached keeps the locks until they end.
        """
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None
        with self._lock:
            for queue in self._table.queues:
                self._table.dropped(queue)
            queues = sorted(self._asked)
            self._asked.clear()
        if queues and self._unlock(queues):
            _LOG.info(
                "queues released count=%s group=%s client=%s",
                len(queues),
                self.group,
                self.client_id,
            )

    def _ask(
        self, queues: Sequence[MessageQueue]
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        """Lock at every broker by itself: one that is away must not cost the others' answers."""
        answers: list[LockAnswer] = []
        failure: RmqOrderedError | None = None
        for of_broker in _by_broker(queues):
            try:
                answers += self._broker.lock(self.group, self.client_id, of_broker)
            except RmqOrderedError as error:
                failure = error
        return answers, failure

    def _take_prefix(
        self, wanted: Sequence[MessageQueue]
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        """Ask for all, keep those before the first that was not granted; returns the latter."""
        asked_at_ms = self._clock.monotonic_ms()
        with self._lock:
            self._asked.update(wanted)
        answered, failure = self._ask(wanted)
        by_queue = {answer.queue: answer for answer in answered}
        # No answer is no grant. If it was granted all the same, asking again is a renewal.
        answers = [by_queue.get(queue, LockAnswer(queue, granted=False)) for queue in wanted]
        keep = list(itertools.takewhile(lambda answer: answer.granted, answers))
        refused = [answer for answer in answers if not answer.granted]
        give_back = [answer.queue for answer in answers[len(keep) :] if answer.granted]
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            for answer in keep:
                self._table.granted(answer.queue, asked_at_ms, now_ms, answer.epoch)
        if keep:
            _LOG.info(
                "queues leased count=%s group=%s client=%s", len(keep), self.group, self.client_id
            )
            self._start_renewing()
        if give_back:
            self._unlock(give_back)
        return refused, failure

    def _give_up(
        self, refused: Sequence[LockAnswer], waited_ms: int, failure: RmqOrderedError | None
    ) -> NoReturn:
        """Hold nothing, also not what a lost answer may have granted, and say why."""
        self.release()
        if failure is not None:
            raise failure
        owners = [(answer.queue, answer.owner) for answer in refused]
        raise QueueLeaseUnavailable(self.group, waited_ms, owners)

    def _unlock(self, queues: Sequence[MessageQueue]) -> bool:
        """Unlock at every broker by itself; whether all of them answered."""
        is_done = True
        for of_broker in _by_broker(queues):
            try:
                self._broker.unlock(self.group, self.client_id, of_broker)
            except RmqOrderedError as error:
                is_done = False
                _LOG.warning("could not unlock, locked until the lease ends: %s", error)
        return is_done

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


def release_predecessors(
    broker: BrokerOperations, group: str, instance_id: str, queues: Iterable[MessageQueue]
) -> int:
    """Unlock what earlier runs of the same instance still hold; returns how many queues that were.

    Needs the embedded broker's lease table. The new run then locks under a client id of its own, so
    that the old one's renewals are refused and its epochs are stale.
    """
    wanted = set(queues)
    table, _ = broker.leases(group=group)
    stale: dict[str, list[MessageQueue]] = {}
    for row in table:
        if row.is_live and row.queue in wanted and row.client_id.startswith(f"{instance_id}#"):
            stale.setdefault(row.client_id, []).append(row.queue)
    for client_id, held in stale.items():
        broker.unlock(group, client_id, held)
        _LOG.info("took over count=%s group=%s from=%s", len(held), group, client_id)
    return sum(len(held) for held in stale.values())


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    grouped: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        grouped.setdefault(queue.broker_name, []).append(queue)
    return list(grouped.values())


def _log_waiting(group: str, refused: Sequence[LockAnswer], waited_ms: int) -> None:
    owners = sorted({answer.owner or "another client" for answer in refused})
    _LOG.info(
        "waiting for %s queues group=%s for_ms=%s owners=%s", len(refused), group, waited_ms, owners
    )
