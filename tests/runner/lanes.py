"""The two programs that run tests, pytest and sbt, as lanes that are read while they run."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from tests.runner.events import EVENTS
from tests.runner.outcomes import Outcome, scala_outcomes
from tests.runner.program import Program
from tests.runner.progress import Lane, short
from tests.runner.selection import QUICK, Selection, sbt_command
from tests.support.examples import SHARE
from tests.support.paths import ROOT
from tests.support.promises import PROOF, TEST, MarkedTest

REPORTS = ROOT / "target" / "test-reports"
# Of the examples of generated tests.
PER_CENT = {QUICK: 25, TEST: 25, PROOF: 100}
_NOTHING_COLLECTED = 5
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SUITE = re.compile(r"^(rmqordered[\w.]*Suite):?$")
_PASSED = re.compile(r"^  \+ (.*?) (?:[\d.,]+s)$")
_FAILED = re.compile(r"^==> X ([\w.]+?Suite)\.(.*?)  ?[\d.,]+s")
_SKIPPED = re.compile(r"^==> i ([\w.]+?Suite)\.(.*?) (?:ignored|skipped)")


class PythonLane:
    """pytest with as many workers as asked for."""

    def __init__(self, selection: Selection, workers: int, folder: Path, known: dict[str, float]):
        self.lane = Lane("Python")
        self.log = folder / "pytest.log"
        self.outcomes: list[Outcome] = []
        self._known = known
        self._events = folder / "events"
        self._events.touch()
        self._read = 0
        words = [sys.executable, "-m", "pytest", "-p", "tests.runner.events", "--color=no"]
        words += ["--numprocesses", str(workers), "--dist=loadgroup", "--no-loadscope-reorder"]
        words += [f"--basetemp={folder / 'pytest'}", *selection.pytest_arguments()]
        environment = {
            EVENTS: str(self._events),
            "TMPDIR": str(folder),
            SHARE: str(PER_CENT[selection.tier]),
        }
        self._program = Program(words, self.log, environment)

    def poll(self) -> bool:
        """Reads what happened; whether it still runs."""
        runs = self._program.process.poll() is None
        with self._events.open(encoding="utf-8") as file:
            file.seek(self._read)
            while (line := file.readline()).endswith("\n"):
                self._read = file.tell()
                self._note(json.loads(line))
        self.lane.ended = not runs
        return runs

    def _note(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "collected", "tests": list(tests)}:
                self.lane.expect([str(test) for test in tests], self._known)
                self.lane.start()
            case {"event": "started", "test": str(test)}:
                self.lane.running = short(test)
            case {"event": "ended", "test": str(test), "ended": str(ended), "why": str(why),
                  "seconds": float(seconds)}:  # fmt: skip
                self.lane.finish(test, ended)
                self.outcomes.append(Outcome(test, ended, seconds, why))

    @property
    def failed(self) -> bool:
        """Whether it went wrong; that nothing was selected is not wrong."""
        return self._program.process.returncode not in (0, _NOTHING_COLLECTED)

    def end(self) -> None:
        """Stops it, and all of its workers and their servers."""
        self._program.end()

    def report(self) -> str:
        """What pytest says of failures and of what was not run."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        if not self.failed:
            return "\n".join(not_run(text.splitlines()))
        start = re.search(r"^=+ (ERRORS|FAILURES) =+$", text, re.MULTILINE)
        return text[start.start() :] if start else text


class ScalaLane:
    """sbt, whose output is read line by line."""

    def __init__(self, selection: Selection, tests: Sequence[MarkedTest], folder: Path,
                 known: dict[str, float]) -> None:  # fmt: skip
        self.lane = Lane("Scala")
        self.lane.expect([str(test) for test in tests], known)
        self.lane.start()
        self.lane.running = "compiling"
        self.log = folder / "sbt.log"
        self._suite = ""
        shutil.rmtree(REPORTS, ignore_errors=True)
        command = ["scripts/sbt", sbt_command(selection, tests)]
        environment = {"TMPDIR": str(folder)}
        self._program = Program(command, self.log, environment, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def poll(self) -> bool:
        """Whether it still runs."""
        runs = self._program.process.poll() is None
        self.lane.ended = not runs
        return runs

    @property
    def outcomes(self) -> list[Outcome]:
        """How its tests ended; complete when it has."""
        return scala_outcomes(REPORTS)

    @property
    def failed(self) -> bool:
        """Whether a test failed, or the build."""
        return self._program.process.returncode != 0

    def end(self) -> None:
        """Stops it, and the JVM of the tests."""
        self._program.end()

    def report(self) -> str:
        """What it said, from the first failure on."""
        if not self.failed:
            return ""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        troubles = [number for number, line in enumerate(lines) if _is_trouble(line)]
        first = troubles[0] if troubles else max(0, len(lines) - 80)
        telling = [line for line in lines[first:] if not line.startswith("  + ")]
        return "\n".join(telling[:400])

    def _follow(self) -> None:
        output = self._program.process.stdout
        assert output is not None
        with self.log.open("w", encoding="utf-8") as log:
            for raw in output:
                line = _COLOURS.sub("", raw.decode(errors="replace").rstrip("\n"))
                log.write(line + "\n")
                self._note(line.removeprefix("[info] "))

    def _note(self, line: str) -> None:
        if suite := _SUITE.match(line):
            self._suite = suite[1]
            self.lane.running = self._suite.rpartition(".")[2]
        elif passed := _PASSED.match(line):
            self.lane.finish(_scala_test(self._suite, passed[1]), "passed")
        elif failed := _FAILED.match(line):
            self.lane.finish(_scala_test(failed[1], failed[2]), "failed")
        elif skipped := _SKIPPED.match(line):
            self.lane.finish(_scala_test(skipped[1], skipped[2]), "skipped")


def not_run(lines: Sequence[str]) -> Iterator[str]:
    """What pytest says of tests that could not run: how many, and why in the line below."""
    for line, below in pairwise((*lines, "")):
        if "NOT RUN" in line:
            yield from (line, below)


def _is_trouble(line: str) -> bool:
    return line.startswith(("==> X", "[error]"))


def _scala_test(suite: str, name: str) -> str:
    return f"src/test/scala/{suite.replace('.', '/')}.scala::{name}"
