"""Time that moves only when a test moves it."""

from __future__ import annotations

import threading


class ManualClock:
    """A ``Clock`` that is moved by hand. Thread-safe.

    Wall time and monotonic time advance together; ``jump_wall_ms`` moves the wall alone, as an
    administrator or a time server would. A pause does not block: it advances the clock and is
    remembered in ``pauses``.
    """

    def __init__(self, monotonic_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Lock()
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms
        self.pauses: list[int] = []

    def monotonic_ms(self) -> int:
        """Where the clock was moved to."""
        with self._lock:
            return self._monotonic_ms

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC, as far as the test is concerned."""
        with self._lock:
            return self._wall_ms

    def pause_ms(self, duration_ms: int) -> None:
        """Return at once, that much later."""
        with self._lock:
            self.pauses.append(duration_ms)
        self.advance_ms(duration_ms)

    def advance_ms(self, duration_ms: int) -> None:
        """Let time pass; it never goes back."""
        if duration_ms < 0:
            raise ValueError(f"monotonic time cannot go back by {-duration_ms} ms")
        with self._lock:
            self._monotonic_ms += duration_ms
            self._wall_ms += duration_ms

    def jump_wall_ms(self, difference_ms: int) -> None:
        """Set the wall clock forwards or backwards; durations are not affected."""
        with self._lock:
            self._wall_ms += difference_ms
