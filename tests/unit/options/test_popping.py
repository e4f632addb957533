"""Options of popping: what they become, and what cannot be meant beside them."""

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.options import LeaseMode, PopOptions, SourceOptions, StartPosition, parse_rows
from rmq_ordered.options.popping import parse_invisible_ms

POPPING = {
    "nameServer": "mq1:9876",
    "subscribe": "orders",
    "group": "packing",
    "consumeMode": "pop",
}


def source(streaming: bool = True, **changes: str | None) -> SourceOptions:
    merged = {name: value for name, value in (POPPING | changes).items() if value is not None}
    return SourceOptions.parse(merged, streaming=streaming)


def test_a_query_pops_for_a_minute_in_any_order_and_owns_nothing() -> None:
    options = source()
    assert options.popping == PopOptions(invisible_ms=60_000, is_orderly=False)
    assert options.lease_mode is LeaseMode.NONE
    assert options.starting.fallback is StartPosition.EARLIEST


def test_a_query_pulls_unless_it_is_told_to_pop() -> None:
    assert source(consumeMode=None).popping is None
    assert source(consumeMode="pull").popping is None


def test_every_option_of_popping_reaches_its_field() -> None:
    options = source(
        invisibleTime="5m",
        popOrder="queue",
        startingOffsetsFallback="latest",
        maxOffsetsPerTrigger="64",
        maxBytesPerTrigger="1m",
        tags="paid",
    )
    assert options.popping == PopOptions(invisible_ms=300_000, is_orderly=True)
    assert options.starting.fallback is StartPosition.LATEST
    assert (options.admission.max_offsets, options.admission.max_bytes) == (64, 2**20)
    assert options.tags == ("paid",)


@pytest.mark.parametrize(("text", "expected_ms"), [("5s", 5_000), ("12h", 43_200_000)])
def test_an_invisible_time_may_be_as_short_and_as_long_as_documented(
    text: str, expected_ms: int
) -> None:
    assert parse_invisible_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["4999", "0s", "-5s", "43200001", "13h", "soon", ""])
def test_an_invisible_time_out_of_range_is_refused_and_the_range_is_named(text: str) -> None:
    with pytest.raises(OptionError, match="'invisibleTime': expected a duration from 5s to 12h"):
        source(invisibleTime=text)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("leaseMode", "none", "share all queues and own none"),
        ("leaseMode", "exclusive", "share all queues and own none"),
        ("leaseTimeout", "5s", "share all queues and own none"),
        ("instanceId", "nightly", "share all queues and own none"),
        ("startingOffsets", "earliest", "the broker knows where the group goes on"),
        ("startingOffsets", '{"orders":{"b":{"0":1}}}', "the broker knows where the group goes on"),
        ("startingTimestamp", "1700000000000", "the broker knows where the group goes on"),
        ("startingTimestampNoMatch", "error", "the broker knows where the group goes on"),
        ("minOffsetsPerTrigger", "5", "not known before it is popped"),
        ("maxTriggerDelay", "5s", "not known before it is popped"),
    ],
)
def test_what_makes_no_sense_beside_popping_is_refused_with_the_reason(
    name: str, value: str, reason: str
) -> None:
    with pytest.raises(OptionError, match=reason) as refused:
        source(**{name: value})
    assert refused.value.option == name
    assert f"no {name} with consumeMode=pop" in str(refused.value)
    # Also when all that is asked for is the columns, so that load() fails.
    with pytest.raises(OptionError, match=reason):
        parse_rows(POPPING | {name: value})


def test_queues_cannot_be_chosen() -> None:
    with pytest.raises(OptionError, match="the broker chooses the queues"):
        source(subscribe=None, assign='{"orders":{"broker-a":[0]}}')


@pytest.mark.parametrize(("name", "value"), [("invisibleTime", "30s"), ("popOrder", "queue")])
@pytest.mark.parametrize("streaming", [True, False])
def test_what_is_for_popping_needs_popping(name: str, value: str, streaming: bool) -> None:
    with pytest.raises(OptionError, match=f"'{name}': expected consumeMode=pop beside it"):
        source(streaming, consumeMode=None, **{name: value})


def test_popping_needs_a_group() -> None:
    with pytest.raises(OptionError, match="'group': expected a consumer group, because consume"):
        source(group=None)


def test_a_batch_read_cannot_pop() -> None:
    with pytest.raises(OptionError, match="nothing could be acknowledged; use readStream"):
        source(streaming=False)


@pytest.mark.parametrize(("name", "value"), [("consumeMode", "push"), ("popOrder", "key")])
def test_an_unknown_word_is_refused(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=name):
        source(**{name: value})
