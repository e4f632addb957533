"""A copy of the sources to spoil, and the processes that run its tests. Nothing outlives a run."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tests.mutations.bugs import Bug
from tests.mutations.planting import DoesNotApply, planted
from tests.support.paths import ROOT
from tests.support.processes import TETHER

_MUTATIONS = "tests/mutations"
# What tests need.
_PARTS = (
    *("python", "src", "tests", "docs", "conf", "examples", "scripts", "project", "target"),
    *("build.sbt", "pyproject.toml", "README.md", ".scalafmt.conf"),
)
# What was built is taken from here where a checkout has not been built: a fixture of the suite
# wants to see a jar, and sbt compiles again what differs.
_BUILT = ("python/rmq_ordered/jars", "target", "project/target", "project/project")


@contextmanager
def copied(tree: Path) -> Iterator[Path]:
    """A copy of a tree in a temporary folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="rmq-mutations-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder)
        for part in _PARTS:
            _copy(tree / part, copy / part)
        for part in _BUILT:
            if not (copy / part).exists():
                _copy(ROOT / part, copy / part)
        # What runs the tests is this version, whatever the tree is.
        _copy(ROOT / _MUTATIONS, copy / _MUTATIONS)
        yield copy


def _copy(source: Path, target: Path) -> None:
    """Copies a file or folder, if it is there."""
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, ignore=ignored, symlinks=True, dirs_exist_ok=True)
    elif source.is_file():
        shutil.copy2(source, target)


@contextmanager
def spoilt(tree: Path, bug: Bug) -> Iterator[None]:
    """A tree with the bug in it, for so long; raises DoesNotApply where it has no place."""
    path = tree / bug.file
    if not path.is_file():
        raise DoesNotApply(f"the file {bug.file} is expected, and is not there")
    source = path.read_text(encoding="utf-8")
    changed = planted(
        source,
        language=bug.language,
        function=bug.function,
        expression=bug.expression,
        replacement=bug.replacement,
    )
    path.write_text(changed, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(source, encoding="utf-8")


class Interrupted(Exception):
    """Everything is to end."""


class Processes:
    """Child processes, each with a process group of its own. Thread-safe."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._is_ending = False
        self._lock = threading.Lock()

    @contextmanager
    def running(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        stdin: IO[str] | int = subprocess.DEVNULL,
    ) -> Iterator[subprocess.Popen[str]]:
        """Runs a command, its output in one pipe; ends it and its children when that is left."""
        # Also gone when this process is killed and cannot end anything any more.
        tether = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid())]
        with self._lock:
            if self._is_ending:
                raise Interrupted
            process = subprocess.Popen(
                [*tether, *command],
                cwd=folder,
                env=None if environment is None else {**os.environ, **environment},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        try:
            yield process
        finally:
            _end(process)
            with self._lock:
                self._running.discard(process)
        self.ensure_going_on()

    def ensure_going_on(self) -> None:
        """Raise Interrupted if everything is to end."""
        if self._is_ending:
            raise Interrupted

    def end_all(self) -> None:
        """Ends what runs, and lets nothing begin any more."""
        with self._lock:
            self._is_ending = True
            running = list(self._running)
        for process in running:
            _kill_group(process)


def _end(process: subprocess.Popen[str]) -> None:
    _kill_group(process)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _kill_group(process: subprocess.Popen[str]) -> None:
    # The group has the id of its first process, and lives as long as any of them.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
