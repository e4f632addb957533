"""The witnesses themselves: real RocketMQ under our control, Apache's classes asked from Python.

What the other tests rely on without looking: that killed means killed, that the store survives it,
that nothing outlives the run, and that a question reaches the JVM unharmed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import frames
from tests.support.brokers import unique_name
from tests.support.java_clients import JavaClients
from tests.support.maven import MavenUnavailable
from tests.support.paths import CACHE, GOLDEN, ROOT
from tests.support.rocketmq import RocketMq, RocketMqFailed
from tests.support.waiting import DeadlineExceeded, wait_until

START_A_TETHERED_CHILD_AND_WAIT = """
import sys
from tests.support.processes import start_tethered
print(start_tethered([sys.executable, "-c", "input()"], stdin=sys.stdin).pid, flush=True)
input()
"""


@pytest.mark.proof
def test_a_killed_rocketmq_broker_keeps_its_messages_over_a_restart(
    javaclients: JavaClients,
) -> None:
    topic = unique_name("restart")
    with RocketMq() as cluster:
        frames.create_topic(cluster.broker_address, topic, 1)
        wait_for_route(cluster.name_server, topic)
        javaclients.send_ordered(cluster.name_server, topic, [("k", "before")])
        first_pid = cluster.broker_pid

        cluster.kill_broker()

        with pytest.raises(OSError):  # noqa: PT011 - refused or reset, as the kernel likes
            frames.ask(cluster.broker_address, frames.GET_BROKER_RUNTIME_INFO)
        cluster.restart_broker()

        assert cluster.broker_pid != first_pid
        sent = javaclients.send_ordered(cluster.name_server, topic, [("k", "after")])
        assert [message.queue_offset for message in sent] == [1]
        wait_until(
            lambda: b"after" in frames.pull(cluster.broker_address, topic, 0, 0).body,
            "both messages can be pulled",
            20,
        )
        assert b"before" in frames.pull(cluster.broker_address, topic, 0, 0).body


@pytest.mark.usefixtures("javaclients")  # whose absence, like RocketMQ's, is a reason to skip
def test_a_rocketmq_that_cannot_start_shows_its_last_log_lines() -> None:
    with pytest.raises(RocketMqFailed, match=r"(?s)last log lines:.*Slave's brokerId must be > 0"):
        RocketMq({"brokerRole": "SLAVE"}).start()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties children to their parent")
def test_a_child_dies_with_a_test_run_that_is_killed() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", START_A_TETHERED_CHILD_AND_WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with run:
        assert run.stdout is not None
        child = Path("/proc", run.stdout.readline().decode().strip())
        assert child.exists()

        run.kill()

        wait_until(lambda: not is_alive(child), "the child is gone too", 10)


def test_the_oracle_agrees_with_the_recorded_hashes(javaclients: JavaClients) -> None:
    recorded = json.loads((GOLDEN / "hashes.json").read_text(encoding="utf-8"))
    with javaclients.selector_oracle() as oracle:
        for vector in recorded:
            for queues, index in vector["index"].items():
                choice = oracle.choose(vector["key"], int(queues))
                assert (choice.hash_code, choice.index) == (vector["hashCode"], index)


@pytest.mark.parametrize(
    ("key", "units"),
    [("\ud800", [0xD800]), ("\x00\x01\t\n\r", [0, 1, 9, 10, 13]), ("\U0001f600", [0xD83D, 0xDE00])],
    ids=["lone surrogate", "control characters", "surrogate pair"],
)
def test_any_string_reaches_the_oracle_unharmed(
    javaclients: JavaClients, key: str, units: list[int]
) -> None:
    with javaclients.selector_oracle() as oracle:
        expected = 0
        for unit in units:
            expected = expected * 31 + unit

        assert oracle.choose(key, 4).hash_code == expected


def test_without_maven_one_sentence_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.support.maven.CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MavenUnavailable, match=r"Maven \(mvn\) is not on the PATH") as raised:
        RocketMq().start()

    assert raised.value.reason.count(".") == 1
    assert not list(tmp_path.glob("rocketmq-*/lib"))


def test_a_failing_maven_leaves_no_half_filled_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] repository cannot be reached'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setattr("tests.support.maven.CACHE", tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    with pytest.raises(MavenUnavailable, match="repository cannot be reached"):
        RocketMq().start()

    (home,) = tmp_path.glob("rocketmq-*")
    assert [entry.name for entry in home.iterdir()] == ["lock"]


def test_the_compiled_clients_are_reused_until_a_source_changes(javaclients: JavaClients) -> None:
    before = sorted((CACHE / "test-clients").iterdir())

    JavaClients(CACHE)

    assert sorted((CACHE / "test-clients").iterdir()) == before


def test_waiting_in_vain_names_the_condition() -> None:
    with pytest.raises(DeadlineExceeded, match=r"in vain until pigs fly; last seen: 0"):
        wait_until(lambda: 0, "pigs fly", 0.05)


def wait_for_route(name_server: str, topic: str) -> None:
    wait_until(
        lambda: frames.route(name_server, topic).code == frames.SUCCESS, "the topic has a route", 20
    )


def is_alive(process: Path) -> bool:
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
