"""The one place that reads the machine's clock and draws random numbers."""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path
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


def fresh_session() -> str:
    """A name for one series of requests that nobody else has or can guess: 22 characters."""
    return secrets.token_urlsafe(16)


def process_identity() -> str:
    """Which process this is, so that another one on the same machine can tell when it is gone.

    The boot, the namespace of process ids (containers have their own), the id, and the moment of
    its start, because ids are used again. Empty where the system does not tell.
    """
    here, start = _process_space(), _started_at(os.getpid())
    return f"{here} {os.getpid()} {start}" if here and start else ""


def is_known_dead(identity: str) -> bool:
    """Whether the process is certainly gone; False also means "cannot be known from here"."""
    here, _, process = identity.rpartition(" ")[0].rpartition(" ")
    start = identity.rpartition(" ")[2]
    if not here or here != _process_space() or not process.isdigit():
        return False
    found = _started_at(int(process))
    return found != start if found else not _exists(int(process))


def _process_space() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 (the text, not a path)
    except OSError:
        return ""


def _started_at(process: int) -> str:
    """When a process began, in ticks since boot; empty if that cannot be seen."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name in brackets may hold spaces: count from behind it. State is field 3, the start 22.
    fields = stat.rpartition(")")[2].split()
    return "ended" if fields[0] in "ZX" else fields[19]


def _exists(process: int) -> bool:
    """Whether there is a process of this id; /proc may hide those of other users."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


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
