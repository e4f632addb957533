"""Options: every one with wrong values, unknown names, combinations, and the page made of them."""

import pickle
import re

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.options import (
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    LeaseMode,
    Option,
    SourceOptions,
    StartPosition,
    options_markdown,
    parse_duration_ms,
    parse_group,
    parse_name_servers,
    parse_topic,
)

SOURCE = {"nameServer": "mq1:9876", "subscribe": "orders", "group": "billing"}

BAD_NAME_SERVERS = ["", ";", "mq1", "mq1:", ":9876", "mq1:0", "mq1:65536", "mq1:x", "mq1:1;mq2"]
BAD_TOPICS = ["", " ", "a b", "a/b", "a,b c", "ä", "a" * 128]
BAD_DURATIONS = ["", "0", "0s", "-1s", "1.5s", "s", "5x", "5sm", "5 s", "soon"]
BAD_VALUES: dict[str, list[str]] = {
    "nameServer": BAD_NAME_SERVERS,
    "subscribe": [*BAD_TOPICS, "a,,b", ","],
    "group": ["", " ", "a b", "a/b", "a" * 121],
    "startingOffsets": ["", "Earliest", "first", "-2"],
    "startingOffsetsFallback": ["", "group", "none"],
    "maxOffsetsPerTrigger": ["", "0", "-1", "1.5", "1e3", "many"],
    "leaseMode": ["", "shared?", "true"],
    "leaseTimeout": BAD_DURATIONS,
    "requestTimeout": BAD_DURATIONS,
    "instanceId": ["", " ", "a#1", "a@b"],
    "keyFrom": ["", "property", "property:", "key", "shardingkey"],
    "includeProperties": ["", "yes", "1"],
}

BAD_SOURCE = [(o.name, bad) for o in SOURCE_OPTIONS for bad in BAD_VALUES.get(o.name, ())]


def source(streaming: bool = True, **changes: str | None) -> SourceOptions:
    merged = {name: value for name, value in (SOURCE | changes).items() if value is not None}
    return SourceOptions.parse(merged, streaming=streaming)


def test_every_option_is_tested_with_wrong_values() -> None:
    untested = {option.name for option in SOURCE_OPTIONS} - set(BAD_VALUES)
    assert untested == set()


@pytest.mark.parametrize(("name", "bad"), BAD_SOURCE)
def test_a_wrong_source_value_is_refused_with_what_was_found_and_what_is_expected(
    name: str, bad: str
) -> None:
    with pytest.raises(OptionError) as caught:
        source(**{name: bad})
    assert caught.value.option == name
    assert caught.value.found == bad
    assert name in str(caught.value)
    assert repr(bad) in str(caught.value)


@pytest.mark.parametrize("name", ["nameServer", "subscribe"])
def test_a_source_option_that_must_be_set_is_missed(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}'.*must be set"):
        source(**{name: None})


def test_a_stream_with_no_more_than_it_needs_has_the_documented_defaults() -> None:
    assert source() == SourceOptions(
        name_servers=("mq1:9876",),
        topics=("orders",),
        group="billing",
        starting_offsets=StartPosition.GROUP,
        starting_offsets_fallback=StartPosition.EARLIEST,
        max_offsets_per_trigger=None,
        lease_mode=LeaseMode.EXCLUSIVE,
        lease_timeout_ms=90_000,
        instance_id=None,
        key_property="__SHARDINGKEY",
        include_properties=False,
        request_timeout_ms=3_000,
    )


def test_a_batch_read_begins_at_the_beginning_and_owns_nothing() -> None:
    options = source(streaming=False, group=None)
    assert options.starting_offsets is StartPosition.EARLIEST
    assert options.lease_mode is LeaseMode.NONE
    assert options.group is None


