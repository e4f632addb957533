"""The machine's clock and the ids nobody else has."""

import os
import re

from rmq_ordered.net.system import SystemClock, UniqueIds, fresh_client_id


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
