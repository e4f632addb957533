"""Every promise has a test that is run by `make test`, and every proof is of a promise."""

from pathlib import Path

import pytest
from tests.support.paths import ROOT
from tests.support.promises import (
    PROOF,
    TEST,
    MarkedTest,
    marked_tests,
    problems,
    promised,
    proofs_page,
)

GUARANTEES = ROOT / "docs" / "guarantees.md"


def marked(*promises: str, tier: str = TEST) -> MarkedTest:
    return MarkedTest("tests/test_a.py", "test_one", promises, tier, "python")


def promise(name: str) -> str:
    return f"- It keeps\n  its word. [`{name}`](proofs.md#{name})\n"


def test_promises_and_proofs_belong_together() -> None:
    tests = marked_tests(ROOT)
    for language in ("python", "scala"):
        assert sum(test.language == language for test in tests) > 300, "the real tests are read"
    text = GUARANTEES.read_text()
    assert promised(text), "the guarantees promise nothing"
    assert problems(text, tests) == []


def test_the_list_of_proofs_is_generated_from_the_marks() -> None:
    assert (ROOT / "docs" / "proofs.md").read_text() == proofs_page(ROOT), "run make docs"


def test_a_promise_without_a_proof_is_found_and_the_reverse() -> None:
    text = "# Guarantees\n\n" + promise("a") + promise("b")
    assert problems(text, [marked("a", "b")]) == []
    assert problems(text, [marked("a")]) == ["no test proves 'b'"]
    assert problems(text, [marked("a", "b", "c")]) == [
        "tests/test_a.py::test_one proves 'c', which the guarantees do not promise"
    ]


def test_a_promise_that_only_the_long_tier_proves_is_found() -> None:
    long = marked("a", tier=PROOF)
    assert problems(promise("a"), [long, marked("a")]) == []
    assert problems(promise("a"), [long]) == [
        "'a' is proved by the long tier alone; make test must prove it too"
    ]


def test_an_id_that_is_missing_or_there_twice_is_found() -> None:
    assert problems(promise("a") * 2, [marked("a")]) == [
        "the id 'a' stands in the guarantees twice"
    ]
    with pytest.raises(ValueError, match="this promise has no id: - It keeps its word"):
        promised(promise("a") + "- It keeps its word.\n")
    with pytest.raises(ValueError, match="link to the proofs of others"):
        promised("- It keeps its word. [`a`](proofs.md#b)\n")


def test_the_marks_of_both_languages_are_read(tmp_path: Path) -> None:
    python, scala = tmp_path / "tests" / "test_a.py", tmp_path / "src" / "test" / "ASuite.scala"
    scala.parent.mkdir(parents=True)
    python.parent.mkdir()
    python.write_text(
        "def helper(): ...\n"
        '@proves("p", "q")\n@pytest.mark.proof\ndef test_one(): ...\n'
        'class TestB:\n    @proves("r")\n    def test_two(self): ...\n'
    )
    scala.write_text(
        'test("a lock is refused") { }\n'
        'broker.test(\n  "a lock is granted".proves("p", "q").proof\n) { b =>\n'
        'test(s"no $name".proves("r")) { }\n'
    )
    file = "src/test/ASuite.scala"
    assert marked_tests(tmp_path) == [
        MarkedTest("tests/test_a.py", "test_one", ("p", "q"), PROOF, "python"),
        MarkedTest("tests/test_a.py", "TestB::test_two", ("r",), TEST, "python"),
        MarkedTest(file, "a lock is refused", (), TEST, "scala"),
        MarkedTest(file, "a lock is granted", ("p", "q"), PROOF, "scala"),
        MarkedTest(file, "no $name", ("r",), TEST, "scala"),
    ]


def test_a_file_of_the_long_tier_is_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(
        "pytestmark = pytest.mark.proof\ndef test_one(): ...\n"
    )
    assert [test.tier for test in marked_tests(tmp_path)] == [PROOF]
