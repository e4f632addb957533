"""What the rest of the package may know of time: an interface, never an implementation.

``rmq_ordered.net.system`` reads the machine's clock; ``rmq_ordered.testing`` has one that is moved
by hand.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two clocks and a pause: one for durations, one for timestamps that are stored or sent."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; for deadlines and leases."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC; for timestamps in messages."""

    def pause_ms(self, duration_ms: int) -> None:
        """Let time pass, between two attempts of something."""
