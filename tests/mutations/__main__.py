"""Plants the bugs and tells which tests caught them: ``python -m tests.mutations``.

First each lane runs its whole selection as it is, which has to pass: tests that fail anyway prove
nothing. The working tree is never touched. Ends with 1 unless every bug was caught.
"""

import argparse
import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from rich.console import Console
from rich.table import Table
from tests.mutations.bugs import BUGS, Bug
from tests.mutations.lanes import Lane, NoVerdict, PythonLane, ScalaLane, sbt_launcher
from tests.mutations.planting import DoesNotApply
from tests.mutations.selection import Selection, all_tests, select
from tests.mutations.workshop import Processes, copied, spoilt
from tests.support.paths import CACHE, ROOT
from tests.support.promises import marked_tests

RECORD: Final = CACHE / "mutations.json"
LANES: Final = ("python", "scala")
# A first run compiles everything.
_ALL_S: Final = 900.0
_BUG_S: Final = 180.0
# Of a table that goes into a file.
_WIDTH: Final = 180

CAUGHT: Final = "caught"


@dataclass(frozen=True)
class Verdict:
    """What became of one bug; ``told`` is the test that caught it, or why nothing did."""

    bug: Bug
    outcome: str
    told: str
    seconds: float

    @property
    def is_caught(self) -> bool:
        """Whether a test noticed the bug."""
        return self.outcome == CAUGHT


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check; the status of the process."""
    asked = _parsed(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    bugs = [
        bug for bug in BUGS if asked.lane in (None, bug.language) and asked.only in (None, bug.name)
    ]
    if not bugs:
        console.print("[red]there is no such bug")
        return 1
    marked = marked_tests(ROOT)
    there = marked if asked.tree == ROOT else marked_tests(asked.tree)
    selections = select(bugs, marked, there)
    started = time.monotonic()
    verdicts = _judged(asked.tree, selections, console)
    seconds = time.monotonic() - started
    _print(console, asked.tree, selections, verdicts, seconds)
    _write(asked.tree, selections, verdicts, seconds)
    return 0 if all(verdict.is_caught for verdict in verdicts) else 1


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument(
        "--tree", type=Path, default=ROOT, help="spoil the sources of this checkout instead"
    )
    parser.add_argument("--only", help="the name of one bug", metavar="NAME")
    parser.add_argument("--lane", choices=LANES, help="the bugs of one language")
    asked = parser.parse_args(arguments)
    asked.tree = asked.tree.resolve()
    if not (asked.tree / "build.sbt").is_file():
        parser.error(f"--tree: {asked.tree} is no checkout of this project")
    return asked


def _judged(tree: Path, selections: Sequence[Selection], console: Console) -> list[Verdict]:
    """Both lanes side by side, in one copy: neither changes a file that the other one reads."""
    processes = Processes()
    verdicts: list[Verdict] = []
    with copied(tree) as copy:
        threads = []
        for name in LANES:
            mine = [one for one in selections if one.bug.language == name]
            if mine:
                lane = _LaneRun(name, copy, mine, processes, verdicts, console)
                threads.append(threading.Thread(target=lane.run, name=name))
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            processes.end_all()
            for thread in threads:
                thread.join()
    order = [selection.bug for selection in selections]
    return sorted(verdicts, key=lambda verdict: order.index(verdict.bug))


class _LaneRun:
    """All bugs of one language, one after another, in a thread."""

    def __init__(
        self,
        name: str,
        tree: Path,
        selections: Sequence[Selection],
        processes: Processes,
        verdicts: list[Verdict],
        console: Console,
    ) -> None:
        self._name = name
        self._tree = tree
        self._selections = selections
        self._processes = processes
        self._verdicts = verdicts
        self._console = console

    def run(self) -> None:
        """Says what became of each bug, whatever goes wrong."""
        try:
            lane = self._lane()
            try:
                self._ensure_passing(lane)
                for selection in self._selections:
                    self._tell(_verdict(lane, self._tree, selection))
            finally:
                lane.close()
        except Exception as error:
            judged = {verdict.bug for verdict in self._verdicts}
            told = f"{type(error).__name__}: {error}"
            for one in self._selections:
                if one.bug not in judged:
                    self._verdicts.append(Verdict(one.bug, "not judged", told, 0.0))

    def _lane(self) -> Lane:
        if self._name == "python":
            return PythonLane(self._tree, self._processes)
        launcher = sbt_launcher(ROOT, shutil.which("sbt"))
        return ScalaLane(self._tree, launcher, self._processes)

    def _ensure_passing(self, lane: Lane) -> None:
        tests = all_tests(self._selections)
        started = time.monotonic()
        failed = lane.run(tests, _ALL_S) if tests else None
        if failed is not None:
            raise NoVerdict(f"without any bug this fails: {failed.test}")
        seconds = time.monotonic() - started
        self._console.print(f"{self._name}: {len(tests)} tests pass without a bug, {seconds:.0f} s")

    def _tell(self, verdict: Verdict) -> None:
        self._verdicts.append(verdict)
        self._console.print(
            f"{verdict.bug.name}: {verdict.outcome}, {verdict.told}, {verdict.seconds:.1f} s",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _verdict(lane: Lane, tree: Path, selection: Selection) -> Verdict:
    bug = selection.bug
    started = time.monotonic()
    try:
        with spoilt(tree, bug):
            if not selection.tests:
                outcome, told = "no tests", f"none that shows {bug.promise} is there"
            else:
                failed = lane.run(selection.tests, _BUG_S)
                if failed is None:
                    outcome, told = "SURVIVED", f"{len(selection.tests)} tests passed"
                else:
                    outcome = CAUGHT
                    told = f"by hanging: {failed.test}" if failed.is_hanging else failed.test
    except DoesNotApply as error:
        outcome, told = "does not apply", str(error)
    except NoVerdict as error:
        outcome, told = "not judged", str(error)
    return Verdict(bug, outcome, told, time.monotonic() - started)


def _print(
    console: Console,
    tree: Path,
    selections: Iterable[Selection],
    verdicts: Sequence[Verdict],
    seconds: float,
) -> None:
    table = Table(title=f"Bugs planted in {tree}")
    for heading in ("bug", "area", "promise", "", "by"):
        table.add_column(heading, overflow="fold")
    table.add_column("seconds", justify="right")
    for one in verdicts:
        colour = "green" if one.is_caught else "red"
        place = one.told.rpartition("/")[2] if one.is_caught else one.told
        table.add_row(
            one.bug.name,
            one.bug.area,
            one.bug.promise,
            f"[{colour}]{one.outcome}[/]",
            place.replace("[", "\\["),
            f"{one.seconds:.1f}",
        )
    console.print(table)
    for test in sorted({str(test) for one in selections for test in one.missing}):
        console.print(f"not there, left out: {test}", highlight=False, markup=False, soft_wrap=True)
    caught = sum(one.is_caught for one in verdicts)
    console.print(f"{caught} of {len(verdicts)} bugs caught in {seconds:.0f} s")


def _write(
    tree: Path, selections: Iterable[Selection], verdicts: Iterable[Verdict], seconds: float
) -> None:
    """Leaves the same as JSON."""
    tests = {one.bug: one for one in selections}
    record = {
        "tree": str(tree),
        "seconds": round(seconds, 1),
        "bugs": [
            asdict(one.bug)
            | {"outcome": one.outcome, "told": one.told, "seconds": round(one.seconds, 1)}
            | {"tests": [str(test) for test in tests[one.bug].tests]}
            | {"missing": [str(test) for test in tests[one.bug].missing]}
            for one in verdicts
        ],
    }
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    # As with Ctrl-C, so that nothing is left behind.
    signal.signal(signal.SIGTERM, _leave)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
