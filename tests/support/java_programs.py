"""Compiles the Java programs beside this package and talks to one of them line by line.

The same sources run on the clients of RocketMQ 5 and 4; what these call differently is in one class
per release (folders ``v5`` and ``v4``, the former also with what needs RocketMQ 5).

A program prints one JSON object per line on standard output (field ``event`` says what it is); its
standard error is kept in a file and shown when something goes wrong. Ending its standard input asks
a program to stop cleanly.
"""

import hashlib
import json
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.class_archives import class_archive, leaving, taking
from tests.support.jvm import SMALL_JVM, find_java, rocketmq_properties
from tests.support.maven import ROCKETMQ_5, Release, rocketmq_jars
from tests.support.once import made_once
from tests.support.paths import CACHE, JAVA_SOURCES
from tests.support.ports import free_base_port
from tests.support.processes import end, start_tethered, tail
from tests.support.waiting import Deadline, DeadlineExceeded

PACKAGE = "rmqordered.testclients"
STOP_TIMEOUT_S = 30.0
SHORT_LIVED = (*SMALL_JVM, "-Xmx192m")
# Instead of 20 s each: how often a client looks whether its queues have changed, and renews the
# locks of those it has. A test that loses a notification or an owner would wait that long.
QUICK_TIMERS = (
    "-Drocketmq.client.rebalance.waitInterval=3000",
    "-Drocketmq.client.rebalance.lockInterval=2000",
)

Event = dict[str, Any]


class JavaProgramFailed(AssertionError):
    """A program failed or said something unexpected; carries the end of its standard error."""

    def __init__(self, program: str, what: str, log_tail: str) -> None:
        self.program = program
        self.what = what
        self.log_tail = log_tail
        super().__init__(program, what, log_tail)

    def __str__(self) -> str:
        return f"{self.program} {self.what}; the end of its standard error:\n{self.log_tail}"


@cache
def compiled_programs(release: Release = ROCKETMQ_5) -> Path:
    """Returns the jar with the compiled programs, compiling them if the sources have changed.

    Args:
        release: Whose client they are compiled against.

    Raises:
        MavenUnavailable: The client library is not in the cache and cannot be fetched.
        JavaUnavailable: There is no compiler.
    """
    dialect = JAVA_SOURCES / f"v{release.version[0]}"
    sources = sorted([*JAVA_SOURCES.glob("*.java"), *dialect.glob("*.java")])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    programs = CACHE / "test-clients" / f"{digest}-{release.version}.jar"
    lock = CACHE / "test-clients" / "lock"
    return made_once(programs, lock, lambda: _compile(sources, rocketmq_jars(release), programs))


