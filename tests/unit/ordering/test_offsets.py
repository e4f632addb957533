"""The source offset: a text that lasts and that Spark compares."""

import json
from typing import Any

import pytest

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import decode_positions, encode_positions

POSITIONS = {
    MessageQueue("orders", "broker-b", 0): 5,
    MessageQueue("orders", "broker-a", 10): 7,
    MessageQueue("orders", "broker-a", 9): 0,
    MessageQueue("audit", "broker-a", 0): 2**40,
}
TEXT = (
    '{"topics":{"audit":{"broker-a":{"0":1099511627776}},'
    '"orders":{"broker-a":{"9":0,"10":7},"broker-b":{"0":5}}},"version":1}'
)


def test_the_text_of_version_1_never_changes() -> None:
    assert json.dumps(encode_positions(POSITIONS), separators=(",", ":")) == TEXT


def test_what_was_written_is_read_back() -> None:
    assert decode_positions(json.loads(TEXT)) == POSITIONS


def test_no_queues_are_an_offset_too() -> None:
    assert decode_positions(encode_positions({})) == {}


@pytest.mark.parametrize("version", [None, 2, "1", 0])
def test_another_version_is_refused_by_name(version: Any) -> None:
    with pytest.raises(OptionError, match="offset version 1"):
        decode_positions({"topics": {}, "version": version})


@pytest.mark.parametrize(
    "topics",
    [
        None,
        5,
        {"orders": 5},
        {"orders": {"broker-a": 5}},
        {"orders": {"broker-a": {"x": 5}}},
        {"orders": {"broker-a": {"0": "5"}}},
        {"orders": {"broker-a": {"0": -1}}},
        {"orders": {"broker-a": {"0": True}}},
        {"orders": {"broker-a": {"0": 1.5}}},
        {"orders": {"broker-a": {"0": [1, 2]}}},
    ],
)
def test_an_offset_that_makes_no_sense_is_refused_with_an_example(topics: Any) -> None:
    with pytest.raises(OptionError, match=r"checkpointLocation.*offsets like"):
        decode_positions({"topics": topics, "version": 1})


def test_an_offset_without_topics_is_refused() -> None:
    with pytest.raises(OptionError, match="checkpointLocation"):
        decode_positions({"version": 1})
