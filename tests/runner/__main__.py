"""``python -m tests.runner``: see the package."""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console
from tests.runner.lanes import PythonLane, ScalaLane
from tests.runner.outcomes import EXPECTED, FAILED, PASSED, SKIPPED, Outcome, Record, load, unproved
from tests.runner.progress import Clock, Screen, clock
from tests.runner.selection import QUICK, TIERS, Selection, selected
from tests.runner.setup import Setup
from tests.support.missing import LACKING
from tests.support.paths import CACHE, ROOT
from tests.support.promises import PROOF, TEST, MarkedTest, marked_tests

KEPT = CACHE / "tests"
SECONDS = KEPT / "seconds.json"
SLOWEST = 15
POLL_S = 0.1
# Two workers, each with a Spark and a RocketMQ, beside sbt and the JVM of Scala's tests.
ENOUGH_MEMORY_MIB = 7_000


class Interrupted(BaseException):
    """Ctrl-C, or the request to end."""


def main(words: Sequence[str]) -> int:
    """Runs a tier; the exit status is that of ``make``."""
    console = Console(highlight=False, soft_wrap=True)
    if words[:1] == ["verify"]:
        return verify(console)
    if not words or words[0] not in TIERS:
        console.print(
            f"say one of {', '.join(TIERS)} or verify, then arguments of pytest", style="red"
        )
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="rmq-ordered-tests-"))
    run = Run(selected(words[0], words[1:]), folder, console)
    try:
        return run.play()
    except Interrupted:
        console.print("\ninterrupted; everything that was started is ended", style="red")
        return 130
    finally:
        run.end()
        shutil.rmtree(folder, ignore_errors=True)


def verify(console: Console) -> int:
    """Whether the last runs of both tiers have proved every promise."""
    missing = unproved({tier: load(KEPT, tier) for tier in (TEST, PROOF)}, marked_tests(ROOT))
    for sentence in missing:
        console.print(sentence, style="red", markup=False)
    if not missing:
        console.print("every promise of docs/guarantees.md was proved by these runs")
    return 1 if missing else 0


class Run:
    """One run of a tier, from the build of the broker to the summary."""

    def __init__(self, selection: Selection, folder: Path, console: Console) -> None:
        self._selection = selection
        self._folder = folder
        self._console = console
        self._clock = Clock()
        self._known: dict[str, float] = _read_seconds()
        self._lanes: list[PythonLane | ScalaLane] = []
        self._setup = Setup(folder, console)

    def play(self) -> int:
        """Runs it and says what came out."""
        if self._selection.is_whole:
            (KEPT / f"{self._selection.tier}.json").unlink(missing_ok=True)
        if self._selection.tier != QUICK:
            self._setup.build()
            if self._selection.is_whole and not self._setup.lacking:
                self._setup.prepare()
            self._clock = Clock()
        tests = self._selection.scala_tests(marked_tests(ROOT))
        starts = []
        if tests and self._selection.has_scala and not self._setup.why:
            starts.append(lambda: ScalaLane(self._selection, tests, self._folder, self._known))
        if self._selection.has_python:
            starts.append(self._python)
        if _memory_mib() >= ENOUGH_MEMORY_MIB:
            self._follow([start() for start in starts])
        else:  # one after the other
            for start in starts:
                self._follow([start()])
        return self._tell(tests)

    def end(self) -> None:
        """Ends what still runs."""
        self._setup.end()
        for lane in self._lanes:
            lane.end()

    def _python(self) -> PythonLane:
        os.environ[LACKING] = self._setup.why
        return PythonLane(self._selection, self._workers(), self._folder, self._known)

    def _workers(self) -> int:
        wanted = int(os.environ.get("WORKERS", "2"))
        return wanted if _memory_mib() >= ENOUGH_MEMORY_MIB else 1

    def _follow(self, lanes: list[PythonLane | ScalaLane]) -> None:
        self._lanes += lanes
        workers = {"Python": self._workers(), "Scala": 1}
        with Screen([lane.lane for lane in self._lanes], workers, self._console) as screen:
            while [lane for lane in lanes if lane.poll()]:
                screen.refresh()
                time.sleep(POLL_S)
            screen.refresh()

    def _tell(self, scala: Sequence[MarkedTest]) -> int:
        outcomes = [outcome for lane in self._lanes for outcome in lane.outcomes]
        _keep_seconds(self._known, outcomes)
        if self._selection.is_whole:
            Record(self._selection.tier, tuple(outcomes)).save(KEPT)
        if not outcomes and not any(lane.failed for lane in self._lanes) and not self._setup.broken:
            return self._nothing()
        self._slowest(outcomes)
        for lane in self._lanes:
            if text := lane.report():
                self._console.print(f"\n{text}", markup=False)
        if self._setup.why and scala:
            text = f"Scala's tests NOT RUN: {self._setup.why}"
            self._console.print(text, style="bold red", markup=False)
        self._summary(outcomes)
        lacks = self._setup.lacking and os.environ.get("CI") == "true"
        return 1 if self._setup.broken or lacks or any(lane.failed for lane in self._lanes) else 0

    def _nothing(self) -> int:
        tier = self._selection.tier
        other = {TEST: PROOF, PROOF: TEST, QUICK: TEST}[tier]
        self._console.print(
            f"`make {tier}` has no such test; does `make {other}` have it?", style="red"
        )
        return 2

    def _slowest(self, outcomes: Sequence[Outcome]) -> None:
        self._console.print("slowest tests:")
        for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:SLOWEST]:
            self._console.print(f"{outcome.seconds:8.1f} s  {outcome.test}", markup=False)

    def _summary(self, outcomes: Sequence[Outcome]) -> None:
        ended = Counter(outcome.ended for outcome in outcomes)
        words = {PASSED: "passed", FAILED: "failed", SKIPPED: "skipped",
                 EXPECTED: "differ from RocketMQ as listed"}  # fmt: skip
        counts = [f"{ended[key]} {word}" for key, word in words.items() if ended[key]]
        failed = any(lane.failed for lane in self._lanes) or bool(self._setup.broken)
        text = f"make {self._selection.tier}: {', '.join(counts)} in {clock(self._clock.elapsed_s)}"
        self._console.print(text, style="bold red" if failed else "bold green")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # once is enough: what follows cleans up
    raise Interrupted


def _memory_mib() -> int:
    """What could be used now; everything where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return ENOUGH_MEMORY_MIB
    return int(re.findall(r"MemAvailable:\s+(\d+)", text)[0]) // 1024


def _read_seconds() -> dict[str, float]:
    try:
        seconds: dict[str, float] = json.loads(SECONDS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return seconds


def _keep_seconds(known: dict[str, float], outcomes: Sequence[Outcome]) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    timed = {outcome.test: round(outcome.seconds, 3) for outcome in outcomes}
    SECONDS.write_text(json.dumps(known | timed), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
