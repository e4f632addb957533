"""Which pulls to have in flight for one range of a queue: the state machine of the reader.

Several pulls are outstanding at rising offsets; answers are taken in order. Where each pull starts
is a guess (offset of the one before plus the number asked for). An answer that brought less shows
that the guesses behind it are wrong: they are dropped and asked again from the right place, with a
smaller step. So nothing is skipped and nothing is read twice, whatever a broker's caps are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

# A step that was cut is tried larger after so many full answers, and each time it proves too large
# after twice as many: one oversized message costs little, and so does a broker with a low cap.
_GROW_AFTER: Final = 8
_GROW_AFTER_AT_MOST: Final = 1_024


@dataclass(slots=True)
class PullWindow:
    """Pulls of ``[start, end)``; ``position`` is the next queue offset to be delivered."""

    start: int
    end: int
    step: int
    depth: int
    _outstanding: deque[int] = field(default_factory=deque)
    position: int = field(init=False)
    _next_ask: int = field(init=False)
    _largest_step: int = field(init=False)
    _full_answers: int = 0
    _grow_after: int = _GROW_AFTER

    def __post_init__(self) -> None:
        self.position = self._next_ask = self.start
        self._largest_step = self.step

    @property
    def is_done(self) -> bool:
        """Whether the whole range was delivered."""
        return self.position >= self.end

    def next_pull(self) -> tuple[int, int] | None:
        """Offset and count of a further pull that may be sent now, or None."""
        if len(self._outstanding) >= self.depth or self._next_ask >= self.end:
            return None
        offset = self._next_ask
        count = min(self.step, self.end - offset)
        self._outstanding.append(offset)
        self._next_ask = offset + count
        return offset, count

    def answered(self, next_offset: int) -> int:
        """The oldest pull was answered and covers everything before ``next_offset``.

        Returns how many of the newer pulls, counted from the oldest, are void now and must be
        abandoned.
        """
        asked_at = self._outstanding.popleft()
        expected = self._outstanding[0] if self._outstanding else self._next_ask
        self.position = min(next_offset, self.end)
        if self.is_done:
            return self._void()
        if next_offset == expected:
            self._grow()
            return 0
        if next_offset < expected:
            self.step = max(1, next_offset - asked_at)
            self._full_answers = 0
            self._grow_after = min(2 * self._grow_after, _GROW_AFTER_AT_MOST)
        return self._void()

    def restart(self) -> None:
        """Every pull in flight is lost: ask again from the position reached."""
        self._void()

    def _grow(self) -> None:
        self._full_answers += 1
        if self._full_answers >= self._grow_after and self.step < self._largest_step:
            self.step = min(2 * self.step, self._largest_step)
            self._full_answers = 0

    def _void(self) -> int:
        count = len(self._outstanding)
        self._outstanding.clear()
        self._next_ask = self.position
        return count
