"""What the servers of a test wrote while it ran, for the report of its failure.

Brokers, drivers and Java programs are started with a log file that this process opens for them;
an audit hook notes each, wherever it is opened. Spark's own JVM writes to this process's standard
error, which pytest captures by itself.
"""

import os
import sys
from pathlib import Path

TAIL_LINES = 120
TAIL_BYTES = 64 << 10


class ServerLogs:
    """The log files that this process has opened for writing, and where a test began in them."""

    def __init__(self) -> None:
        self._begun: dict[Path, int] = {}

    def watch(self) -> None:
        """Notes every log file from now on, as long as this process lives."""
        sys.addaudithook(self._note)

    def begin(self) -> None:
        """A test begins: what is there now is not of it."""
        self._begun = {path: path.stat().st_size for path in self._begun if path.is_file()}

    def written(self) -> list[tuple[Path, str]]:
        """What was written since the test began, the end of it, for each log that has any."""
        found = []
        for path, start in self._begun.items():
            if path.is_file() and (text := _end_of(path, start)):
                found.append((path, text))
        return found

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | os.PathLike):
            return
        path, mode = Path(os.fsdecode(arguments[0])), arguments[1]
        if path.suffix == ".log" and isinstance(mode, str) and mode[0] in "aw":
            self._begun.setdefault(path, path.stat().st_size if path.is_file() else 0)


def _end_of(path: Path, start: int) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(start, size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-TAIL_LINES:])
