"""The runs of an instance: who came before, and who is certainly gone."""

import logging
from collections.abc import Callable

import pytest

from rmq_ordered.client import Client
from rmq_ordered.client.instances import InstanceRun, Predecessor
from rmq_ordered.testing import ClusterDouble

NAMES = "names-1:9876"
NewRun = Callable[[str], InstanceRun]


@pytest.fixture
def cluster() -> ClusterDouble:
    return ClusterDouble()


@pytest.fixture
def new_run(client: Client) -> NewRun:
    """Runs whose processes are named; one whose name begins with "dead" is known to be gone."""

    def make(process: str) -> InstanceRun:
        return InstanceRun(
            client.kv,
            "billing",
            "nightly",
            process=process,
            is_dead=lambda name: name.startswith("dead"),
        )

    return make


def test_the_first_run_has_no_predecessors(new_run: NewRun) -> None:
    run = new_run("alive")
    run.enter("nightly#1")
    assert run.predecessors() == ()


def test_a_run_finds_those_before_it_and_whether_they_are_gone(new_run: NewRun) -> None:
    first, second, third = new_run("dead 1"), new_run("alive"), new_run("alive too")
    first.enter("nightly#z")
    second.enter("nightly#y")
    second.enter("nightly#y~1")
    third.enter("nightly#x")
    assert third.predecessors() == (
        Predecessor("nightly#z", True),
        Predecessor("nightly#y", False),
        Predecessor("nightly#y~1", False),
    )
    assert second.predecessors() == (Predecessor("nightly#z", True),)


def test_of_two_that_start_at_the_same_moment_only_one_is_the_later_one(
    new_run: NewRun, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = new_run("alive"), new_run("alive")
    with monkeypatch.context() as patch:
        patch.setattr(client.kv, "list", lambda namespace: {})  # neither has seen the other yet
        one.enter("nightly#a")
        other.enter("nightly#b")
    assert one.predecessors() == ()
    assert other.predecessors() == (Predecessor("nightly#a", False),)


def test_a_run_that_ended_well_leaves_nothing_behind(
    new_run: NewRun, cluster: ClusterDouble
) -> None:
    first, second = new_run("dead"), new_run("alive")
    first.enter("nightly#1")
    second.enter("nightly#2")
    second.predecessors()
    second.forget_earlier()
    second.leave()
    assert cluster.name_server.kv == {"rmq-ordered-runs@billing@nightly": {}}


def test_a_run_that_could_not_be_recorded_takes_nothing_over(
    new_run: NewRun, cluster: ClusterDouble, caplog: pytest.LogCaptureFixture
) -> None:
    new_run("dead").enter("nightly#1")
    cluster.network.take_down(NAMES)
    run = new_run("alive")
    run.enter("nightly#2")
    cluster.network.bring_up(NAMES)
    assert run.predecessors() == ()
    assert "could not be recorded" in caplog.text


def test_a_run_that_cannot_read_the_records_takes_nothing_over(
    new_run: NewRun, cluster: ClusterDouble, caplog: pytest.LogCaptureFixture
) -> None:
    new_run("dead").enter("nightly#1")
    run = new_run("alive")
    run.enter("nightly#2")
    cluster.network.take_down(NAMES)
    assert run.predecessors() == ()
    assert "a dead one is waited for" in caplog.text
    with caplog.at_level(logging.DEBUG):
        run.leave()
    assert "the record of nightly#2 stays behind" in caplog.text


@pytest.mark.parametrize("value", ["", "{}", "[]", '{"number": "x", "process": "dead"}'])
def test_records_that_make_no_sense_are_left_alone(
    new_run: NewRun, client: Client, value: str
) -> None:
    client.kv.put("rmq-ordered-runs@billing@nightly", "nightly#0", value)
    run = new_run("alive")
    run.enter("nightly#1")
    assert run.predecessors() == ()
