"""Which tests a bug is given to: those that carry the mark of the promise it breaks.

A bug in Python gets the tests that need no server, a bug in Scala the Scala tests; of either the
short tier.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.mutations.bugs import Bug
from tests.support.promises import TEST, MarkedTest

_WITHOUT_A_SERVER = ("tests/unit/", "tests/property/")


@dataclass(frozen=True)
class Selection:
    """The tests of a bug.

    Args:
        bug: The bug.
        tests: Those that are run.
        missing: Those that the sources under test do not have.
    """

    bug: Bug
    tests: tuple[MarkedTest, ...]
    missing: tuple[MarkedTest, ...] = ()


def select(
    bugs: Iterable[Bug], marked: Sequence[MarkedTest], there: Iterable[MarkedTest]
) -> list[Selection]:
    """The tests of each bug.

    Args:
        bugs: Those to be planted.
        marked: All tests, with their marks.
        there: The tests of the sources that are spoilt, whose marks do not count.
    """
    known = {(test.file, test.name) for test in there}
    selections = []
    for bug in bugs:
        wanted = [test for test in marked if bug.promise in test.promises and _suits(test, bug)]
        tests = tuple(test for test in wanted if (test.file, test.name) in known)
        missing = tuple(test for test in wanted if test not in tests)
        selections.append(Selection(bug, tests, missing))
    return selections


def all_tests(selections: Iterable[Selection]) -> list[MarkedTest]:
    """Every test once, in the order of the files."""
    tests = {test for selection in selections for test in selection.tests}
    return sorted(tests, key=lambda test: (test.file, test.name))


def _suits(test: MarkedTest, bug: Bug) -> bool:
    if test.tier != TEST or test.language != bug.language:
        return False
    return bug.language == "scala" or test.file.startswith(_WITHOUT_A_SERVER)
