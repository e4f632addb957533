"""Runs the tests of a checkout and takes down which lines and branches they reached."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.mutations.workshop import copied
from tests.support.examples import SHARE
from tests.support.paths import ROOT
from tests.support.promises import PROOF, TEST

HERE = Path(__file__).parent
PLUGIN = HERE / "plugin"
SCOVERAGE = HERE / "scoverage.sbt"
# scoverage's compiler plugin exists for few compilers; which one measures changes no statement.
_SCALA = [
    'set broker / scalaVersion := "2.13.10"',
    'set broker / coverageScalacPluginVersion := "2.1.0"',
    "set broker / allowUnsafeScalaLibUpgrade := true",
    "coverage",
]
# Of a tree from before there were tiers.
EVERYTHING = "everything"
_MARKS = {TEST: ["-m", "not proof"], PROOF: ["-m", "proof or generated"], EVERYTHING: []}
_SHARE = {TEST: "25", PROOF: "100", EVERYTHING: "100"}
_TAGS = {TEST: " -- --exclude-tags=Proof", PROOF: " -- --include-tags=Proof", EVERYTHING: ""}


@dataclass(frozen=True)
class Reached:
    """What the tests reached of one language.

    Args:
        lines: How many there are (of Scala, statements).
        lines_reached: How many of them were run.
        branches: How many ways out of a condition there are.
        branches_reached: How many of them were taken.
        missed: The lines of each file that were not run.
    """

    lines: int
    lines_reached: int
    branches: int
    branches_reached: int
    missed: Mapping[str, tuple[int, ...]]


def tiers_of(tree: Path) -> tuple[str, ...]:
    """The tiers that this checkout's tests are divided into."""
    has_tiers = '"proof: ' in (tree / "pyproject.toml").read_text(encoding="utf-8")
    return (TEST, PROOF) if has_tiers else (EVERYTHING,)


class PythonMeasure:
    """Python's tests of one checkout; tiers add up, since what one reached stays reached."""

    def __init__(self, tree: Path, folder: Path, workers: int, only: Sequence[str] = ()) -> None:
        self._tree = tree
        self._only = only
        self._folder = folder
        self._workers = workers
        self._settings = folder / "coveragerc"
        self._settings.write_text(
            "[run]\nbranch = true\nparallel = true\npatch =\n    _exit\n"
            f"plugins = saves_often\ndata_file = {folder / 'data'}\n"
            f"source = {tree / 'python' / 'rmq_ordered'}\ndisable_warnings = no-data-collected\n",
            encoding="utf-8",
        )

    def run(self, tier: str) -> int:
        """Runs a tier; pytest's status."""
        words = ["pytest", "-q", "--color=no", f"--numprocesses={self._workers}"]
        words += ["--dist=loadfile", "--no-loadscope-reorder", *_MARKS[tier], *self._only]
        environment = {SHARE: _SHARE[tier], "COVERAGE_PROCESS_START": str(self._settings)}
        environment["PYTHONPATH"] = os.pathsep.join([str(self._tree / "python"), str(PLUGIN)])
        return self._python(words, environment).returncode

    def reached(self) -> Reached:
        """What all tiers so far have reached together."""
        report = self._folder / "report.json"
        environment = {"PYTHONPATH": str(PLUGIN)}
        for words in (["combine", "--append", "--quiet"], ["json", "--quiet", "-o", str(report)]):
            done = self._python(["coverage", *words, f"--rcfile={self._settings}"], environment)
            done.check_returncode()
        kept = json.loads(report.read_text(encoding="utf-8"))
        totals = kept["totals"]
        missed = {
            str(Path(name).relative_to(self._tree) if Path(name).is_absolute() else name): tuple(
                file["missing_lines"]
            )
            for name, file in kept["files"].items()
        }
        return Reached(
            totals["num_statements"],
            totals["covered_lines"],
            totals["num_branches"],
            totals["covered_branches"],
            missed,
        )

    def _python(
        self, words: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        # Those of this version: only what is tested is another's.
        command = [sys.executable, "-m", *words]
        return subprocess.run(
            command, cwd=self._tree, env={**os.environ, **environment}, check=False
        )


def scala_reached(tree: Path, tiers: Sequence[str]) -> Mapping[str, Reached]:
    """What Scala's tests reach, by tier, each with those before it; in a copy of the tree."""
    found = {}
    with copied(tree) as copy:
        _sbt(copy, ["clean"])
        for tier in tiers:
            # What earlier tiers reached stays: nothing is compiled again in between.
            # A test may take too long where everything is counted; the report is due all the same.
            for command in (f"testOnly *{_TAGS[tier]}", "coverageReport"):
                _sbt(copy, [*_SCALA, command], check=command == "coverageReport")
            found[tier] = _scoverage(copy / "target" / "scoverage-report" / "scoverage.xml")
    return found


def _sbt(tree: Path, commands: Sequence[str], *, check: bool = True) -> None:
    cache = tree / ".cache"
    if not cache.exists():
        cache.symlink_to(ROOT / ".cache")
    command = [str(tree / "scripts" / "sbt"), f"--addPluginSbtFile={SCOVERAGE}", *commands]
    with tempfile.TemporaryDirectory() as temporary:
        environment = {**os.environ, "TMPDIR": temporary}
        subprocess.run(command, cwd=tree, env=environment, check=check)


def _scoverage(path: Path) -> Reached:
    statements = list(ElementTree.parse(path).getroot().iter("statement"))
    branches = [one for one in statements if one.get("branch") == "true"]
    missed: dict[str, set[int]] = {}
    for one in statements:
        if one.get("invocation-count") == "0":
            name = (one.get("source") or "").rpartition("src/main/scala/")[2]
            missed.setdefault(name, set()).add(int(one.get("line") or 0))
    return Reached(
        len(statements),
        sum(one.get("invocation-count") != "0" for one in statements),
        len(branches),
        sum(one.get("invocation-count") != "0" for one in branches),
        {name: tuple(sorted(lines)) for name, lines in missed.items()},
    )
