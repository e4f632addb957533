"""Locking and unlocking queues at their brokers, so that no answer that got lost does harm.

An unlock whose answer never came may still arrive, at any time. So the client id it carried is not
used for a new lock any more: the next locks go under another one. A late unlock then finds nothing.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from rmq_ordered.client.broker import BrokerOperations, Failures, grouped
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import LockAnswer, MessageQueue

_LOG: Final = logging.getLogger("rmq_ordered.client")


@dataclass(frozen=True, slots=True)
class _Unsure:
    """An unlock without an answer, to be repeated as it was."""

    client_id: str
    queues: list[MessageQueue]
    run_goes_on: bool


class QueueLocks:
    """What one client of one group has asked of the brokers. Thread-safe.

    Says nothing about whether a lock is still ours: that is the lease table's business.

    Args:
        broker: where to lock.
        group: whose queues these are.
        client_id: under which to lock first.
        announce: told every further client id before it is used.
    """

    def __init__(
        self,
        broker: BrokerOperations,
        group: str,
        client_id: str,
        announce: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._group = group
        self._client_id = client_id
        self._announce = announce
        # New locks go under this id; the queues in _ids were locked, or asked for, under theirs.
        self._current_id = client_id
        self._ids: dict[MessageQueue, str] = {}
        # Everything ever asked for and not given back: an answer that never came may be a grant.
        self._asked: set[MessageQueue] = set()
        # Unlocks without an answer: asked for again before the queues are locked anew.
        self._unsure: list[_Unsure] = []
        self._generations = itertools.count(1)
        self._guard = threading.Lock()

    @property
    def current_id(self) -> str:
        """Under which queues are locked from now on."""
        return self._current_id

    def id_of(self, queue: MessageQueue) -> str:
        """Under which a queue that we hold was locked."""
        with self._guard:
            return self._ids[queue]

    def ask(
        self, queues: Sequence[MessageQueue]
    ) -> tuple[list[LockAnswer], RmqOrderedError | None]:
        """Lock at every broker by itself: one that is away must not cost the others' answers."""
        self._repeat_unlocks(queues)
        with self._guard:
            self._asked.update(queues)
            for queue in queues:
                self._ids.setdefault(queue, self._current_id)
            batches = self._batches(queues)
        answers, failures = self._lock(batches)
        return answers, worst(failures.values())

    def renew(self, queues: Sequence[MessageQueue]) -> tuple[list[LockAnswer], Failures]:
        """Lock again what was locked; not what was given back or left to itself meanwhile."""
        with self._guard:
            batches = self._batches(queue for queue in queues if queue in self._ids)
        return self._lock(batches)

    def unlock(
        self,
        queues: Sequence[MessageQueue],
        timeout_ms: int | None = None,
        *,
        run_goes_on: bool = False,
    ) -> bool:
        """Unlock at every broker by itself; whether all of them answered.

        The queues still count as asked for, see ``forget``.
        """
        with self._guard:
            batches = self._batches(queues)
            for queue in queues:
                self._ids.pop(queue, None)
        given = [_Unsure(client_id, batch, run_goes_on) for client_id, batch in batches]
        unsure = [left for one in given if (left := self._unlock(one, timeout_ms)) is not None]
        if unsure:
            next_id = f"{self._client_id}~{next(self._generations)}"
            self._announce(next_id)
            with self._guard:
                self._unsure += unsure
                self._current_id = next_id
        return not unsure

    def give_back(
        self,
        queues: Iterable[MessageQueue],
        timeout_ms: int | None = None,
        *,
        run_goes_on: bool = False,
    ) -> None:
        """Unlock those of the queues that were locked, or may have been, for good."""
        with self._guard:
            mine = [queue for queue in queues if queue in self._ids]
            self._asked.difference_update(mine)
        if mine:
            self.unlock(mine, timeout_ms, run_goes_on=run_goes_on)

    def asked(self) -> list[MessageQueue]:
        """Everything ever asked for and neither given back nor left to itself."""
        with self._guard:
            return sorted(self._asked)

    def give_back_asked(
        self, queues: Sequence[MessageQueue], timeout_ms: int | None = None
    ) -> bool:
        """Unlock what was asked for, granted or not; whether all brokers answered."""
        with self._guard:
            self._asked.difference_update(queues)
        return self.unlock(queues, timeout_ms)

    def forget(self, queues: Iterable[MessageQueue]) -> None:
        """Leave these queues locked until their locks end by themselves."""
        with self._guard:
            for queue in queues:
                self._asked.discard(queue)
                self._ids.pop(queue, None)

    def unlock_as(self, client_id: str, queues: Sequence[MessageQueue]) -> None:
        """Unlock in the name of an earlier run; a broker that is away is only a warning."""
        for batch in grouped(queues, attrgetter("broker_name")).values():
            try:
                self._broker.unlock(self._group, client_id, batch)
            except RmqOrderedError as error:
                _LOG.warning("could not unlock as %s: %s", client_id, error)

    def _repeat_unlocks(self, queues: Iterable[MessageQueue]) -> None:
        """What was unlocked without an answer is unlocked again, or it would refuse ourselves."""
        wanted = set(queues)
        with self._guard:
            unsure, self._unsure = self._unsure, []
        for one in unsure:
            left = one if wanted.isdisjoint(one.queues) else self._unlock(one)
            if left is not None:
                with self._guard:
                    self._unsure.append(left)

    def _lock(
        self, batches: Iterable[tuple[str, list[MessageQueue]]]
    ) -> tuple[list[LockAnswer], Failures]:
        answers: list[LockAnswer] = []
        failures: Failures = {}
        for client_id, batch in batches:
            granted, failed = self._broker.try_lock(self._group, client_id, batch)
            answers += granted
            failures |= failed
        return answers, failures

    def _unlock(self, given: _Unsure, timeout_ms: int | None = None) -> _Unsure | None:
        """Unlock; what may still be locked."""
        failures = self._broker.try_unlock(
            self._group,
            given.client_id,
            given.queues,
            timeout_ms=timeout_ms,
            run_goes_on=given.run_goes_on,
        )
        failure = worst(failures.values())
        if failure is not None:
            names = ", ".join(map(str, failures))
            _LOG.warning("could not unlock, locked until the lease ends: %s: %s", names, failure)
        return replace(given, queues=list(failures)) if failures else None

    def _batches(self, queues: Iterable[MessageQueue]) -> list[tuple[str, list[MessageQueue]]]:
        """Queues that can go into one request: of one broker, locked under one id."""
        batches = grouped(
            queues, lambda queue: (self._ids.get(queue, self._current_id), queue.broker_name)
        )
        return [(client_id, batch) for (client_id, _), batch in batches.items()]


def worst(failures: Iterable[RmqOrderedError]) -> RmqOrderedError | None:
    """What will not pass before what may; None if nothing failed."""
    return min(failures, key=lambda failure: failure.retryable, default=None)
