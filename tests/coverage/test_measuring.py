"""What was reached counts, in whatever process it ran and however that ended."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.coverage.__main__ import beside, lost, table
from tests.coverage.measuring import EVERYTHING, PythonMeasure, _scoverage, tiers_of
from tests.support.paths import ROOT
from tests.support.promises import PROOF, TEST

PRODUCT = """
def early():
    return 1

def late():
    return 2

def never():
    return 3
"""
# A child that is killed as Spark's workers are, with no time to write anything down.
TESTS = """
import glob, os, signal, subprocess, sys, time
import coverage
import pytest

def test_short():
    code = "import sys, rmq_ordered.it as it; it.early(); print(1, flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"1\\n"
    saved = os.environ["COVERAGE_PROCESS_START"].replace("coveragerc", "")
    deadline = time.monotonic() + 60
    while not any(map(saved_lines, glob.glob(f"{saved}data.*pid{child.pid}.*"))):
        assert time.monotonic() < deadline, "nothing was saved while the process ran"
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.communicate()

def saved_lines(path):
    data = coverage.CoverageData(path)
    try:
        data.read()
    except coverage.exceptions.DataError:
        return False
    return bool(data.measured_files())

@pytest.mark.proof
def test_long():
    import rmq_ordered.it
    assert rmq_ordered.it.late() == 2
"""
SETTINGS = """
[tool.pytest.ini_options]
testpaths = ["tests"]
markers = ["proof: belongs to the long tier", "generated: by hypothesis"]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with two tests, one of each tier."""
    package = tmp_path / "tree" / "python" / "rmq_ordered"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "it.py").write_text(PRODUCT)
    (tmp_path / "tree" / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "tree" / "tests").mkdir()
    (tmp_path / "tree" / "tests" / "test_it.py").write_text(TESTS)
    return tmp_path / "tree"


def test_lines_of_killed_processes_count_and_tiers_add_up(tree: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    measure = PythonMeasure(tree, data, workers=1)
    assert measure.run(TEST) == 0
    short = measure.reached()
    assert short.missed["python/rmq_ordered/it.py"] == (6, 9)
    assert measure.run(PROOF) == 0
    both = measure.reached()
    assert both.missed["python/rmq_ordered/it.py"] == (9,)
    assert (both.lines, both.lines_reached) == (short.lines, short.lines_reached + 1)


def test_a_tree_from_before_the_tiers_is_measured_as_one(tree: Path) -> None:
    assert tiers_of(ROOT) == tiers_of(tree) == (TEST, PROOF)
    (tree / "pyproject.toml").write_text("[tool.pytest.ini_options]")
    assert tiers_of(tree) == (EVERYTHING,)


def test_what_scoverage_wrote_is_read_by_line_and_branch(tmp_path: Path) -> None:
    statement = (
        '<statement source="/x/src/main/scala/a/B.scala" line="{}" branch="{}"'
        ' invocation-count="{}"/>'
    )
    rows = [(1, "false", 4), (2, "true", 1), (3, "true", 0), (3, "false", 0)]
    report = tmp_path / "scoverage.xml"
    report.write_text(f"<scoverage>{''.join(statement.format(*row) for row in rows)}</scoverage>")
    reached = _scoverage(report)
    assert (reached.lines, reached.lines_reached) == (4, 2)
    assert (reached.branches, reached.branches_reached) == (2, 1)
    assert reached.missed == {"a/B.scala": (3,)}


def test_two_measurements_are_compared_line_by_line(tmp_path: Path) -> None:
    def measured(*missed: int) -> dict[str, object]:
        reached = {"lines": 10, "lines_reached": 10 - len(missed)}
        reached |= {"branches": 4, "branches_reached": 3}
        return {
            "python": {TEST: {**reached, "missed": {"a.py": list(missed)}}},
            "promises": {"order.one": 1, "order.two": 0},
        }

    before, now = tmp_path / "before.json", tmp_path / "now.json"
    before.write_text(json.dumps(measured(1)))
    now.write_text(json.dumps(measured(1, 7)))
    console = Console(record=True, width=120)
    beside(before, now, console)
    shown = console.export_text()
    assert "90.00 % of 10" in shown
    assert "80.00 % of 10" in shown
    assert "1 of 2" in shown
    assert "only before: a.py 7" in shown
    assert lost(measured(1, 7), measured(1), "python") == {}
    assert table({"now": measured()}).columns
