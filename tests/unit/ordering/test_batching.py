"""Batches: within both limits, in order, nothing lost."""

import numpy as np

from rmq_ordered.ordering.batching import cut_batches


def cut(sizes: list[int], max_bytes: int, max_rows: int) -> list[tuple[int, int]]:
    return list(cut_batches(np.array(sizes, np.int64), max_bytes, max_rows))


def test_batches_have_at_most_so_many_rows() -> None:
    assert cut([10] * 10, 1_000_000, 4) == [(0, 4), (4, 8), (8, 10)]


def test_batches_have_at_most_so_many_bytes() -> None:
    assert cut([100] * 5, 200, 1_000) == [(0, 2), (2, 4), (4, 5)]
    assert cut([100] * 5, 199, 1_000) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_a_row_that_is_too_large_goes_alone() -> None:
    assert cut([1, 5_000, 1, 1], 1_000, 100) == [(0, 1), (1, 2), (2, 4)]


def test_nothing_gives_no_batch() -> None:
    assert cut([], 1_000, 100) == []
