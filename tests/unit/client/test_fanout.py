"""Jobs at several brokers at once: their answers, their errors, and those that do not end."""

import threading

import pytest

from rmq_ordered.client.fanout import at_each
from rmq_ordered.errors import ConnectFailed
from rmq_ordered.net.system import SystemClock

CLOCK = SystemClock()
SOON_S = 10


def fail() -> str:
    raise ConnectFailed("broker-b:10911", "nobody listens there")


def test_every_broker_has_its_own_outcome() -> None:
    found = at_each(CLOCK, {"broker-a": lambda: "done", "broker-b": fail})
    assert found["broker-a"] == "done"
    assert isinstance(found["broker-b"], ConnectFailed)


def test_no_job_and_one_job_need_no_thread() -> None:
    assert at_each(CLOCK, {}) == {}
    assert at_each(CLOCK, {"broker-a": threading.current_thread}) == {
        "broker-a": threading.current_thread()
    }


def test_jobs_run_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=SOON_S)
    jobs = dict.fromkeys(("broker-a", "broker-b", "broker-c"), meeting.wait)
    assert sorted(at_each(CLOCK, jobs)) == ["broker-a", "broker-b", "broker-c"]


def test_a_job_that_does_not_end_in_time_has_no_outcome() -> None:
    may_end = threading.Event()
    jobs = {"broker-a": lambda: True, "broker-b": lambda: may_end.wait(SOON_S)}
    try:
        # The first one needs a moment to be started, however busy the machine is.
        found = at_each(CLOCK, jobs, CLOCK.monotonic_ms() + 1_000)
        assert found == {"broker-a": True}
        assert at_each(CLOCK, {"broker-b": jobs["broker-b"]}, CLOCK.monotonic_ms() - 1) == {}
    finally:
        may_end.set()


def test_what_is_no_error_of_this_package_reaches_the_caller() -> None:
    def leave() -> str:
        raise SystemExit(3)

    for jobs in ({"broker-a": leave}, {"broker-a": leave, "broker-b": fail}):
        with pytest.raises(SystemExit):
            at_each(CLOCK, jobs)
