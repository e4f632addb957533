"""One queue on its way through a consumer: what was pulled, what is at work, what is done.

    IDLE --begin--> RUNNING --done--> IDLE
      |                |
     stop             stop
      v                v
    STOPPED <--done-- DRAINING

One batch at a time, in order; a batch that was refused is the next one again. A queue that is to be
given up is first drained: STOPPED is reached only when no batch is at work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from rmq_ordered.errors import LocalProtocolError, QueueGap
from rmq_ordered.model import MessageQueue

T = TypeVar("T")


class Phase(Enum):
    """Where a queue is in its life with this consumer."""

    IDLE = "idle"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


_BEGIN: Final = {Phase.IDLE: Phase.RUNNING}
_DONE: Final = {Phase.RUNNING: Phase.IDLE, Phase.DRAINING: Phase.STOPPED}
_STOP: Final = {
    Phase.IDLE: Phase.STOPPED,
    Phase.RUNNING: Phase.DRAINING,
    Phase.DRAINING: Phase.DRAINING,
    Phase.STOPPED: Phase.STOPPED,
}


@dataclass(slots=True)
class QueueProgress(Generic[T]):
    """The state of one queue. Not thread-safe; it never reads a clock.

    Invariants: ``commit_offset`` never goes back, and everything below it was handled, filtered out
    by the subscription or sent to the dead letters; ``pull_offset`` is never below it.
    """

    queue: MessageQueue
    commit_offset: int
    pull_offset: int = field(init=False)
    phase: Phase = Phase.IDLE
    attempt: int = 0
    _waiting: deque[tuple[int, T]] = field(default_factory=deque)
    _at_work: list[tuple[int, T]] = field(default_factory=list)
    _not_before_ms: int | None = None

    def __post_init__(self) -> None:
        self.pull_offset = self.commit_offset

    @property
    def buffered(self) -> int:
        """How many messages wait or are at work."""
        return len(self._waiting) + len(self._at_work)

    @property
    def is_ending(self) -> bool:
        """Whether the queue is being given up, or has been."""
        return self.phase in (Phase.DRAINING, Phase.STOPPED)

    def fetched(self, items: Iterable[tuple[int, T]], next_offset: int) -> None:
        """Take what a pull at ``pull_offset`` brought: rising offsets below ``next_offset``.

        All of it or, when it raises QueueGap, nothing.
        """
        if self.is_ending:
            return
        reached, taken = self.pull_offset, list(items)
        for offset, _ in taken:
            if not reached <= offset < next_offset:
                raise QueueGap(self.queue, reached, offset)
            reached = offset + 1
        self._waiting += taken
        self.pull_offset = max(self.pull_offset, next_offset)
        if self.buffered == 0:
            self.commit_offset = self.pull_offset

    def next_work_ms(self) -> int | None:
        """From when on a batch could begin: 0 for at once, None if there is none to begin."""
        if self.phase is not Phase.IDLE or self.buffered == 0:
            return None
        return self._not_before_ms or 0

    def begin(self, now_ms: int, limit: int) -> list[T] | None:
        """Put the next batch to work; None if there is none, or not yet."""
        due_ms = self.next_work_ms()
        if due_ms is None or now_ms < due_ms:
            return None
        self._move(_BEGIN, "begin a batch")
        while self._waiting and len(self._at_work) < limit and self.attempt == 0:
            self._at_work.append(self._waiting.popleft())
        return [item for _, item in self._at_work]

    def finished(self) -> None:
        """The batch at work is done with, whether it succeeded or is among the dead letters."""
        self._move(_DONE, "finish a batch")
        self.commit_offset = self._waiting[0][0] if self._waiting else self.pull_offset
        self._at_work.clear()
        self._not_before_ms = None
        self.attempt = 0

    def refused(self, now_ms: int, pause_ms: int) -> None:
        """The batch at work is to be tried again, not before the pause is over."""
        self._move(_DONE, "suspend a batch")
        self.attempt += 1
        self._not_before_ms = now_ms + pause_ms

    def stop(self) -> None:
        """Begin nothing more; STOPPED as soon as nothing is at work."""
        self._move(_STOP, "stop")
        if self._waiting:
            self.pull_offset = self._waiting[0][0]
            self._waiting.clear()

    def _move(self, table: dict[Phase, Phase], what: str) -> None:
        if self.phase not in table:
            raise LocalProtocolError(f"{self.queue}: cannot {what} while {self.phase.value}")
        self.phase = table[self.phase]
