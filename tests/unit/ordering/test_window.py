"""Pulls in flight: where the next one starts, and what an answer makes void."""

import pytest

from rmq_ordered.ordering.window import PullWindow


def test_pulls_start_where_the_one_before_should_end() -> None:
    window = PullWindow(100, 170, step=32, depth=16)
    assert window.next_pulls() == [(100, 32), (132, 32), (164, 6)]
    assert not window.is_done


def test_no_more_pulls_are_outstanding_than_the_depth() -> None:
    window = PullWindow(0, 1_000, step=10, depth=2)
    assert window.next_pulls() == [(0, 10), (10, 10)]
    assert window.answered(10) == 0
    assert window.next_pulls() == [(20, 10)]


def test_right_guesses_let_more_pulls_in_flight_and_a_wrong_one_few_again() -> None:
    window = PullWindow(0, 100_000, step=10, depth=64)
    assert len(window.next_pulls()) == 8
    in_flight = most = 8
    for _ in range(200):
        window.answered(window.oldest + 10)
        in_flight += len(window.next_pulls()) - 1
        most = max(most, in_flight)
    assert most == 64
    assert window.answered(window.oldest + 5) == in_flight - 1
    assert len(window.next_pulls()) == 8


def test_pulls_are_sent_in_lots_of_half_of_those_that_may_be_in_flight() -> None:
    window = PullWindow(0, 1_000, step=10, depth=8)
    assert len(window.next_pulls()) == 8
    for answered in (10, 20, 30):
        window.answered(answered)
        assert window.next_pulls() == []
    window.answered(40)
    assert window.next_pulls() == [(80, 10), (90, 10), (100, 10), (110, 10)]


def test_an_answer_as_expected_voids_nothing() -> None:
    window = PullWindow(0, 64, step=32, depth=4)
    window.next_pulls()
    assert window.answered(32) == 0
    assert window.position == 32
    assert window.answered(64) == 0
    assert window.is_done
    assert window.next_pulls() == []


def test_a_short_answer_voids_the_guesses_behind_it_and_shortens_the_step() -> None:
    window = PullWindow(0, 96, step=32, depth=3)
    window.next_pulls()
    assert window.answered(8) == 2
    assert window.position == 8
    assert window.next_pulls() == [(8, 8), (16, 8), (24, 8)]


def test_a_step_is_never_below_one() -> None:
    window = PullWindow(0, 96, step=32, depth=3)
    window.next_pulls()
    window.answered(1)
    assert window.next_pulls()[0] == (1, 1)


def test_an_answer_that_reached_further_voids_only_what_it_overtook() -> None:
    window = PullWindow(0, 200, step=32, depth=3)
    assert window.next_pulls() == [(0, 32), (32, 32), (64, 32)]
    assert window.answered(70) == 1
    assert (window.position, window.oldest) == (70, 64)
    assert window.next_pulls() == [(96, 32), (128, 32)]


def test_an_answer_that_overtook_all_pulls_voids_them() -> None:
    window = PullWindow(0, 200, step=32, depth=3)
    window.next_pulls()
    assert window.answered(100) == 2
    assert window.next_pulls()[0] == (100, 32)


def test_an_overtaken_pull_that_brings_nothing_new_takes_nothing_back() -> None:
    window = PullWindow(0, 200, step=32, depth=2)
    window.next_pulls()
    assert window.answered(60) == 0
    window.next_pulls()
    assert window.answered(50) == 1
    assert window.position == 60
    assert window.next_pulls()[0][0] == 60


def test_the_step_becomes_what_answers_keep_reaching_but_no_more_is_asked_for() -> None:
    window = PullWindow(0, 100_000, step=32, depth=2)
    for _ in range(4):
        window.next_pulls()
        window.answered(window.oldest + 800)
    assert [count for _, count in window.next_pulls()] == [32, 32]
    assert window.step == 800
    first = window.oldest
    assert window.answered(first + 800) == 0
    assert (window.position, window.oldest) == (first + 800, first + 800)


def test_an_answer_beyond_the_end_is_the_end() -> None:
    window = PullWindow(0, 50, step=10, depth=3)
    window.next_pulls()
    assert window.answered(70) == 2
    assert window.position == 50
    assert window.is_done
    assert window.next_pulls() == []


@pytest.mark.parametrize(("start", "end"), [(5, 5), (9, 5)])
def test_an_empty_range_is_done_before_it_begins(start: int, end: int) -> None:
    window = PullWindow(start, end, step=32, depth=3)
    assert window.is_done
    assert window.next_pulls() == []
