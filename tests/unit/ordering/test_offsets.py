"""The source offset: a text that lasts and that Spark compares."""

import json
from typing import Any

import pytest
from tests.support.paths import ROOT

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import (
    SourceOffset,
    batch_ranges,
    decode_offset,
    encode_offset,
)

GOLDEN = json.loads((ROOT / "tests" / "golden" / "source-offsets.json").read_text())
A, B, C = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))
OFFSETS = {
    "plain": SourceOffset(
        {
            MessageQueue("orders", "broker-b", 0): 5,
            MessageQueue("orders", "broker-a", 10): 7,
            MessageQueue("orders", "broker-a", 9): 0,
            MessageQueue("audit", "broker-a", 0): 2**40,
        }
    ),
    "everything": SourceOffset({A: 9, B: 12}, {B: 4}, 1_767_225_600_000, 3),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_the_text_of_version_1_never_changes(name: str) -> None:
    assert json.dumps(encode_offset(OFFSETS[name]), separators=(",", ":")) == GOLDEN[name]


@pytest.mark.parametrize("name", OFFSETS)
def test_what_was_ever_written_is_read_back(name: str) -> None:
    assert decode_offset(json.loads(GOLDEN[name])) == OFFSETS[name]


def test_no_queues_are_an_offset_too() -> None:
    assert decode_offset(encode_offset(SourceOffset({}))) == SourceOffset({})


def test_what_a_later_version_adds_beside_is_ignored() -> None:
    assert decode_offset({"topics": {}, "version": 1, "more": 5}) == SourceOffset({})


@pytest.mark.parametrize("version", [None, 2, "1", 0])
def test_another_version_is_refused_by_name(version: Any) -> None:
    with pytest.raises(OptionError, match="offset version 1"):
        decode_offset({"topics": {}, "version": version})


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
        {"orders": {"broker-a": {"0": [1]}}},
        {"orders": {"broker-a": {"0": [2, 1]}}},
        {"orders": {"broker-a": {"0": [1, 2, 3]}}},
    ],
)
def test_an_offset_that_makes_no_sense_is_refused_with_an_example(topics: Any) -> None:
    with pytest.raises(OptionError, match=r"checkpointLocation.*offsets like"):
        decode_offset({"topics": topics, "version": 1})


@pytest.mark.parametrize("extra", [{"skipped": -1}, {"storedUntil": "1"}])
def test_a_counter_that_makes_no_sense_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="checkpointLocation"):
        decode_offset({"topics": {}, "version": 1} | extra)


def test_an_offset_without_topics_is_refused() -> None:
    with pytest.raises(OptionError, match="checkpointLocation"):
        decode_offset({"version": 1})


def test_a_batch_goes_from_position_to_position_or_from_where_a_queue_jumped_to() -> None:
    start = SourceOffset({A: 5, B: 7}, {A: 1})
    end = SourceOffset({A: 9, B: 20, C: 3}, {B: 15, C: 0})
    assert batch_ranges(start, end) == {A: (5, 9), B: (15, 20), C: (0, 3)}


def test_a_queue_that_only_appears_is_read_from_the_next_batch_on() -> None:
    assert batch_ranges(SourceOffset({A: 5}), SourceOffset({A: 5, B: 7})) == {}


def test_between_an_offset_and_itself_lies_nothing_although_a_queue_jumped() -> None:
    jumped = SourceOffset({A: 9, B: 12}, {B: 4})
    assert batch_ranges(jumped, decode_offset(encode_offset(jumped))) == {}
    assert batch_ranges(jumped, SourceOffset({A: 10, B: 12})) == {A: (9, 10)}


def test_a_batch_never_goes_back() -> None:
    with pytest.raises(OptionError, match="ranges that go forward"):
        batch_ranges(SourceOffset({A: 5}), SourceOffset({A: 4}))


def test_a_checkpoint_of_a_popping_query_is_refused_by_its_name() -> None:
    with pytest.raises(OptionError, match="found 'a checkpoint of consumeMode=pop'"):
        decode_offset({"batch": 1, "group": "g", "popped": {}, "run": "", "version": 1})
