import numpy as np
import pytest
from tests.unit.columnar.samples import MESSAGE, QUEUE, message, patched, records, rising

from rmq_ordered.columnar import boundaries
from rmq_ordered.columnar.boundaries import split_records
from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError

RECORD = records(MESSAGE)


def naive_starts(sizes: list[int]) -> list[int]:
    return [int(start) for start in np.cumsum([0, *sizes])[:-1]]


def body_of_sizes(sizes: list[int]) -> bytes:
    return b"".join(records(message(body=bytes(size - 97))) for size in sizes)


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [100],
        [100, 200, 100],
        [100] * 1000,
        [100 + i % 7 for i in range(500)],
        [150] * 40 + [151] * 200 + [150] * 33 + [170],
        [100] * 33 + [101],
        [100] * 97,
    ],
    ids=[
        "none",
        "one",
        "mixed",
        "equal",
        "never equal",
        "runs",
        "run of 33",
        "first guess exactly",
    ],
)
def test_records_are_found_whether_sizes_are_equal_or_not(sizes: list[int]) -> None:
    body = body_of_sizes(sizes)
    found = split_records(body, QUEUE)
    assert len(found) == len(sizes)
    assert found.starts.tolist() == naive_starts(sizes)
    assert (found.ends - found.starts).tolist() == sizes
    assert split_records(memoryview(body), QUEUE).starts.tolist() == found.starts.tolist()


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 90, len(RECORD) + 1, 2**31 - 1])
@pytest.mark.parametrize("before", [0, 1, 200])
def test_an_impossible_size_is_refused_where_it_stands(size: int, before: int) -> None:
    body = records(*rising(before)) + patched(RECORD, 0, ">i", size)
    with pytest.raises(RemoteProtocolError) as refusal:
        split_records(body, QUEUE)
    assert (
        f"orders@broker-a#3: the message at queue offset 7 "
        f"(byte {before * len(RECORD)} of {len(body)} received)"
    ) in str(refusal.value)
    assert f"found totalSize {size} and 102 bytes at the end" in str(refusal.value)


@pytest.mark.parametrize("length", [1, 3, 19, 27, 28, 90])
def test_a_last_record_cut_short_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"found {length} bytes at the end"):
        split_records(RECORD + RECORD[:length], QUEUE)


def test_a_size_that_lies_within_the_body_is_seen_at_the_next_record() -> None:
    body = patched(RECORD, 0, ">i", len(RECORD) + 4) + RECORD + RECORD
    with pytest.raises(RemoteProtocolError, match=f"byte {len(RECORD) + 4} of"):
        split_records(body, QUEUE)


def test_more_bytes_than_a_batch_can_hold_are_our_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boundaries, "MAX_BATCH_BYTES", 101)
    with pytest.raises(LocalProtocolError, match="orders@broker-a#3: 102 bytes are too many"):
        split_records(RECORD, QUEUE)
