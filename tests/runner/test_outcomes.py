"""What a run leaves behind, and when it proves everything."""

from pathlib import Path

from tests.runner.outcomes import (
    FAILED,
    PASSED,
    SKIPPED,
    Outcome,
    Record,
    load,
    scala_outcomes,
    unproved,
)
from tests.support.promises import PROOF, TEST, MarkedTest

QUICK_PROOF = MarkedTest("tests/test_a.py", "test_one", ("p",), TEST, "python")
LONG_PROOF = MarkedTest(
    "src/test/scala/rmqordered/ASuite.scala", "after $what all is there", ("p", "q"), PROOF, "scala"
)
PLAIN = MarkedTest("tests/test_a.py", "test_two", (), TEST, "python")
TESTS = [QUICK_PROOF, LONG_PROOF, PLAIN]

GOOD = Outcome("tests/test_a.py::test_one[a]", PASSED, 0.1)
LONG_GOOD = Outcome(
    "src/test/scala/rmqordered/ASuite.scala::after a kill all is there", PASSED, 9.0
)


def runs(test: list[Outcome], proof: list[Outcome]) -> dict[str, Record | None]:
    return {TEST: Record(TEST, tuple(test)), PROOF: Record(PROOF, tuple(proof))}


def test_runs_in_which_every_proof_passed_prove_everything() -> None:
    assert unproved(runs([GOOD], [LONG_GOOD]), TESTS) == []


def test_a_proof_that_was_not_run_is_told() -> None:
    other = Outcome("tests/test_a.py::test_one_more", PASSED, 0.1)
    assert unproved(runs([other], [LONG_GOOD]), TESTS) == [
        "p: tests/test_a.py::test_one was not run"
    ]


def test_a_proof_of_which_a_part_was_skipped_is_told() -> None:
    skipped = Outcome("tests/test_a.py::test_one[b]", SKIPPED, 0.0, "no Java")
    assert unproved(runs([GOOD, skipped], [LONG_GOOD]), TESTS) == [
        "p: tests/test_a.py::test_one was skipped (no Java)"
    ]


def test_a_proof_that_failed_is_told() -> None:
    failed = Outcome(LONG_GOOD.test, FAILED, 1.0)
    (sentence,) = unproved(runs([GOOD], [failed]), TESTS)
    assert sentence == f"p, q: {LONG_PROOF} ended as failed"


def test_a_tier_that_did_not_run_proves_nothing() -> None:
    assert unproved({TEST: Record(TEST, (GOOD,)), PROOF: None}, TESTS) == [
        "`make proof` did not run to its end, so its proofs are not given"
    ]


def test_a_record_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    record = Record(TEST, (GOOD, LONG_GOOD))
    record.save(tmp_path / "tests")
    assert load(tmp_path / "tests", TEST) == record
    assert load(tmp_path / "tests", PROOF) is None


def test_the_reports_of_sbt_are_read(tmp_path: Path) -> None:
    (tmp_path / "TEST-rmqordered.lease.ASuite.xml").write_text(
        '<testsuite><testcase classname="rmqordered.lease.ASuite" name="one" time="1,000.5"/>'
        '<testcase classname="rmqordered.lease.ASuite" name="two" time="0.1"><failure/></testcase>'
        '<testcase classname="rmqordered.lease.ASuite" name="three" time="0"><skipped/></testcase>'
        "</testsuite>"
    )
    file = "src/test/scala/rmqordered/lease/ASuite.scala"
    assert scala_outcomes(tmp_path) == [
        Outcome(f"{file}::one", PASSED, 1000.5),
        Outcome(f"{file}::two", FAILED, 0.1),
        Outcome(f"{file}::three", SKIPPED, 0.0),
    ]
