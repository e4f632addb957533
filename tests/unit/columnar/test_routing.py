"""Whole columns of keys go where single keys go."""

import json

import numpy as np
import pyarrow as pa
import pytest
from tests.support.paths import GOLDEN

from rmq_ordered.columnar.routing import (
    consistent_indexes,
    group_rows,
    hash_indexes,
    java_string_hashes,
)
from rmq_ordered.ordering.selector import java_string_hash

HASHES = json.loads((GOLDEN / "hashes.json").read_text())
CONSISTENT = [
    sample
    for sample in json.loads((GOLDEN / "consistent-hashes.json").read_text())
    # Arrow's strings are UTF-8, which has no lone surrogates.
    if sample["key"] != "\ud800"
]


def test_hashes_are_those_of_the_jvm() -> None:
    keys = pa.array([sample["key"] for sample in HASHES])
    assert java_string_hashes(keys).tolist() == [sample["hashCode"] for sample in HASHES]


@pytest.mark.parametrize("count", [4, 7, 8])
def test_indexes_are_those_of_the_jvm(count: int) -> None:
    keys = pa.array([sample["key"] for sample in HASHES])
    assert hash_indexes(keys, count).tolist() == [s["index"][str(count)] for s in HASHES]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 16, 100, 1_024])
def test_message_groups_go_where_the_proxy_puts_them(count: int) -> None:
    keys = pa.array([sample["key"] for sample in CONSISTENT])
    expected = [sample["index"][str(count)] for sample in CONSISTENT]
    assert consistent_indexes(keys, count).tolist() == expected


def test_a_slice_is_hashed_from_where_it_begins() -> None:
    keys = pa.array(["zzz", "order-1", "订单-1", "", "a"]).slice(1, 4)
    expected = [java_string_hash(key) for key in ("order-1", "订单-1", "", "a")]
    assert java_string_hashes(keys).tolist() == expected


def test_keys_longer_than_the_table_are_hashed_as_well() -> None:
    key = "x" * 5_000
    assert java_string_hashes(pa.array([key, "a"])).tolist() == [java_string_hash(key), 97]


@pytest.mark.parametrize("keys", [[], ["", ""]], ids=["no rows", "only empty keys"])
def test_nothing_to_hash_is_zero(keys: list[str]) -> None:
    assert java_string_hashes(pa.array(keys, pa.string())).tolist() == [0] * len(keys)


def test_rows_are_grouped_by_queue_and_keep_their_order() -> None:
    order, bounds = group_rows(np.array([2, 0, 2, 0, 2]), 4)
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert bounds.tolist() == [0, 2, 2, 5, 5]
