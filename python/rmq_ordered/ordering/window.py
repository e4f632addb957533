"""Which pulls to have in flight for one range of a queue: the state machine of the reader.

Several pulls are outstanding at rising offsets; answers are taken in order. Where each pull starts
is a guess: the offset of the one before plus a step, at first the number of messages asked for.

An answer that brought less shows that the guesses behind it leave a hole: they are dropped and
asked again from the right place, with a smaller step. An answer that reached further (a filter
passed messages over, or a stored batch is larger than what was asked for) makes void only what lies
before its end; a pull that begins before that end and may reach beyond it stays, and the reader
cuts off what it has already. So nothing is skipped and nothing is delivered twice, whatever a
broker's caps are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

# A step that was cut is tried larger after so many full answers, and each time it proves too large
# after twice as many: one oversized message costs little, and so does a broker with a low cap.
_GROW_AFTER: Final = 8
_GROW_AFTER_AT_MOST: Final = 1_024
# After so many answers that reached further than expected, the step is the least of their reaches.
_WIDEN_AFTER: Final = 4
_WIDEST_STEP: Final = 65_536
# Where guesses are new or were wrong, few pulls are in flight; each right one allows one more.
_FIRST_DEPTH: Final = 8
# Pulls are sent in lots of half of those in flight: sending each by itself costs more than all else
# that the client does for it, a broker that gets many at once wakes fewer threads for each, and the
# other half keeps it busy meanwhile.
_LOTS: Final = 2


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
    _largest_count: int = field(init=False)
    _full_answers: int = 0
    _grow_after: int = _GROW_AFTER
    _reaches: list[int] = field(default_factory=list)
    _allowed: int = _FIRST_DEPTH

    def __post_init__(self) -> None:
        self.position = self._next_ask = self.start
        self._largest_count = self.step

    @property
    def is_done(self) -> bool:
        """Whether the whole range was delivered."""
        return self.position >= self.end

    @property
    def oldest(self) -> int:
        """Where the pull starts that is answered next; not after ``position``."""
        return self._outstanding[0]

    def next_pulls(self) -> list[tuple[int, int]]:
        """Offsets and counts of the further pulls to be sent now, several or none."""
        room = min(self.depth, self._allowed)
        if len(self._outstanding) > room - max(1, room // _LOTS):
            return []
        pulls: list[tuple[int, int]] = []
        while len(self._outstanding) < room and self._next_ask < self.end:
            pulls.append(self._next_pull())
        return pulls

    def _next_pull(self) -> tuple[int, int]:
        offset = self._next_ask
        self._outstanding.append(offset)
        self._next_ask = min(offset + self.step, self.end)
        return offset, min(self._next_ask - offset, self._largest_count)

    def answered(self, next_offset: int) -> int:
        """The oldest pull was answered and covers everything from its start to ``next_offset``.

        Returns how many of the newer pulls, counted from the oldest, are void now and must be
        abandoned.
        """
        asked_at = self._outstanding.popleft()
        expected = self._outstanding[0] if self._outstanding else self._next_ask
        self.position = max(self.position, min(next_offset, self.end))
        if self.is_done:
            return self._void()
        if next_offset < expected:
            self._shrink(next_offset - asked_at)
            return self._void() if self.position < expected else 0
        if next_offset > expected:
            self._widen(next_offset - asked_at)
            return self._void_overtaken()
        self._grow()
        return 0

    def restart(self) -> None:
        """Every pull in flight is lost: ask again from the position reached."""
        self._void()

    def _grow(self) -> None:
        self._allowed = max(_FIRST_DEPTH, min(self._allowed + 1, self.depth))
        self._full_answers += 1
        if self._full_answers >= self._grow_after and self.step < self._largest_count:
            self.step = min(2 * self.step, self._largest_count)
            self._full_answers = 0

    def _shrink(self, reach: int) -> None:
        self.step = max(1, reach)
        self._full_answers = 0
        self._grow_after = min(2 * self._grow_after, _GROW_AFTER_AT_MOST)
        self._reaches.clear()

    def _widen(self, reach: int) -> None:
        self._reaches.append(reach)
        if len(self._reaches) >= _WIDEN_AFTER:
            self.step = max(self.step, min(*self._reaches, _WIDEST_STEP))
            self._reaches.clear()

    def _void_overtaken(self) -> int:
        """Drop pulls that the one after them makes superfluous."""
        count = 0
        while self._outstanding:
            following = self._outstanding[1] if len(self._outstanding) > 1 else self._next_ask
            if following > self.position:
                return count
            self._outstanding.popleft()
            count += 1
        self._next_ask = self.position
        self._allowed = _FIRST_DEPTH
        return count

    def _void(self) -> int:
        count = len(self._outstanding)
        self._outstanding.clear()
        self._next_ask = self.position
        self._allowed = _FIRST_DEPTH
        return count
