"""Holding queues for a consumer group: take, renew, notice loss, give back.

The rules (when to trust, what counts as lost) are in ``ordering.lease``, the requests in
``client.locking``; this file adds the clock and the renewing thread. Everything unknown counts as
"not ours".
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final, NoReturn, TypeVar

from rmq_ordered.client.broker import BrokerOperations, grouped
from rmq_ordered.client.fanout import at_each
from rmq_ordered.client.instances import Predecessor
from rmq_ordered.client.locking import QueueLocks, worst
from rmq_ordered.client.takeover import TakeOver
from rmq_ordered.clock import Clock
from rmq_ordered.errors import (
    QueueLeaseLost,
    QueueLeaseUnavailable,
    RmqOrderedError,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.model import LockAnswer, MessageQueue, QueueLease
from rmq_ordered.ordering.lease import LeaseTable

T = TypeVar("T")
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
    ...     keepers[1].release()
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
        self._table = LeaseTable(group, client_id, trust_ms)
        self._locks = QueueLocks(broker, group, client_id, announce)
        self._take_over = TakeOver(clock, group, predecessors, trust_ms)
        self._lock = threading.Lock()
        # One exchange with a broker at a time: a renewal must not overtake an unlock.
        self._exchanges: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self._stopping = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def acquire(self, queues: Iterable[MessageQueue], timeout_ms: int) -> None:
        """Own every one of these queues, or raise QueueLeaseUnavailable.

        Queues are taken in their sorted order, and only those before the first refused one are kept
        while waiting: of two clients that want the same queues, one always gets them all.

        A run that may be alive is robbed only if there is time left to wait until it must have
        noticed; only a broker with epochs makes that wait unnecessary.
        """
        started_ms = self._clock.monotonic_ms()
        last_log_ms = started_ms
        with self._lock:
            held = set(self._table.queues)
        wanted = [queue for queue in sorted(queues) if queue not in held]
        while wanted:
            refused, failure = self._take_prefix(wanted, started_ms + timeout_ms)
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
        self._take_over.settle()

    def try_acquire(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Ask once for queues; returns those of them that are ours now, in their order.

        For members of a shared group, who are assigned their queues and need not take them all.
        Nobody may work on what is asked for. What is held already is not asked for again, what was
        lost is. A broker that cannot be reached grants nothing, and neither does one whose answer
        comes when it cannot be trusted any more.
        """
        asked = sorted(queues)
        with self._lock:
            known = set(self._table.queues)
        lost = [queue for queue in asked if queue in known and not self.is_held(queue)]
        if lost:
            self.give_back(lost)
        wanted = [queue for queue in asked if not self.is_held(queue)]
        outcomes = self._at_each_broker(wanted, self._ask_and_keep)
        for outcome in outcomes.values():
            if isinstance(outcome, RmqOrderedError):
                _LOG.warning("could not ask for queues group=%s: %s", self.group, outcome)
        return [queue for queue in asked if self.is_held(queue)]

    def _ask_and_keep(self, wanted: Sequence[MessageQueue]) -> None:
        """Ask one broker; what it grants too late is given back, or nobody would have it."""
        with self._exchange(wanted):
            asked_at_ms = self._clock.monotonic_ms()
            answers, failure = self._locks.ask(wanted)
            granted = self._keep([answer for answer in answers if answer.granted], asked_at_ms)
            unusable = [q for q in granted if self._is_closed or not self.is_held(q)]
            if unusable:
                self.give_back(unusable)
        if failure is not None:
            raise failure

    def is_held(self, queue: MessageQueue) -> bool:
        """Whether the queue is ours now."""
        with self._lock:
            return self._table.loss(queue, self._clock.monotonic_ms()) is None

    def give_back(
        self,
        queues: Iterable[MessageQueue],
        timeout_ms: int | None = None,
        *,
        run_goes_on: bool = False,
    ) -> None:
        """Unlock these queues, held or lost, and go on with the others.

        Whoever works on a queue must have stopped before. A broker that does not answer in time
        keeps its queues locked until their locks end. With ``run_goes_on`` a broker that fences
        writes takes it for no loss of the run that has read them.
        """
        given = list(queues)
        self._drop(given)
        deadline_ms = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        unlock = partial(
            self._unlock_at_one_broker, deadline_ms=deadline_ms, run_goes_on=run_goes_on
        )
        self._warn_of_silence(given, self._at_each_broker(given, unlock, deadline_ms))

    def _unlock_at_one_broker(
        self, queues: Sequence[MessageQueue], *, deadline_ms: int | None, run_goes_on: bool
    ) -> None:
        with self._exchange(queues):
            # Again: what was granted to somebody meanwhile is about to be unlocked, too.
            self._drop(queues)
            left_ms = self._left_ms(deadline_ms)
            self._locks.give_back(queues, left_ms, run_goes_on=run_goes_on)

    def abandon(self, queues: Iterable[MessageQueue]) -> None:
        """Neither trust nor renew these queues any more, but leave them locked until that ends.

        For queues on which somebody still works: unlocked, they could be worked on twice.
        """
        left = list(queues)
        self._drop(left)
        self._locks.forget(left)

    def lease(self, queue: MessageQueue) -> QueueLease:
        """The token of a queue that is ours now; raises QueueLeaseLost."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            self._ensure_trusted(queue, now_ms)
            return replace(self._table.lease(queue), client_id=self._locks.id_of(queue))

    def ensure_held(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Raise QueueLeaseLost unless these queues (default: all acquired) are ours now."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            for queue in self._table.queues if queues is None else queues:
                self._ensure_trusted(queue, now_ms)

    def _ensure_trusted(self, queue: MessageQueue, now_ms: int) -> None:
        reason = self._table.loss(queue, now_ms)
        if reason is not None:
            raise QueueLeaseLost(self.group, queue, self.client_id, reason)

    def renew(self) -> None:
        """Renew everything once; what counts is when the request left, not when it was answered.

        Brokers are asked side by side: one that does not answer delays no other one's renewal.
        """
        with self._lock:
            queues = self._table.queues
        for outcome in self._at_each_broker(queues, self._renew_at_one_broker).values():
            if outcome is not None:
                raise outcome

    def _renew_at_one_broker(self, queues: Sequence[MessageQueue]) -> None:
        with self._exchange(queues):
            failure = self._renew_held(queues)
        if failure is not None:
            raise failure

    def _renew_held(self, queues: Sequence[MessageQueue]) -> RmqOrderedError | None:
        with self._lock:
            held = set(self._table.queues)
        still_ours = [queue for queue in queues if queue in held]
        if not still_ours:
            return None
        asked_at_ms = self._clock.monotonic_ms()
        answers, failures = self._locks.renew(still_ours)
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
            # A topic that is not listed may be back soon, and is asked for again while it is
            # trusted; then it was deleted, which is nothing to be told every time.
            deleted = [
                queue
                for queue, error in failures.items()
                if isinstance(error, TopicNotFound) and self._table.loss(queue, now_ms) is not None
            ]
        return worst(error for queue, error in failures.items() if queue not in deleted)

    def release(self, timeout_ms: int | None = None) -> None:
        """Stop renewing and unlock everything. Idempotent.

        A broker that cannot be reached, or does not answer in time, keeps the locks until they end.
        """
        deadline_ms = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        with self._lock:
            self._stopping.set()
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            left_ms = self._left_ms(deadline_ms)
            thread.join(None if left_ms is None else left_ms / 1000)
        with self._lock:
            held = self._table.queues
        self._drop(held)
        self._locks.forget(self._take_over.give_up())
        asked = self._locks.asked()
        outcomes = self._at_each_broker(
            asked,
            lambda batch: self._locks.give_back_asked(batch, self._left_ms(deadline_ms)),
            deadline_ms,
        )
        self._warn_of_silence(asked, outcomes)
        if asked and all(outcomes.get(queue.broker_name) is True for queue in asked):
            _LOG.info(
                "queues released count=%s group=%s client=%s",
                len(asked),
                self.group,
                self.client_id,
            )

    def close(self, timeout_ms: int) -> None:
        """Release for good: what is granted from now on is given back at once."""
        self._is_closed = True
        self.release(timeout_ms)

    def _drop(self, queues: Iterable[MessageQueue]) -> None:
        with self._lock:
            for queue in queues:
                self._table.dropped(queue)

    # Brokers side by side

    def _at_each_broker(
        self,
        queues: Sequence[MessageQueue],
        job: Callable[[Sequence[MessageQueue]], T],
        deadline_ms: int | None = None,
    ) -> dict[str, T | RmqOrderedError]:
        """Do something with the queues of each broker; its outcome by broker name."""
        batches = grouped(queues, attrgetter("broker_name"))
        jobs = {name: partial(job, batch) for name, batch in batches.items()}
        return at_each(self._clock, jobs, deadline_ms)

    @contextmanager
    def _exchange(self, queues: Iterable[MessageQueue]) -> Iterator[None]:
        """Keep other exchanges with the queues' brokers out; all take them in the same order."""
        names = sorted({queue.broker_name for queue in queues})
        with self._lock:
            exchanges = [self._exchanges[name] for name in names]
        with ExitStack() as taken:
            for exchange in exchanges:
                taken.enter_context(exchange)
            yield

    def _left_ms(self, deadline_ms: int | None) -> int | None:
        return None if deadline_ms is None else max(0, deadline_ms - self._clock.monotonic_ms())

    def _warn_of_silence(
        self, queues: Iterable[MessageQueue], outcomes: Mapping[str, object]
    ) -> None:
        """Name what could not be unlocked because there was no time."""
        silent = [str(queue) for queue in queues if queue.broker_name not in outcomes]
        if silent:
            _LOG.warning(
                "no time was left to unlock, locked until the lease ends group=%s: %s",
                self.group,
                ", ".join(silent),
            )

    def _take_prefix(
        self, wanted: Sequence[MessageQueue], deadline_ms: int
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        """Ask for all, keep those before the first that was not granted; returns the latter."""
        with self._exchange(wanted):
            return self._take_prefix_now(wanted, deadline_ms)

    def _take_prefix_now(
        self, wanted: Sequence[MessageQueue], deadline_ms: int
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        asked_at_ms = self._clock.monotonic_ms()
        answered, failure = self._ask_or_take_over(wanted, deadline_ms)
        by_queue = {answer.queue: answer for answer in answered}
        # No answer is no grant. If it was granted all the same, asking again is a renewal.
        answers = [by_queue.get(queue, LockAnswer(queue, granted=False)) for queue in wanted]
        keep = list(itertools.takewhile(lambda answer: answer.granted, answers))
        refused = [answer for answer in answers if not answer.granted]
        give_back = [
            answer.queue
            for answer in answers[len(keep) :]
            if answer.granted and not self._take_over.is_unsettled(answer.queue)
        ]
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
        self, wanted: Sequence[MessageQueue], deadline_ms: int
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        """Ask; where refused, unlock as the earlier runs of this client and ask again.

        Only what was refused is taken: who holds it renewed at most one lock's lifetime ago.
        """
        answers, failure = self._locks.ask(wanted)
        held_by_others = [answer for answer in answers if not answer.granted]
        refused = [answer.queue for answer in held_by_others]
        if not refused or not self._take_over.predecessors:
            return answers, failure
        if not self._take_over.may_begin(held_by_others, deadline_ms):
            return answers, failure
        for predecessor in self._take_over.predecessors:
            self._locks.unlock_as(predecessor.client_id, refused)
        again, late_failure = self._locks.ask(refused)
        taken = [answer for answer in again if answer.granted]
        if taken:
            self._take_over.note(taken)
        kept = [answer for answer in answers if answer.granted]
        return [*kept, *again], failure or late_failure

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
        with self._lock:
            if self._thread is not None or self._is_closed:
                return
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
            except (TransportError, TopicNotFound) as error:
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
