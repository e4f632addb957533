"""Texts to values: what each parser accepts (what it refuses is tested by option)."""

import pytest

from rmq_ordered.model import MessageQueue
from rmq_ordered.options.values import (
    parse_bytes,
    parse_duration_ms,
    parse_group,
    parse_key_source,
    parse_name_servers,
    parse_queue_offsets,
    parse_tags,
    parse_timestamp_ms,
    parse_topic,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("7", 7),
        ("1500ms", 1_500),
        ("90s", 90_000),
        (" 2m ", 120_000),
        ("1h", 3_600_000),
        ("8760h", 31_536_000_000),
    ],
)
def test_durations_have_units_and_bare_numbers_are_milliseconds(
    text: str, milliseconds: int
) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("7", 7),
        ("1k", 1024),
        ("64m", 64 * 2**20),
        (" 1GB ", 2**30),
        ("9007199254740991k", 2**63 - 2**10),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_sizes_have_units_and_bare_numbers_are_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1769846400000", 1_769_846_400_000),
        ("2026-01-31T08:00:00Z", 1_769_846_400_000),
        ("2026-01-31T10:00:00+02:00", 1_769_846_400_000),
        ("2026-01-31T08:00:00.250", 1_769_846_400_250),
        ("2026-01-31", 1_769_817_600_000),
    ],
)
def test_times_are_milliseconds_or_iso_8601_in_utc(text: str, milliseconds: int) -> None:
    assert parse_timestamp_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "property_name"),
    [("shardingKey", "__SHARDINGKEY"), ("keys", "KEYS"), ("tags", "TAGS"), ("property:a:b", "a:b")],
)
def test_the_key_can_come_from_any_property(text: str, property_name: str) -> None:
    assert parse_key_source(text) == property_name


def test_system_topics_and_long_names_are_legal() -> None:
    assert parse_topic(" %RETRY%billing ") == "%RETRY%billing"
    assert parse_topic("a" * 127) == "a" * 127
    assert parse_group("a|b-c_d") == "a|b-c_d"
    assert parse_name_servers("h:65535") == ("h:65535",)


def test_tags_are_sorted_and_counted_once() -> None:
    assert parse_tags("shipped||paid || paid") == ("paid", "shipped")


@pytest.mark.parametrize(
    "text",
    [
        '{"orders":{"broker-a":{"0":23,"1":-1},"broker-b":{"0":-2}}}',
        # As copied from a query's progress.
        (
            '{"storedUntil":5,"topics":{"orders":{"broker-a":{"0":[7,23],"1":-1},'
            '"broker-b":{"0":-2}}},"version":1}'
        ),
    ],
)
def test_offsets_can_be_given_queue_by_queue(text: str) -> None:
    assert parse_queue_offsets(text) == {
        MessageQueue("orders", "broker-a", 0): 23,
        MessageQueue("orders", "broker-a", 1): -1,
        MessageQueue("orders", "broker-b", 0): -2,
    }
