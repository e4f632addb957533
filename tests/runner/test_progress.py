"""How far a run is, and how long it will go on."""

from io import StringIO

from rich.console import Console
from tests.runner.progress import Clock, Lane, Screen, clock, short, usual_seconds


def lane_of(*tests: str) -> Lane:
    lane = Lane("Python")
    lane.expect(tests, {"a.py::one": 8.0})
    lane.start()
    return lane


def test_what_is_left_is_what_has_not_ended() -> None:
    lane = lane_of("a.py::one", "tests/spark/test_b.py::two")
    assert lane.left_s == 8.0 + usual_seconds("tests/spark/test_b.py::two")
    lane.finish("a.py::one", "passed")
    assert lane.left_s == usual_seconds("tests/spark/test_b.py::two")
    lane.ended = True
    assert lane.left_s == 0


def test_tests_that_nobody_expected_are_counted_too() -> None:
    lane = lane_of("a.py::one")
    for name in ("a.py::x", "a.py::y"):
        lane.finish(name, "failed")
    assert (lane.done, lane.total, lane.failed) == (2, 2, 2)


def test_before_anything_was_done_the_time_left_is_what_was_expected() -> None:
    lane = lane_of("a.py::one")
    assert Clock().left_s([lane], {"Python": 2}) == 4.0


def test_a_screen_that_is_no_terminal_says_nothing_at_first() -> None:
    output = StringIO()
    with Screen([lane_of("a.py::one")], {"Python": 1}, Console(file=output)) as screen:
        screen.refresh()
    assert output.getvalue() == ""


def test_a_terminal_shows_counts_what_is_running_and_what_is_left() -> None:
    output = StringIO()
    lane = lane_of("a.py::one", "a.py::two")
    lane.finish("a.py::two", "failed")
    lane.running = short("tests/unit/a.py::one")
    console = Console(file=output, force_terminal=True, width=100)
    with Screen([lane], {"Python": 1}, console) as screen:
        screen.refresh()
    for words in ("1/2 (1 failed)", "a.py::one", "left"):
        assert words in output.getvalue()


def test_times_read_as_minutes_and_seconds() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3_600)] == ["0:00", "0:59", "1:01", "60:00"]
