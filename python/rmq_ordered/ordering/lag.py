"""How far a reader is behind, queue by queue, from what it saw so far. Never reads a clock.

The age of the oldest unread message is measured from when it was first seen, so it is never too
large, and exact but for the time between two looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rmq_ordered.model import MessageQueue

# Looks remembered per queue while it is behind; beyond that the age becomes coarser.
_MOST_LOOKS: Final = 1_000


@dataclass(frozen=True, slots=True)
class QueueLag:
    """One queue: how many messages are unread, since when at least, and whether it stands still."""

    queue: MessageQueue
    position: int
    unread: int
    oldest_unread_ms: int
    is_stalled: bool


@dataclass(slots=True)
class _Seen:
    position: int
    moved_at_ms: int
    looks: deque[tuple[int, int]] = field(default_factory=deque)


class LagTracker:
    """Remembers the looks at one source. Not thread-safe."""

    def __init__(self, stalled_after_ms: int) -> None:
        self._stalled_after_ms = stalled_after_ms
        self._seen: dict[MessageQueue, _Seen] = {}

    def observe(
        self,
        positions: Mapping[MessageQueue, int],
        latest: Mapping[MessageQueue, int],
        now_ms: int,
    ) -> list[QueueLag]:
        """What is unread when the reader stands here and the queues end there.

        A queue of which no end is told is left out, and begins anew when it is told again: another
        member of the group reads it, or its broker is away.
        """
        told = {queue: position for queue, position in positions.items() if queue in latest}
        self._seen = {queue: seen for queue, seen in self._seen.items() if queue in told}
        return [
            self._observe_one(queue, position, max(position, latest[queue]), now_ms)
            for queue, position in sorted(told.items())
        ]

    def _observe_one(self, queue: MessageQueue, position: int, end: int, now_ms: int) -> QueueLag:
        seen = self._seen.setdefault(queue, _Seen(position, now_ms))
        if position != seen.position:
            seen.position, seen.moved_at_ms = position, now_ms
        looks = seen.looks
        if not looks or looks[-1][0] != end:
            looks.append((end, now_ms))
        while looks and looks[0][0] <= position:
            looks.popleft()
        if len(looks) > _MOST_LOOKS:
            del looks[1]
        first_seen_ms = looks[0][1] if looks else now_ms
        # Standing still counts only while there is something to read.
        idle_since_ms = max(seen.moved_at_ms, first_seen_ms)
        return QueueLag(
            queue,
            position,
            end - position,
            now_ms - first_seen_ms,
            end > position and now_ms - idle_since_ms >= self._stalled_after_ms,
        )
