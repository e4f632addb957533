"""Taking queues over from earlier runs of the same client, one of which may still be alive.

A broker with epochs fences the old run. Elsewhere nothing tells it: it goes on until its trust runs
out. Until then nobody may work on what was taken from it, neither the new run nor, should that give
up, anybody else.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from rmq_ordered.client.instances import Predecessor
from rmq_ordered.clock import Clock
from rmq_ordered.model import LockAnswer, MessageQueue

_LOG: Final = logging.getLogger("rmq_ordered.client")
_POLL_MS: Final = 500


class TakeOver:
    """What one client took from its earlier runs, and when that is safe to use.

    Args:
        clock: for durations.
        group: whose queues these are.
        predecessors: the earlier runs.
        trust_ms: how long such a run believes in a lock.
    """

    def __init__(
        self, clock: Clock, group: str, predecessors: Sequence[Predecessor], trust_ms: int
    ) -> None:
        self.predecessors = tuple(predecessors)
        self._clock = clock
        self._group = group
        self._trust_ms = trust_ms
        # Until when an earlier run, alive somewhere, may still believe in what was taken over.
        self._settled_at_ms: int | None = None
        self._unsettled: set[MessageQueue] = set()
        self._has_warned = False

    def note(self, taken: Sequence[LockAnswer]) -> None:
        """These queues were unlocked as the earlier runs and locked by us."""
        _LOG.info(
            "took over count=%s group=%s from=%s",
            len(taken),
            self._group,
            [one.client_id for one in self.predecessors],
        )
        if self._must_settle(taken):
            # Its last granted request left before ours was granted, so before now.
            self._settled_at_ms = self._clock.monotonic_ms() + self._trust_ms
            self._unsettled.update(answer.queue for answer in taken)

    def is_unsettled(self, queue: MessageQueue) -> bool:
        """Whether an earlier run may still work on this queue, so that it must stay locked."""
        return queue in self._unsettled

    def may_begin(self, refused: Sequence[LockAnswer], deadline_ms: int) -> bool:
        """Whether a take-over could be waited out: begun and given up, it would rob a live run."""
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if left_ms >= self._trust_ms or not self._must_settle(refused):
            return True
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "an earlier run of group=%s may be alive and would have to be given %s ms to "
                "notice that it was replaced, but %s ms are left to acquire its queues: allow more",
                self._group,
                self._trust_ms,
                max(0, left_ms),
            )
        return False

    def settle(self) -> None:
        """Wait until no earlier run can believe any more in what was taken from it."""
        if self._settled_at_ms is None:
            return
        _LOG.info(
            "an earlier run may still be alive, waiting for its trust to end: %s", self._group
        )
        while (remaining_ms := self._settled_at_ms - self._clock.monotonic_ms()) >= 0:
            self._clock.pause_ms(min(remaining_ms + 1, _POLL_MS))
        self._forget()

    def give_up(self) -> frozenset[MessageQueue]:
        """What must be left locked: an earlier run may work on it until the lock ends."""
        is_settled = self._settled_at_ms is None or self._clock.monotonic_ms() > self._settled_at_ms
        left = frozenset[MessageQueue]() if is_settled else frozenset(self._unsettled)
        self._forget()
        if left:
            _LOG.warning(
                "queues taken from a run that may be alive stay locked until their leases end "
                "group=%s: %s",
                self._group,
                ", ".join(map(str, sorted(left))),
            )
        return left

    def _must_settle(self, answers: Sequence[LockAnswer]) -> bool:
        """Whether an earlier run may believe in these queues although they were taken from it."""
        is_fenced = all(answer.epoch is not None for answer in answers)
        return not is_fenced and not all(one.is_known_dead for one in self.predecessors)

    def _forget(self) -> None:
        self._settled_at_ms = None
        self._unsettled.clear()
