"""One queue's sends in order: a batch leaves only when the one before it has landed.

    IDLE --add--> READY --take--> IN_FLIGHT --landed--> READY (next batch) or IDLE
                                      |
                                      +--failed, may be tried again--> BACKING_OFF
                                              --time--> READY (the same batch)

A batch is sent again in place, never overtaken. Whether a batch whose answer was lost is there
already is not decided here but in ``rmq_ordered.ordering.stream``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

from rmq_ordered.errors import LocalProtocolError, RmqOrderedError

B = TypeVar("B")

_FIRST_PAUSE_MS: Final = 20
_LONGEST_PAUSE_MS: Final = 1_000


class QueueSequencer(Generic[B]):
    """Not thread-safe; time is an argument. Batches come in at one end as others leave."""

    def __init__(
        self, patience_ms: int, batches: Iterable[B] = (), *, not_before_ms: int = 0
    ) -> None:
        self._batches = deque(batches)
        self._patience_ms = patience_ms
        self._is_in_flight = False
        self._not_before_ms = not_before_ms
        self._pause_ms = _FIRST_PAUSE_MS
        self._first_failure_ms: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether every batch has landed."""
        return not self._batches

    @property
    def is_in_flight(self) -> bool:
        """Whether an answer is being waited for."""
        return self._is_in_flight

    @property
    def not_before_ms(self) -> int:
        """When a batch that was refused may be sent again."""
        return self._not_before_ms

    def add(self, batch: B) -> None:
        """One more, after all others."""
        self._batches.append(batch)

    def take(self, now_ms: int) -> B | None:
        """The batch to send now, or None while there is nothing to do."""
        if not self._batches or self._is_in_flight or now_ms < self._not_before_ms:
            return None
        self._is_in_flight = True
        return self._batches[0]

    def resume(self) -> None:
        """The first batch is in flight already."""
        self._is_in_flight = True

    def be_patient_again(self) -> None:
        """Count failures as if the next were the first."""
        self._first_failure_ms = None

    def landed(self) -> B:
        """The batch in flight is stored; gives it back."""
        self._ensure_in_flight()
        self._is_in_flight = False
        self._pause_ms = _FIRST_PAUSE_MS
        self._first_failure_ms = None
        return self._batches.popleft()

    def failed(self, error: RmqOrderedError, now_ms: int, *, at_least_ms: int = 0) -> None:
        """The batch in flight was not acknowledged; raises the error if that is final.

        Args:
            error: why.
            now_ms: the time.
            at_least_ms: how long the batch must not be touched, however short the pause would be.
        """
        self._ensure_in_flight()
        self._is_in_flight = False
        if self._first_failure_ms is None:
            self._first_failure_ms = now_ms
        if not error.retryable or now_ms - self._first_failure_ms >= self._patience_ms:
            raise error
        self._not_before_ms = now_ms + max(self._pause_ms, at_least_ms)
        self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)

    def begin_again(self, earlier: Iterable[B]) -> None:
        """Everything from the first batch on once more; ``earlier`` are those that have left."""
        self._is_in_flight = False
        self._batches.extendleft(reversed(list(earlier)))

    def _ensure_in_flight(self) -> None:
        if not self._is_in_flight:
            raise LocalProtocolError("no batch of this queue is in flight")
