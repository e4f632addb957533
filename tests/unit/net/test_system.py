"""The machine's clock and the ids nobody else has."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rmq_ordered.net import system
from rmq_ordered.net.system import (
    SystemClock,
    UniqueIds,
    fresh_client_id,
    is_known_dead,
    process_identity,
)


def test_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(100)]
    assert readings == sorted(readings)


def test_wall_time_is_milliseconds_since_1970() -> None:
    assert 1_700_000_000_000 < SystemClock().wall_ms() < 10_000_000_000_000


def test_a_pause_takes_at_least_its_duration() -> None:
    clock = SystemClock()
    before = clock.monotonic_ms()
    clock.pause_ms(5)
    assert clock.monotonic_ms() - before >= 4


def test_client_ids_tell_role_and_process_and_differ() -> None:
    first, second = fresh_client_id("source"), fresh_client_id("source")
    assert first.startswith("source@")
    assert f"#{os.getpid()}#" in first
    assert first != second


def test_message_ids_have_rocketmq_shape_and_differ_within_and_between_producers() -> None:
    ids = UniqueIds()
    given = [ids.next() for _ in range(1_000)]
    assert all(re.fullmatch(r"[0-9A-F]{32}", one) for one in given)
    assert len(set(given)) == 1_000
    assert UniqueIds().next() not in given


def identity_of_a_child() -> tuple["subprocess.Popen[str]", str]:
    program = (
        "from rmq_ordered.net.system import process_identity as p; print(p(), flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(system.__file__).parents[2])},
    )
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def test_a_process_is_known_to_be_dead_only_when_it_is() -> None:
    assert not is_known_dead(process_identity())
    child, identity = identity_of_a_child()
    with child:
        assert not is_known_dead(identity)
        child.kill()
        child.wait()
    assert is_known_dead(identity)


def test_another_process_that_got_the_same_id_is_not_the_one_that_died() -> None:
    assert is_known_dead(f"{process_identity()}0")


@pytest.mark.parametrize("identity", ["", "other-boot pid:[1] 99999999 5", "x", "a b c d"])
def test_what_cannot_be_known_is_not_known_to_be_dead(identity: str) -> None:
    assert not is_known_dead(identity)


def test_a_process_that_is_hidden_but_exists_is_not_known_to_be_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    identity = process_identity()
    monkeypatch.setattr(system, "_started_at", lambda process: "")
    assert not is_known_dead(identity)
    assert process_identity() == ""
