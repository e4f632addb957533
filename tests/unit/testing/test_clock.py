"""The clock that is moved by hand."""

import pytest

from rmq_ordered.testing import ManualClock


def test_time_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(monotonic_ms=5, wall_ms=100)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (5, 100)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (5, 100)
    clock.advance_ms(7)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (12, 107)


def test_a_pause_returns_at_once_and_later() -> None:
    clock = ManualClock(monotonic_ms=0)
    clock.pause_ms(3_600_000)
    clock.pause_ms(1)
    assert clock.monotonic_ms() == 3_600_001
    assert clock.pauses == [3_600_000, 1]


def test_monotonic_time_cannot_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back by 1 ms"):
        ManualClock().advance_ms(-1)


def test_the_wall_clock_can_jump_alone() -> None:
    clock = ManualClock(monotonic_ms=5, wall_ms=100)
    clock.jump_wall_ms(-50)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (5, 50)
