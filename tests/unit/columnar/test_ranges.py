import pytest
from tests.unit.columnar.samples import QUEUE, inner_batch, message, patched, records, rising

from rmq_ordered.columnar import clip, decode_pull_body, ensure_rising, skip_records
from rmq_ordered.columnar.ranges import ensure_offsets_rise
from rmq_ordered.errors import QueueGap

SPARSE = decode_pull_body(records(*[message(queue_offset=at) for at in (3, 4, 8, 20)]), QUEUE)
EMPTY = decode_pull_body(b"", QUEUE)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 100, [3, 4, 8, 20]),
        (4, 20, [4, 8]),
        (5, 8, []),
        (3, 4, [3]),
        (21, 30, []),
        (0, 3, []),
        (8, 4, []),
        (-(2**63), 2**63 - 1, [3, 4, 8, 20]),
    ],
)
def test_a_batch_is_cut_to_a_half_open_range(start: int, end: int, expected: list[int]) -> None:
    assert clip(SPARSE, start, end).column("offset").to_pylist() == expected
    assert clip(EMPTY, start, end).num_rows == 0


def test_cutting_copies_nothing() -> None:
    whole, part = SPARSE.column("value"), clip(SPARSE, 4, 20).column("value")
    assert part.buffers()[2].address == whole.buffers()[2].address


def test_a_cut_batch_can_be_cut_again() -> None:
    assert clip(clip(SPARSE, 4, 21), 8, 20).column("offset").to_pylist() == [8]


def test_holes_are_legal() -> None:
    ensure_rising(SPARSE, QUEUE)
    ensure_rising(SPARSE, QUEUE, floor=3)
    ensure_rising(EMPTY, QUEUE, floor=3)


def test_a_batch_that_begins_below_its_floor_is_refused() -> None:
    with pytest.raises(QueueGap) as gap:
        ensure_rising(SPARSE, QUEUE, floor=4)
    assert (gap.value.queue, gap.value.expected, gap.value.found) == (QUEUE, 4, 3)


@pytest.mark.parametrize(
    ("offsets", "expected", "found"), [((5, 5), 6, 5), ((5, 7, 6, 8), 8, 6), ((-1, 0), 0, -1)]
)
def test_offsets_that_repeat_or_go_back_are_refused(
    offsets: tuple[int, ...], expected: int, found: int
) -> None:
    body = records(*[message(queue_offset=at) for at in offsets])
    with pytest.raises(QueueGap) as gap:
        decode_pull_body(body, QUEUE)
    assert (gap.value.expected, gap.value.found) == (expected, found)
    assert str(gap.value).startswith("orders@broker-a#3: expected queue offset")


def test_offsets_can_be_checked_before_there_is_a_batch() -> None:
    ensure_offsets_rise(SPARSE.column("offset").to_numpy(), QUEUE, floor=3)


@pytest.mark.parametrize(("floor", "expected"), [(0, 0), (1, 1), (3, 3), (4, 4), (99, 4)])
def test_raw_records_below_a_floor_are_skipped(floor: int, expected: int) -> None:
    messages = rising(4)
    assert bytes(skip_records(records(*messages), floor)) == records(*messages[expected:])


def test_an_inner_batch_is_skipped_as_a_whole() -> None:
    after = records(message(queue_offset=3))
    body = records(inner_batch(b"a", b"b", b"c", queue_offset=0)) + after
    assert bytes(skip_records(body, 3)) == after


@pytest.mark.parametrize("size", [0, -1, 90, 2**31 - 1])
def test_skipping_leaves_bytes_that_make_no_sense_to_the_decoder(size: int) -> None:
    body = records(*rising(3))
    lies = patched(body, 102, ">i", size)
    assert bytes(skip_records(lies, 3)) == lies[102:]
    assert bytes(skip_records(body[:150], 3)) == body[102:150]
    assert bytes(skip_records(b"", 3)) == b""
