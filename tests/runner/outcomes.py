"""What came out of a run, kept as JSON in the cache, and whether it proves every promise."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.support.promises import PROOF, TEST, MarkedTest

PASSED, FAILED, SKIPPED, EXPECTED = "passed", "failed", "skipped", "xfailed"


@dataclass(frozen=True)
class Outcome:
    """How one test ended.

    Args:
        test: Its file and name, with parameters; of Scala the file and the sentence.
        ended: One of the words above.
        seconds: How long it took, with its fixtures.
        why: The reason of a skip.
    """

    test: str
    ended: str
    seconds: float
    why: str = ""


@dataclass(frozen=True)
class Record:
    """A run of a whole tier."""

    tier: str
    outcomes: tuple[Outcome, ...]

    def save(self, folder: Path) -> None:
        """Keeps it as the last run of its tier."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.tier}.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def load(folder: Path, tier: str) -> Record | None:
    """The last run of a tier, if there was one."""
    path = folder / f"{tier}.json"
    if not path.is_file():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    outcomes = tuple(Outcome(**outcome) for outcome in kept["outcomes"])
    return Record(kept["tier"], outcomes)


def unproved(records: Mapping[str, Record | None], tests: Sequence[MarkedTest]) -> list[str]:
    """Which proofs were not given by these runs, a sentence each."""
    missing: list[str] = []
    for tier in (TEST, PROOF):
        record = records.get(tier)
        if record is None:
            missing.append(f"`make {tier}` did not run to its end, so its proofs are not given")
            continue
        for test in tests:
            if test.promises and test.tier == tier:
                missing += _shortcomings(test, record.outcomes)
    return missing


def _shortcomings(test: MarkedTest, outcomes: Iterable[Outcome]) -> list[str]:
    named = _name_pattern(test)
    ended = [outcome for outcome in outcomes if named.fullmatch(outcome.test)]
    promises = ", ".join(test.promises)
    if not ended:
        return [f"{promises}: {test} was not run"]
    skipped = [outcome.why for outcome in ended if outcome.ended == SKIPPED]
    if skipped:
        return [f"{promises}: {test} was skipped ({skipped[0]})"]
    if not any(outcome.ended == PASSED for outcome in ended):
        return [f"{promises}: {test} ended as {ended[0].ended}"]
    return []


def _name_pattern(test: MarkedTest) -> re.Pattern[str]:
    """Scala's sentences may have values in them, which the sources name by variables."""
    if test.language == "python":
        return re.compile(re.escape(str(test)) + r"(\[.*\])?", re.DOTALL)
    pieces = re.split(r"\$\{[^}]*\}|\$\w+", test.name)
    return re.compile(re.escape(f"{test.file}::") + ".*".join(map(re.escape, pieces)), re.DOTALL)


def scala_outcomes(folder: Path) -> list[Outcome]:
    """Reads the reports that sbt leaves, one file a suite."""
    found: list[Outcome] = []
    for path in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            file = "src/test/scala/" + case.get("classname", "").replace(".", "/") + ".scala"
            seconds = float(case.get("time", "0").replace(",", ""))
            found.append(Outcome(f"{file}::{case.get('name')}", _ended(case), seconds))
    return found


def _ended(case: ElementTree.Element) -> str:
    tags = {child.tag for child in case}
    if tags & {"failure", "error"}:
        return FAILED
    return SKIPPED if "skipped" in tags else PASSED
