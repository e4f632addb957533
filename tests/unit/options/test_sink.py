"""The sink's options."""

import pickle

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SINK_OPTIONS, SinkOptions

SINK = {"nameServer": "mq1:9876", "topic": "invoices"}
BAD_DURATIONS = ["", "0", "0s", "-1s", "1.5s", "s", "5x", "5sm", "5 s", "soon"]
BAD_VALUES: dict[str, list[str]] = {
    "nameServer": ["", ";", "mq1", "mq1:", ":9876", "mq1:0", "mq1:65536", "mq1:x", "mq1:1;mq2"],
    "topic": ["", " ", "a b", "a/b", "a,b c", "ä", "a" * 128],
    "requestTimeout": BAD_DURATIONS,
    "sendTimeout": BAD_DURATIONS,
}
BAD = [(name, bad) for name, values in BAD_VALUES.items() for bad in values]


def test_every_option_is_tested_with_wrong_values() -> None:
    assert {option.name for option in SINK_OPTIONS} == set(BAD_VALUES)


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_a_wrong_value_is_refused_with_what_was_found_and_what_is_expected(
    name: str, bad: str
) -> None:
    with pytest.raises(OptionError) as caught:
        SinkOptions.parse(SINK | {name: bad})
    assert (caught.value.option, caught.value.found) == (name, bad)


@pytest.mark.parametrize("name", sorted(SINK))
def test_an_option_that_must_be_set_is_missed(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}'.*must be set"):
        SinkOptions.parse({key: value for key, value in SINK.items() if key != name})


def test_every_option_reaches_its_field() -> None:
    options = SinkOptions.parse(SINK | {"sendTimeout": "1m", "requestTimeout": "5s"})
    assert options == SinkOptions(("mq1:9876",), "invoices", 5_000, 60_000)
    assert pickle.loads(pickle.dumps(options)) == options


def test_an_option_of_the_source_is_unknown_to_the_sink() -> None:
    with pytest.raises(OptionError, match="there is none of this name"):
        SinkOptions.parse(SINK | {"leaseMode": "none"})
