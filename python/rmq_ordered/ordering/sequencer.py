"""One queue's sends in order: a batch leaves only when the one before it has landed.

    READY --sent--> IN_FLIGHT --landed--> READY (next batch) ... --> DONE
                        |
                        +--failed, may be tried again--> BACKING_OFF --time--> READY (the same
                        batch)

A batch is sent again in place, never overtaken. After a lost answer the outcome is unknown, so that
a batch may be stored twice; the first copies are always in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from rmq_ordered.errors import LocalProtocolError, RmqOrderedError

B = TypeVar("B")

_FIRST_PAUSE_MS: Final = 20
_LONGEST_PAUSE_MS: Final = 1_000


class QueueSequencer(Generic[B]):
    """Not thread-safe; time is an argument."""

    def __init__(self, batches: Iterator[B], patience_ms: int) -> None:
        self._batches = batches
        self._patience_ms = patience_ms
        self._current: B | None = next(batches, None)
        self._is_in_flight = False
        self._not_before_ms = 0
        self._pause_ms = _FIRST_PAUSE_MS
        self._first_failure_ms: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether every batch has landed."""
        return self._current is None

    @property
    def is_in_flight(self) -> bool:
        """Whether an answer is being waited for."""
        return self._is_in_flight

    @property
    def not_before_ms(self) -> int:
        """When a batch that was refused may be sent again."""
        return self._not_before_ms

    def take(self, now_ms: int) -> B | None:
        """The batch to send now, or None while there is nothing to do."""
        if self._current is None or self._is_in_flight or now_ms < self._not_before_ms:
            return None
        self._is_in_flight = True
        return self._current

    def landed(self) -> None:
        """The batch in flight was stored."""
        self._ensure_in_flight()
        self._is_in_flight = False
        self._pause_ms = _FIRST_PAUSE_MS
        self._first_failure_ms = None
        self._current = next(self._batches, None)

    def failed(self, error: RmqOrderedError, now_ms: int) -> None:
        """The batch in flight was not acknowledged; raises the error if that is final."""
        self._ensure_in_flight()
        self._is_in_flight = False
        if self._first_failure_ms is None:
            self._first_failure_ms = now_ms
        if not error.retryable or now_ms - self._first_failure_ms >= self._patience_ms:
            raise error
        self._not_before_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)

    def _ensure_in_flight(self) -> None:
        if not self._is_in_flight:
            raise LocalProtocolError("no batch of this queue is in flight")