def _compile(sources: Sequence[Path], jars: Path, programs: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="partial-", dir=programs.parent) as folder:
        target = Path(folder, "classes")
        # --release keeps the classes usable by every Java the project supports; -proc:none because
        # RocketMQ's dependencies bring annotation processors that have no business here.
        options = ["--release", "17", "-Xlint:all", "-Werror", "-proc:none", "-encoding", "UTF-8"]
        command = [find_java("javac"), *options, "-cp", f"{jars}/*", "-d", str(target)]
        done = subprocess.run(
            [*command, *map(str, sources)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise JavaProgramFailed("javac", "refused the test clients", done.stdout + done.stderr)
        packed = Path(folder, "programs.jar")
        with zipfile.ZipFile(packed, "w") as archive:
            for path in sorted(target.rglob("*")):
                archive.write(path, path.relative_to(target))
        packed.rename(programs)


@cache
def _classes(release: Release) -> Path:
    """The archive from which programs of a release take their classes."""
    jars = [compiled_programs(release), *rocketmq_jars(release).iterdir()]
    return class_archive(f"clients-{release.version}", jars, partial(_rehearse, release))


def _rehearse(release: Release, archive: Path) -> None:
    port = free_base_port((0,))
    arguments = ["--name-server", f"127.0.0.1:{port}", "--topic", "rehearsal"]
    with tempfile.TemporaryDirectory() as home:
        options = (*SHORT_LIVED, *leaving(archive))
        command = java_command("Rehearsal", arguments, Path(home), release, options=options)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JavaProgramFailed("Rehearsal", f"ended with {done.returncode}", done.stderr)


def java_command(
    program: str,
    arguments: Sequence[str],
    home: Path,
    release: Release = ROCKETMQ_5,
    *,
    options: Sequence[str] = (),
) -> list[str]:
    """Returns the command that runs a program with a release's client, in a JVM as it comes."""
    class_path = f"{compiled_programs(release)}:{rocketmq_jars(release)}/*"
    command = [find_java(), *options, *rocketmq_properties(home), "-cp", class_path]
    return [*command, f"{PACKAGE}.{program}", *arguments]


class JavaProgram:
    """A running program: its events so far, and ways to wait for more.

    One thread reads standard output into `events`; the rest is for the thread of the test. Leaving
    the ``with`` block asks the program to stop (end of standard input) unless the test failed, in
    which case it is killed.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        home: Path,
        release: Release = ROCKETMQ_5,
        *,
        command: Sequence[str] | None = None,
    ) -> None:
        """Starts the class of this name for a short life, or a command that speaks like one."""
        self.name = name
        self.log = Path(tempfile.mkstemp(prefix=f"{name}-", suffix=".log", dir=home)[1])
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._has_ended = False
        self._cannot_parse: str | None = None
        if command is None:
            options = (*SHORT_LIVED, *QUICK_TIMERS, taking(_classes(release)))
            command = java_command(name, arguments, home, release, options=options)
        with self.log.open("ab") as log:
            self._process = start_tethered(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._reader = threading.Thread(
            target=self._read_events, name=f"{name}-output", daemon=True
        )
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()

    @property
    def pid(self) -> int:
        """Process id of the program's JVM."""
        return self._process.pid

    def events(self, name: str | None = None) -> list[Event]:
        """Returns the events so far, all of them or those of one name."""
        with self._changed:
            return [event for event in self._events if name in (None, event["event"])]

    def write_lines(self, lines: Sequence[str]) -> None:
        """Writes lines to the program's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._process.stdin.flush()

    def wait_for(
        self, condition: Callable[[list[Event]], bool], what: str, timeout_s: float
    ) -> list[Event]:
        """Waits until the list of all events so far satisfies the condition, and returns that list.

        Raises:
            DeadlineExceeded: It did not in time.
            JavaProgramFailed: The program ended before it did.
        """
        deadline = Deadline(timeout_s)
        with self._changed:
            while not condition(self._events):
                if self._has_ended:
                    raise self._failure(f"ended before {what}")
                if not self._changed.wait(deadline.left_s) and deadline.has_passed:
                    last = (self._events[-3:], tail(self.log))
                    raise DeadlineExceeded(f"{self.name}: {what}", timeout_s, last)
            return list(self._events)

    def wait_for_event(self, name: str, timeout_s: float, *, count: int = 1) -> list[Event]:
        """Waits until there are at least so many events of a name, and returns all of that name."""
        self.wait_for(
            lambda events: sum(event["event"] == name for event in events) >= count,
            f"{count} events {name!r} have been seen",
            timeout_s,
        )
        return self.events(name)

    def finish(self, timeout_s: float) -> list[Event]:
        """Ends the input, waits until the program is done with it, and returns all its events.

        Raises:
            JavaProgramFailed: It ended with an error.
            DeadlineExceeded: It did not end in time (it is killed).
        """
        self._close_input()
        return self.join(timeout_s)

    def join(self, timeout_s: float) -> list[Event]:
        """Waits until the program ends by itself, and returns all its events."""
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            what = f"{self.name} has ended"
            raise DeadlineExceeded(what, timeout_s, tail(self.log)) from None
        self._close()
        if status != 0:
            raise self._failure(f"ended with {status}")
        if self._cannot_parse is not None:
            raise self._failure(f"printed something that is no event: {self._cannot_parse!r}")
        return self.events()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> list[Event]:
        """Asks the program to stop cleanly; harmless if it has ended."""
        return self.finish(timeout_s)

    def kill(self) -> None:
        """Kills the program with SIGKILL, as a crash would; harmless if it has ended."""
        end(self._process)
        self._close()

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:  # it ended by itself with unread input
            return

    def _close(self) -> None:
        self._close_input()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                try:
                    self._events.append(json.loads(line))
                except ValueError:
                    self._cannot_parse = line.decode(errors="replace")
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _failure(self, what: str) -> JavaProgramFailed:
        return JavaProgramFailed(self.name, what, tail(self.log))
