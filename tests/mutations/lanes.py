"""Two lanes that run selected tests in a spoilt tree: pytest, and one sbt that stays warm."""

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.mutations.workshop import Processes
from tests.support.promises import MarkedTest

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_PYTHON_FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.M)
_SCALA_FAILURE = re.compile(r"==> X (?:\w+\.)*(\w+Suite\..+?) +[0-9.]+s\b")
_SCALA_COUNT = re.compile(r"Total (\d+), Failed (\d+), Errors (\d+), Passed (\d+)")
_SBT_IS_DONE = re.compile(r"\[(?:success|error)\] Total time:")
_TAIL_LINES = 40
# A file of this folder, which goes with every copy.
_HASTY = "tests.mutations.hasty"


class NoVerdict(Exception):
    """The tests could not be run, so that nobody knows whether the bug would be noticed."""


@dataclass(frozen=True)
class Failed:
    """Tests noticed something: which was the first, or that they did not end in time."""

    test: str
    is_hanging: bool = False


class Lane(Protocol):
    """Runs tests of one language in one tree."""

    def run(self, tests: Sequence[MarkedTest], timeout_s: float) -> Failed | None:
        """Runs these tests; what failed, or None if all have passed.

        Raises:
            NoVerdict: they could not be run.
        """
        ...

    def close(self) -> None:
        """Ends whatever still runs."""
        ...


class PythonLane:
    """A pytest for each bug, up to its first failure."""

    def __init__(self, tree: Path, processes: Processes) -> None:
        self._tree = tree
        self._processes = processes

    def run(self, tests: Sequence[MarkedTest], timeout_s: float) -> Failed | None:
        """Runs these tests; see ``Lane``."""
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--tb=no", "--hypothesis-seed=0"]
        options += ["-p", _HASTY]
        command = [sys.executable, "-m", "pytest", *options, *map(str, tests)]
        environment = {
            "PYTHONPATH": str(self._tree / "python"),
            # Of two versions of a file that are a moment apart the older one would be run.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with self._processes.running(command, self._tree, environment=environment) as process:
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                return Failed(f"{timeout_s:.0f} s without an end", is_hanging=True)
            code = process.returncode
        if code == 0:
            return None
        failure = _PYTHON_FAILURE.search(output)
        # 1: tests have failed. Anything else means that they were not run.
        if code != 1 or failure is None:
            raise NoVerdict(f"pytest ended with {code}:\n{_tail(output.splitlines())}")
        return Failed(failure[1])

    def close(self) -> None:
        """Nothing runs between two bugs."""


class ScalaLane:
    """One sbt for all bugs: it is told one ``testOnly`` after another."""

    def __init__(self, tree: Path, launcher: Sequence[str], processes: Processes) -> None:
        self._tree = tree
        self._launcher = launcher
        self._processes = processes
        self._life = ExitStack()
        self._sbt: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def run(self, tests: Sequence[MarkedTest], timeout_s: float) -> Failed | None:
        """Runs these tests; see ``Lane``. sbt knows no end at the first failure."""
        lines = self._told(_test_only(tests), timeout_s)
        if lines is None:
            self.close()
            return Failed(f"{timeout_s:.0f} s without an end", is_hanging=True)
        output = "\n".join(lines)
        failure = _SCALA_FAILURE.search(output)
        if failure is not None:
            return Failed(failure[1])
        count = _SCALA_COUNT.search(output)
        # One that is not found is ignored without a word, and so is everything if nothing compiles.
        if count is None or int(count[4]) < len(tests) or int(count[4]) < int(count[1]):
            raise NoVerdict(f"{len(tests)} tests are expected to pass or fail:\n{_tail(lines)}")
        return None

    def close(self) -> None:
        """Ends sbt; the next run starts it again."""
        self._sbt = None
        self._life.close()

    def _told(self, command: str, timeout_s: float) -> list[str] | None:
        """What sbt says to a command until it is done; None if that takes too long."""
        deadline = time.monotonic() + timeout_s
        if self._sbt is None:
            self._start()
        assert self._sbt is not None
        assert self._sbt.stdin is not None
        # If it has ended, its output says so below.
        with suppress(BrokenPipeError):
            self._sbt.stdin.write(command + "\n")
            self._sbt.stdin.flush()
        lines: list[str] = []
        while not lines or not _SBT_IS_DONE.search(lines[-1]):
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if line is None:
                self._processes.ensure_going_on()
                raise NoVerdict(f"sbt has ended:\n{_tail(lines)}")
            lines.append(line)
        return lines

    def _start(self) -> None:
        self._lines = queue.Queue()
        self._sbt = self._life.enter_context(
            self._processes.running(self._launcher, self._tree, stdin=subprocess.PIPE)
        )
        # A thread, for a pipe cannot be read with a deadline.
        threading.Thread(target=_read, args=(self._sbt, self._lines), daemon=True).start()


def sbt_launcher(root: Path, on_path: str | None) -> list[str]:
    """How sbt is started so that it reads commands from its input.

    Args:
        root: Where ``scripts/sbt`` has left its launcher, if there is no sbt of the machine.
        on_path: The machine's own sbt, if there is one.
    """
    # No server: a second sbt in the same home folder must not meet the first one.
    settings = ["-Dsbt.log.noformat=true", "-Dsbt.supershell=false", "-Dsbt.server.autostart=false"]
    if on_path is not None:
        return [on_path, *settings]
    launchers = sorted((root / ".cache" / "sbt").glob("sbt-launch-*.jar"))
    if not launchers:
        raise NoVerdict("sbt is not there; `make setup` fetches it")
    return ["java", "-Xmx1g", "-Xss4m", *settings, "-jar", str(launchers[-1])]


def _read(process: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(_COLOUR.sub("", line.rstrip("\n")))
    except ValueError:
        pass  # The pipe was closed under it.
    lines.put(None)


def _test_only(tests: Sequence[MarkedTest]) -> str:
    patterns = [f"{_suite(test)}.{_glob(test.name)}" for test in tests]
    suites = sorted({_suite(test) for test in tests})
    quoted = " ".join(f'"{pattern}"' for pattern in patterns)
    return f"testOnly {' '.join(suites)} -- {quoted}"


def _suite(test: MarkedTest) -> str:
    return test.file.removeprefix("src/test/scala/").removesuffix(".scala").replace("/", ".")


def _glob(name: str) -> str:
    """A name as the source has it: what is put into it there, and quotes, may be anything."""
    return re.sub(r"\$\{[^}]*\}|\$\w+|\\.", "*", name)


def _tail(lines: Sequence[str]) -> str:
    return "\n".join(lines[-_TAIL_LINES:])
