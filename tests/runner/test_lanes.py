"""What a lane reports when nothing failed."""

from tests.runner.lanes import not_run


def test_what_could_not_run_is_reported_with_the_reason() -> None:
    said = [
        "...........s. [100%]",
        "!!!!!! 15 tests NOT RUN: something is missing here !!!!!!",
        "Maven (mvn) is not on the PATH, so Apache RocketMQ cannot be fetched.",
        "====== 15 passed, 15 skipped ======",
    ]
    assert list(not_run(said)) == said[1:3]


def test_a_run_that_lacked_nothing_reports_nothing() -> None:
    assert list(not_run(["................ [100%]", "====== 16 passed ======"])) == []
