"""A bug is caught when a test failed by it, and by nothing less."""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mutations.bugs import BUGS, Bug
from tests.mutations.lanes import _COLOUR, _SCALA_FAILURE, NoVerdict, PythonLane, _test_only
from tests.mutations.planting import DoesNotApply
from tests.mutations.selection import all_tests, select
from tests.mutations.workshop import _BUILT, Interrupted, Processes, copied, spoilt
from tests.support.paths import ROOT
from tests.support.promises import PROOF, TEST, MarkedTest

PYTHON_BUG = next(bug for bug in BUGS if bug.language == "python")
SCALA_BUG = next(bug for bug in BUGS if bug.language == "scala")
TESTS = """
import time

def test_good(): pass
def test_bad(): assert False
def test_slow(): time.sleep(60)
"""


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Processes that end with the test."""
    running = Processes()
    yield running
    running.end_all()


def python_test(name: str, file: str = "tests/unit/test_it.py") -> MarkedTest:
    return MarkedTest(file, name, (PYTHON_BUG.promise,), TEST, "python")


def scala_test(name: str, file: str = "src/test/scala/a/b/ItSuite.scala") -> MarkedTest:
    return MarkedTest(file, name, (SCALA_BUG.promise,), TEST, "scala")


@pytest.fixture
def lane(tmp_path: Path, processes: Processes) -> PythonLane:
    """A lane in a tree with three tests."""
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    shutil.copytree(ROOT / "tests" / "mutations", tmp_path / "tests" / "mutations")
    (folder / "test_it.py").write_text(TESTS)
    (folder / "test_broken.py").write_text("import nothing_of_this_name\n")
    return PythonLane(tmp_path, processes)


def test_tests_that_pass_have_noticed_nothing(lane: PythonLane) -> None:
    assert lane.run([python_test("test_good")], 60) is None


def test_the_first_test_that_fails_has_caught_the_bug(lane: PythonLane) -> None:
    failed = lane.run([python_test("test_good"), python_test("test_bad")], 60)
    assert failed is not None
    assert failed.test == "tests/unit/test_it.py::test_bad"


def test_tests_that_do_not_end_are_said_to_hang(lane: PythonLane) -> None:
    failed = lane.run([python_test("test_slow")], 3)
    assert failed is not None
    assert failed.is_hanging


@pytest.mark.parametrize(
    "test", [python_test("test_gone"), python_test("test_it", "tests/unit/test_broken.py")]
)
def test_tests_that_could_not_be_run_have_caught_nothing(
    lane: PythonLane, test: MarkedTest
) -> None:
    with pytest.raises(NoVerdict):
        lane.run([test], 60)


def test_nothing_begins_any_more_once_everything_is_to_end(
    lane: PythonLane, processes: Processes
) -> None:
    processes.end_all()
    with pytest.raises(Interrupted):
        lane.run([python_test("test_good")], 60)


def test_a_process_is_gone_when_it_is_left(tmp_path: Path, processes: Processes) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with processes.running(command, tmp_path) as process:
        assert process.poll() is None
    assert process.poll() is not None


def test_sbt_is_told_each_suite_once_and_each_test_by_its_whole_name() -> None:
    tests = [scala_test("one, it's said"), scala_test('with $mode and \\"that\\"')]
    assert _test_only(tests) == (
        'testOnly a.b.ItSuite -- "a.b.ItSuite.one, it\'s said" "a.b.ItSuite.with * and *that*"'
    )


def test_the_test_that_failed_is_read_from_what_munit_says() -> None:
    said = (
        "\x1b[31m==> X \x1b[0m\x1b[31mrmqordered.lease.QueueLockManagerSuite\x1b[0m."
        "\x1b[31ma lease lives 2.5 lives\x1b[0m \x1b[90m0.012s\x1b[0m munit.FailException: no"
    )
    failure = _SCALA_FAILURE.search(_COLOUR.sub("", said))
    assert failure is not None
    assert failure[1] == "QueueLockManagerSuite.a lease lives 2.5 lives"


def test_a_bug_gets_the_tests_of_its_promise_that_need_no_server() -> None:
    good, absent = python_test("test_good"), python_test("test_absent")
    marked = [
        good,
        absent,
        replace(good, promises=("another",)),
        replace(good, tier=PROOF),
        python_test("test_good", "tests/contract/test_it.py"),
        replace(scala_test("good"), promises=good.promises),
    ]
    (selection,) = select([PYTHON_BUG], marked, [replace(good, promises=()), *marked[2:]])
    assert selection.tests == (good,)
    assert selection.missing == (absent,)
    assert all_tests([selection, selection]) == [good]


def tree_of(folder: Path, bug: Bug, text: str) -> Path:
    path = folder / bug.file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_tree_is_as_it_was_when_the_bug_has_gone(tmp_path: Path) -> None:
    text = "def pay(amount):\n    return amount > 0\n"
    bug = replace(PYTHON_BUG, function="pay", expression="> 0", replacement=">= 0")
    path = tree_of(tmp_path, bug, text)
    found: list[str] = []

    def interrupt() -> None:
        found.append(path.read_text())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), spoilt(tmp_path, bug):
        interrupt()
    assert found == [text.replace("> 0", ">= 0")]
    assert path.read_text() == text


def test_a_bug_of_a_file_that_is_gone_does_not_apply(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply, match="is not there"), spoilt(tmp_path, PYTHON_BUG):
        pass


def test_a_copy_has_the_sources_and_is_gone_afterwards(tmp_path: Path) -> None:
    tree_of(tmp_path, PYTHON_BUG, "")
    (tmp_path / "build.sbt").write_text("")
    for part in _BUILT:
        (tmp_path / part).mkdir(parents=True)
    with copied(tmp_path) as copy:
        assert (copy / PYTHON_BUG.file).is_file()
        assert (copy / "build.sbt").is_file()
    assert not copy.exists()
