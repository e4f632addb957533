"""Starting and ending child processes: by process id, and never leaving one behind."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

TETHER = Path(__file__).with_name("tether.py")
TAIL_LINES = 30


def start_tethered(
    command: Sequence[str],
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a command that the kernel kills when this process dies, however it dies."""
    tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid())]
    return subprocess.Popen(
        [*tether, *command], stdin=stdin, stdout=stdout, stderr=stderr, env=environment
    )


def end(process: subprocess.Popen[bytes], *, grace_s: float = 0.0) -> None:
    """Ends a process: with SIGTERM if there is a grace time, else (or after it) with SIGKILL."""
    if process.poll() is None and grace_s > 0:
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
    elif process.poll() is None:
        process.kill()
    process.wait()


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Returns the last lines of a Java log, for an error message, without the frames of traces."""
    if not log.exists():
        return "(no log)"
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    telling = [line for line in text if not line.lstrip().startswith("at ")]
    return "\n".join(telling[-lines:]) or "(empty log)"


def anonymous_memory_mib(pid: int) -> int:
    """Returns a process's resident memory without mapped files, which the kernel can take back."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (kibibytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(kibibytes) // 1024


def family(pid: int) -> list[int]:
    """Returns a process, its children, theirs and so on, as they are at this moment."""
    found = [pid]
    for one in found:
        found += [child for thread in _threads(one) for child in _children(thread)]
    return found


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []  # it ended while we looked


def _children(thread: Path) -> list[int]:
    try:
        return [int(child) for child in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []  # threads of a JVM come and go, its other threads' children must still be found


def command_line(pid: int) -> str:
    """Returns the words of a process's command; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
