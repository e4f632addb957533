"""Taking fields out of JSON bodies without trusting the peer."""

from typing import Any

import pytest

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.bodies import (
    decode_object,
    encode_json,
    objects,
    queue_from_json,
    queue_from_key,
    queue_to_json,
    queues_to_json,
    texts,
    typed,
)

QUEUE = MessageQueue("orders", "broker-a", 3)


def test_a_body_is_written_without_spaces_and_with_sorted_keys() -> None:
    assert encode_json({"b": "é", "a": [1, True]}) == '{"a":[1,true],"b":"é"}'.encode()


def test_text_without_utf8_form_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError, match="not valid Unicode"):
        encode_json({"clientId": "\ud800"})


@pytest.mark.parametrize("body", [b"[]", b"17", b"null", b'"text"'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="route: expected a JSON object"):
        decode_object(body, "route")


@pytest.mark.parametrize(
    ("value", "kind"), [("3", int), (True, int), (None, str), (3, str), (1, bool), ([], dict)]
)
def test_a_field_of_the_wrong_type_is_named(value: Any, kind: type) -> None:
    with pytest.raises(RemoteProtocolError, match=f"field 'x' should be {kind.__name__}"):
        typed({"x": value}, "x", kind, "route")


def test_a_field_of_the_right_type_is_given_back() -> None:
    assert typed({"x": 3}, "x", int, "route") == 3
    assert typed({"x": True}, "x", bool, "route") is True


def test_lists_that_are_absent_or_null_are_empty() -> None:
    assert objects({}, "x", "route") == []
    assert objects({"x": None}, "x", "route") == []
    assert texts({}, "x", "route") == []


@pytest.mark.parametrize("value", [{"a": 1}, "text", 5, [1], [{}, None]])
def test_a_list_of_anything_but_objects_is_refused(value: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="field 'x' should be a list of objects"):
        objects({"x": value}, "x", "route")


@pytest.mark.parametrize("value", [{"a": 1}, "text", 5, [1], ["a", None]])
def test_a_list_of_anything_but_strings_is_refused(value: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="field 'x' should be a list of strings"):
        texts({"x": value}, "x", "route")


def test_lists_of_the_right_kind_are_given_back() -> None:
    assert objects({"x": [{"a": 1}]}, "x", "route") == [{"a": 1}]
    assert texts({"x": ["a"]}, "x", "route") == ["a"]


def test_a_queue_is_written_and_read_as_rocketmq_does() -> None:
    written = queue_to_json(QUEUE)
    assert written == {"brokerName": "broker-a", "queueId": 3, "topic": "orders"}
    assert queues_to_json([QUEUE]) == [written]
    assert queue_from_json(written, "lock") == QUEUE
    assert queue_from_key(encode_json(written).decode(), "stats") == QUEUE


@pytest.mark.parametrize("key", ["3", "{}", "nonsense", '{"topic":"\ud800"}'])
def test_a_key_that_is_no_queue_is_refused(key: str) -> None:
    with pytest.raises(RemoteProtocolError):
        queue_from_key(key, "stats")
