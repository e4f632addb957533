"""Keys to queues as Java does it, on values computed by a JVM."""

import json
from typing import Any

import pytest
from tests.support.paths import GOLDEN
from tests.support.promises import proves

from rmq_ordered.ordering.selector import (
    consistent_index,
    hash_index,
    java_string_hash,
    select_by_hash,
    select_consistently,
)

HASHES = json.loads((GOLDEN / "hashes.json").read_text())
# Guava's Hashing.consistentHash(key.hashCode(), queues), computed by a JVM with Guava 33.6.
CONSISTENT = json.loads((GOLDEN / "consistent-hashes.json").read_text())


@pytest.mark.parametrize("sample", HASHES, ids=lambda sample: repr(sample["key"]))
def test_hash_and_index_are_those_of_the_jvm(sample: dict[str, Any]) -> None:
    assert java_string_hash(sample["key"]) == sample["hashCode"]
    found = {count: hash_index(sample["key"], int(count)) for count in sample["index"]}
    assert found == sample["index"]


def test_the_golden_keys_include_negative_hashes_and_the_smallest_int() -> None:
    codes = [sample["hashCode"] for sample in HASHES]
    assert min(codes) == -(2**31)
    assert sum(code < 0 for code in codes) > 2


def test_a_lone_surrogate_is_hashed_as_java_does() -> None:
    assert java_string_hash("\ud83d") == 0xD83D
    assert java_string_hash("a\udc00") == 97 * 31 + 0xDC00


def test_the_queue_of_a_key_is_the_one_at_its_index() -> None:
    queues = ["q0", "q1", "q2", "q3"]
    assert select_by_hash(queues, "order-1") == "q2"
    assert select_by_hash(["only"], "order-1") == "only"


@proves("key-to-javas-queue")
@pytest.mark.parametrize("sample", CONSISTENT, ids=lambda sample: ascii(sample["key"]))
def test_message_groups_go_where_the_proxy_puts_them(sample: dict[str, Any]) -> None:
    found = {count: consistent_index(sample["key"], int(count)) for count in sample["index"]}
    assert found == sample["index"]


def test_the_queue_of_a_group_is_the_one_at_its_index() -> None:
    assert select_consistently(["q0", "q1", "q2", "q3"], "order-1") == "q3"
    assert select_consistently(["only"], "order-1") == "only"
