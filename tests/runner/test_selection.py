"""What a tier and its arguments select, in both languages."""

from tests.runner.selection import QUICK, sbt_command, selected
from tests.support.promises import PROOF, TEST, MarkedTest

LEASES = MarkedTest(
    "src/test/scala/rmqordered/lease/LeaseSuite.scala", "a lease ends, once", (), TEST, "scala"
)
CRASHES = MarkedTest(
    "src/test/scala/rmqordered/store/CrashSuite.scala", "whatever $kind of crash", ("p",),
    PROOF, "scala",
)  # fmt: skip
PYTHON = MarkedTest("tests/unit/test_lease.py", "test_a_lease", (), TEST, "python")
ALL = [LEASES, CRASHES, PYTHON]


def test_without_arguments_a_tier_is_whole() -> None:
    whole = selected(TEST, [])
    assert whole.is_whole
    assert whole.pytest_arguments() == ["-m", "not proof"]
    assert whole.scala_tests(ALL) == [LEASES]
    assert selected(PROOF, []).scala_tests(ALL) == [CRASHES]
    assert "proof or generated" in selected(PROOF, []).pytest_arguments()


def test_quick_is_python_that_needs_no_server() -> None:
    quick = selected(QUICK, [])
    assert not quick.has_scala
    assert "tests/unit" in quick.pytest_arguments()
    assert "tests/spark" not in quick.pytest_arguments()


def test_a_keyword_selects_in_both_languages() -> None:
    lease = selected(TEST, ["-k", "lease and not pop", "-x"])
    assert not lease.is_whole
    assert lease.pytest_arguments() == ["-m", "not proof", "-x", "-k", "lease and not pop"]
    assert lease.scala_tests(ALL) == [LEASES]
    assert selected(TEST, ["-k", "pop"]).scala_tests(ALL) == []
    assert selected(PROOF, ["-k", "p and crash"]).scala_tests(ALL) == [CRASHES]


def test_a_path_selects_in_its_language_alone() -> None:
    python = selected(TEST, ["tests/runner/test_selection.py::test_x"])
    assert python.has_python
    assert not python.has_scala
    assert python.pytest_arguments()[-1] == "tests/runner/test_selection.py::test_x"
    scala = selected(TEST, ["src/test/scala/rmqordered/lease"])
    assert not scala.has_python
    assert scala.scala_tests(ALL) == [LEASES]
    assert selected(TEST, ["src/test/scala/rmqordered/store"]).scala_tests(ALL) == []


def test_marks_of_the_user_are_added_to_those_of_the_tier() -> None:
    arguments = selected(TEST, ["-m", "generated", "-n", "4"]).pytest_arguments()
    assert arguments == ["-m", "(not proof) and (generated)", "-n", "4"]


def test_sbt_is_told_suites_tier_and_sentences() -> None:
    assert sbt_command(selected(TEST, []), [LEASES]) == (
        "testOnly rmqordered.lease.LeaseSuite -- --exclude-tags=Proof"
    )
    assert sbt_command(selected(PROOF, ["-k", "crash"]), [CRASHES]) == (
        "testOnly rmqordered.store.CrashSuite -- --include-tags=Proof "
        "*CrashSuite.whatever**kind*of*crash"
    )