def test_every_source_option_reaches_its_field() -> None:
    options = source(
        nameServer=" mq1:9876 , [::1]:9877;",
        subscribe="b,a,b",
        startingOffsets="latest",
        startingOffsetsFallback="latest",
        maxOffsetsPerTrigger=" 500 ",
        leaseMode="none",
        leaseTimeout="2m",
        instanceId=" nightly ",
        keyFrom="property:region",
        includeProperties="TRUE",
        requestTimeout="500ms",
    )
    assert options.name_servers == ("mq1:9876", "[::1]:9877")
    assert options.topics == ("a", "b")
    assert options.starting_offsets is StartPosition.LATEST
    assert options.starting_offsets_fallback is StartPosition.LATEST
    assert options.max_offsets_per_trigger == 500
    assert options.lease_mode is LeaseMode.NONE
    assert options.lease_timeout_ms == 120_000
    assert options.instance_id == "nightly"
    assert options.key_property == "region"
    assert options.include_properties is True
    assert options.request_timeout_ms == 500


def test_names_are_case_insensitive_because_spark_lowers_them() -> None:
    lowered = {name.lower(): value for name, value in SOURCE.items()}
    assert SourceOptions.parse(lowered, streaming=True) == source()


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("nameserver1", "nameServer"),
        ("startingoffset", "startingOffsets"),
        ("subcribe", "subscribe"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("lease_mode", "leaseMode"),
    ],
)
def test_an_unknown_option_suggests_the_nearest(given: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"did you mean '{nearest}'") as caught:
        source(**{given: "x"})
    assert caught.value.option == given


def test_an_unknown_option_that_is_near_to_none_lists_what_is_known() -> None:
    with pytest.raises(OptionError, match=r"known are nameServer, .*, requestTimeout"):
        source(zzz="1")


@pytest.mark.parametrize("name", ["minPartitions", "minpartitions", "numPartitions"])
def test_options_that_would_break_order_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(OptionError, match="a queue is read by one task so that its order is kept"):
        source(**{name: "8"})


def test_exclusive_ownership_needs_a_group() -> None:
    with pytest.raises(OptionError, match=r"'group'.*leaseMode=exclusive"):
        source(group=None)


@pytest.mark.parametrize("streaming", [True, False])
def test_starting_from_the_group_needs_a_group(streaming: bool) -> None:
    with pytest.raises(OptionError, match=r"'group'.*startingOffsets=group"):
        source(streaming, group=None, leaseMode="none", startingOffsets="group")


def test_a_stream_that_owns_nothing_and_starts_elsewhere_needs_no_group() -> None:
    assert source(group=None, leaseMode="none", startingOffsets="latest").group is None


def test_a_batch_read_cannot_own_queues() -> None:
    with pytest.raises(OptionError, match="none for a batch read"):
        source(streaming=False, leaseMode="exclusive")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("7", 7), ("1500ms", 1_500), ("90s", 90_000), (" 2m ", 120_000), ("1h", 3_600_000)],
)
def test_durations_have_units_and_bare_numbers_are_milliseconds(
    text: str, milliseconds: int
) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "property_name"),
    [("shardingKey", "__SHARDINGKEY"), ("keys", "KEYS"), ("tags", "TAGS"), ("property:a:b", "a:b")],
)
def test_the_key_can_come_from_any_property(text: str, property_name: str) -> None:
    assert source(keyFrom=text).key_property == property_name


def test_system_topics_and_long_names_are_legal() -> None:
    assert parse_topic(" %RETRY%billing ") == "%RETRY%billing"
    assert parse_topic("a" * 127) == "a" * 127
    assert parse_group("a|b-c_d") == "a|b-c_d"
    assert parse_name_servers("h:65535") == ("h:65535",)


def test_options_cross_processes() -> None:
    assert pickle.loads(pickle.dumps(source())) == source()


@pytest.mark.parametrize("option", [*SOURCE_OPTIONS, *SINK_OPTIONS], ids=lambda o: o.name)
def test_the_page_has_a_row_for_every_option(option: Option) -> None:
    rows = [row for row in options_markdown().splitlines() if f"| `{option.name}` |" in row]
    assert rows
    default = "required" if option.is_required else (option.default or "")
    assert all(default in row and option.doc in row for row in rows)


def test_the_page_is_a_table_with_four_columns_throughout() -> None:
    page = options_markdown()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 4 + len(SOURCE_OPTIONS) + len(SINK_OPTIONS)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert page.index("## Source") < page.index("## Sink")
    assert page.endswith("|\n")


def test_every_default_passes_its_own_check() -> None:
    for option in (*SOURCE_OPTIONS, *SINK_OPTIONS):
        if option.default is not None:
            assert option.parse(option.default) is not None
