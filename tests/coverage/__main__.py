"""``python -m tests.coverage``: see the package."""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.coverage.measuring import PythonMeasure, scala_reached, tiers_of
from tests.support.paths import CACHE, ROOT
from tests.support.promises import marked_tests, promised

LANGUAGES = ("python", "scala")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures a checkout, keeps the figures and shows them."""
    asked = _parsed(arguments)
    console = Console()
    asked.keep.parent.mkdir(parents=True, exist_ok=True)
    measured: dict[str, Any] = {"promises": _promises(asked.tree)}
    if asked.only in (None, "scala"):
        tiers = tiers_of(asked.tree)
        measured["scala"] = {
            tier: asdict(reached) for tier, reached in scala_reached(asked.tree, tiers).items()
        }
    if asked.only in (None, "python"):
        measured["python"] = _python(asked, console)
    asked.keep.write_text(json.dumps(measured), encoding="utf-8")
    console.print(table({"now": measured}))
    if asked.beside:
        return beside(asked.beside, asked.keep, console)
    return 0


def beside(before: Path, now: Path, console: Console) -> int:
    """Two measurements side by side, and what only the first one reached."""
    kept = {"before": _load(before), "now": _load(now)}
    console.print(table(kept))
    for language in LANGUAGES:
        for name, lines in lost(kept["before"], kept["now"], language).items():
            console.print(f"only before: {name} {', '.join(map(str, lines))}", markup=False)
    return 0


def table(measured: Mapping[str, Mapping[str, Any]]) -> Table:
    """Lines, branches and promises, a column for each measurement and tier."""
    shown = Table("", title="reached by the tests")
    columns = [(name, kept, tier) for name, kept in measured.items() for tier in _tiers(kept)]
    for name, _, tier in columns:
        shown.add_column(f"{name}: {_LABELS.get(tier, tier)}", justify="right")
    for language in LANGUAGES:
        for what in ("lines", "branches"):
            cells = [_share(kept.get(language, {}).get(tier), what) for _, kept, tier in columns]
            shown.add_row(f"{language}, {what}", *cells)
    shown.add_row(
        "promises with a test", *[_with_proof(kept["promises"]) for _, kept, _ in columns]
    )
    return shown


_LABELS = {"test": "make test", "proof": "and make proof"}


def lost(before: Mapping[str, Any], now: Mapping[str, Any], language: str) -> dict[str, list[int]]:
    """Lines that the first measurement reached and the second did not, in files of both."""
    if language not in before or language not in now:
        return {}
    first, second = (list(kept[language].values())[-1]["missed"] for kept in (before, now))
    found = {name: sorted(set(lines) - set(first.get(name, ()))) for name, lines in second.items()}
    return {name: lines for name, lines in found.items() if lines}


def _promises(tree: Path) -> dict[str, int]:
    """How many tests of today's proofs of each promise this checkout has."""
    there = {(test.file, test.name) for test in marked_tests(tree)}
    counts = dict.fromkeys(promised((ROOT / "docs" / "guarantees.md").read_text()), 0)
    for test in marked_tests(ROOT):
        for promise in test.promises:
            counts[promise] += (test.file, test.name) in there
    return counts


def _python(asked: argparse.Namespace, console: Console) -> dict[str, Any]:
    found = {}
    with tempfile.TemporaryDirectory(prefix="rmq-coverage-") as folder:
        measure = PythonMeasure(asked.tree, Path(folder), asked.workers, asked.arguments)
        for tier in tiers_of(asked.tree):
            status = measure.run(tier)
            if status != 0:
                console.print(f"some tests failed while they were measured: {status}", style="red")
            found[tier] = asdict(measure.reached())
    return found


def _tiers(kept: Mapping[str, Any]) -> list[str]:
    return list(next(kept[language] for language in LANGUAGES if language in kept))


def _share(reached: Mapping[str, Any] | None, what: str) -> str:
    if reached is None:
        return "not measured"
    all_, some = reached[what], reached[f"{what}_reached"]
    return f"{100 * some / all_:.2f} % of {all_}"


def _with_proof(promises: Mapping[str, int]) -> str:
    return f"{sum(count > 0 for count in promises.values())} of {len(promises)}"


def _load(path: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return kept


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="measure this checkout instead")
    parser.add_argument("--keep", type=Path, default=CACHE / "coverage.json", metavar="FILE")
    parser.add_argument("--beside", type=Path, help="an earlier FILE to compare with")
    parser.add_argument("--only", choices=LANGUAGES, help="one language")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("arguments", nargs="*", help="pytest's, to select; after --")
    asked = parser.parse_args(arguments)
    asked.tree = asked.tree.resolve()
    return asked


if __name__ == "__main__":
    sys.exit(main())
