"""Batches: joined they are the input, each keeps to the limits, and none could be larger."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.ordering.batching import cut_batches


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(1, 1_000), st.integers(1, 10))
def test_batches_keep_order_and_limits(sizes: list[int], max_bytes: int, max_rows: int) -> None:
    ranges = list(cut_batches(np.array(sizes, np.int64), max_bytes, max_rows))
    assert [row for start, end in ranges for row in range(start, end)] == list(range(len(sizes)))
    for start, end in ranges:
        assert 1 <= end - start <= max_rows
        assert end - start == 1 or sum(sizes[start:end]) <= max_bytes
        is_full = end - start == max_rows or end == len(sizes)
        assert is_full or sum(sizes[start : end + 1]) > max_bytes
