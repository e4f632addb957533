from datetime import UTC, datetime
from typing import Any

from rmq_ordered.cli.tail import row_json, row_line


def row(**changes: Any) -> dict[str, Any]:
    """One row as the reader gives it."""
    return {
        "key": "order-1",
        "value": b"created",
        "topic": "orders",
        "broker": "broker-a",
        "queue": 3,
        "offset": 17,
        "timestamp": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
        "tags": None,
        "index_keys": "k1 k2",
        "message_id": "ABC",
        **changes,
    }


def test_a_message_as_json_has_these_fields() -> None:
    assert row_json(row()) == {
        "key": "order-1",
        "value": "created",
        "encoding": "utf-8",
        "topic": "orders",
        "broker": "broker-a",
        "queue": 3,
        "offset": 17,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "tags": None,
        "keys": "k1 k2",
        "messageId": "ABC",
    }


def test_a_value_that_is_not_text_is_given_in_base64_and_says_so() -> None:
    found = row_json(row(value=b"\xff\x00"))
    assert (found["value"], found["encoding"]) == ("/wA=", "base64")


def test_a_line_is_place_key_and_value() -> None:
    assert row_line(row()) == "broker-a/3/17\torder-1\tcreated"


def test_a_line_stays_one_line_with_two_tabs_before_the_value() -> None:
    line = row_line(row(key="a\tb", value=b"one\ntwo\tthree\xff"))
    assert line == "broker-a/3/17\ta\\tb\tone\\ntwo\tthree\\xff"
    assert row_line(row(key=None)) == "broker-a/3/17\t\tcreated"
