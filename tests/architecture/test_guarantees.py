"""Every test that the guarantees name exists: a promise without its proof is an error."""

import ast
import re
from pathlib import Path

import pytest
from tests.support.paths import ROOT

GUARANTEES = ROOT / "docs" / "guarantees.md"
_REFERENCE = re.compile(r"`((?:tests|src/test)/[^`\s:]+)::([^`]+)`")


def references(text: str) -> list[tuple[str, str]]:
    """Backticked references to tests: the file, and the test's name or sentence."""
    return [(file, name) for file, name in _REFERENCE.findall(text)]


def python_tests(text: str) -> set[str]:
    """The tests of a file, as ``test_name`` or ``TestClass::test_name``."""
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            names |= {f"{node.name}::{method}" for method in methods}
    return {name for name in names if name.rpartition("::")[2].startswith("test_")}


def scala_tests(text: str) -> set[str]:
    """The sentences of a munit suite."""
    return set(re.findall(r'\btest\(\s*"([^"]*)"', text))


def missing(text: str, root: Path) -> list[str]:
    """References that lead nowhere."""
    lost: list[str] = []
    for file, name in references(text):
        path = root / file
        if not path.is_file():
            lost.append(f"{file} does not exist")
            continue
        found = scala_tests if path.suffix == ".scala" else python_tests
        # Parameters in brackets are part of the run, not of the name.
        if name.partition("[")[0] not in found(path.read_text()):
            lost.append(f"{file} has no test '{name}'")
    return lost


def test_every_test_named_in_the_guarantees_exists() -> None:
    if not GUARANTEES.is_file():
        pytest.fail("docs/guarantees.md is missing: it is where the promises are made")
    text = GUARANTEES.read_text()
    assert references(text), "the guarantees name no test at all"
    assert missing(text, ROOT) == []


def test_a_reference_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(
        "def helper(): ...\ndef test_one(): ...\nclass TestB:\n    def test_two(self): ...\n"
    )
    (tmp_path / "src" / "test").mkdir(parents=True)
    (tmp_path / "src" / "test" / "S.scala").write_text('test("a lock is refused") { }')
    good = (
        "- P1 `tests/test_a.py::test_one` and `tests/test_a.py::TestB::test_two`\n"
        "- P2 `tests/test_a.py::test_one[a]`, `src/test/S.scala::a lock is refused`"
    )
    assert len(references(good)) == 4
    assert missing(good, tmp_path) == []
    bad = (
        "`tests/test_a.py::test_three` `tests/test_b.py::test_one` `tests/test_a.py::helper`"
        "`src/test/S.scala::a lock is granted`"
    )
    assert missing(bad, tmp_path) == [
        "tests/test_a.py has no test 'test_three'",
        "tests/test_b.py does not exist",
        "tests/test_a.py has no test 'helper'",
        "src/test/S.scala has no test 'a lock is granted'",
    ]
