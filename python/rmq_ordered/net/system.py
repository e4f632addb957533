"""The one place that reads the machine's clock and draws random numbers."""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import Final

# On Linux the plain monotonic clock stands still while the machine sleeps; leases do not.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's own clock."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, and go on while the process or the machine sleeps."""
        return time.clock_gettime_ns(_STEADY) // 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def pause_ms(self, duration_ms: int) -> None:
        """Block this thread."""
        time.sleep(duration_ms / 1000)


def fresh_client_id(role: str) -> str:
    """A client id nobody else has: who, where, which process, and eight random hex digits."""
    return f"{role}@{socket.gethostname()}#{os.getpid()}#{secrets.token_hex(4)}"


class UniqueIds:
    """Message ids in the shape of RocketMQ's: 32 upper-case hex digits, each given once.

    Not thread-safe: each producer has its own.
    """

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(12).upper()
        self._counter = 0

    def next(self) -> str:
        """The next id."""
        self._counter += 1
        return f"{self._prefix}{self._counter & 0xFFFF_FFFF:08X}"
