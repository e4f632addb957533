"""Waiting for a condition with a deadline: the only place here that reads a clock or sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_INTERVAL_S = 0.02


class DeadlineExceeded(AssertionError):
    """A condition did not come true in time. An AssertionError, because the test has failed."""

    def __init__(self, what: str, timeout_s: float, last: object = None) -> None:
        self.what = what
        self.timeout_s = timeout_s
        self.last = last
        super().__init__(what, timeout_s, last)

    def __str__(self) -> str:
        seen = "" if self.last is None else f"; last seen: {self.last}"
        return f"waited {self.timeout_s:g} s in vain until {self.what}{seen}"


class Deadline:
    """One time budget that several waits share."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def has_passed(self) -> bool:
        """Whether the budget is used up."""
        return self.left_s == 0.0


def wait_until(condition: Callable[[], T], what: str, timeout_s: float) -> T:
    """Calls the condition until its answer is truthy, and returns that answer.

    Args:
        condition: Asked again and again; must not block for long.
        what: Completes the sentence "waited in vain until ...".
        timeout_s: How long to go on.

    Raises:
        DeadlineExceeded: The condition stayed falsy; the message carries its last answer.
    """
    deadline = Deadline(timeout_s)
    while True:
        answer = condition()
        if answer:
            return answer
        if deadline.has_passed:
            raise DeadlineExceeded(what, timeout_s, answer)
        time.sleep(POLL_INTERVAL_S)
