import numpy as np
import pyarrow as pa

from rmq_ordered.columnar.slices import gather_fixed, gather_slices, repeat_text

OCTETS = np.frombuffer(b"\x00\x01\x02\x03\x04\x05\x06\x07", np.uint8)
I16 = np.dtype(">i2")


def positions(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_fixed_items_are_read_at_any_alignment_and_up_to_the_last_byte() -> None:
    assert gather_fixed(OCTETS, positions(0, 1, 6), I16).tolist() == [0x0001, 0x0102, 0x0607]


def test_no_positions_give_no_items_even_from_an_empty_buffer() -> None:
    assert gather_fixed(OCTETS[:0], positions(), I16).size == 0


def test_slices_are_copied_without_the_gaps() -> None:
    buffer = pa.py_buffer(b"..one..two")
    found = gather_slices(buffer, positions(2, 7), positions(5, 10), pa.string())
    assert found.to_pylist() == ["one", "two"]
    assert found.buffers()[2].size < buffer.size + 64


def test_slices_of_one_length_reach_up_to_the_last_byte_and_may_touch() -> None:
    buffer = pa.py_buffer(b"abc.def" + bytes(5_000))
    starts, ends = positions(0, 4, 7, 2_507), positions(3, 7, 10, 2_510)
    expected = [b"abc", b"def", bytes(3), bytes(3)]
    assert gather_slices(buffer, starts, ends, pa.binary()).to_pylist() == expected
    rows = positions(0, 1, 2, 3)
    found = gather_slices(buffer, starts, ends, pa.binary(), rows, 4)
    assert found.to_pylist() == expected
    whole = gather_slices(buffer, positions(0), positions(5_007), pa.binary())
    assert whole.to_pylist() == [b"abc.def" + bytes(5_000)]
    spread = gather_slices(buffer, starts, ends, pa.binary(), positions(0, 2, 3, 5), 6)
    assert spread.to_pylist() == [b"abc", None, b"def", bytes(3), None, bytes(3)]
    assert gather_slices(buffer, starts, starts, pa.binary()).to_pylist() == [b""] * 4


def test_slices_may_be_empty_and_may_touch() -> None:
    found = gather_slices(
        pa.py_buffer(b"abc"), positions(0, 1, 1, 3), positions(1, 1, 3, 3), pa.binary()
    )
    assert found.to_pylist() == [b"a", b"", b"bc", b""]


def test_rows_without_a_slice_are_null() -> None:
    found = gather_slices(
        pa.py_buffer(b"abcd"), positions(0, 2), positions(1, 4), pa.string(), positions(1, 3), 5
    )
    assert found.to_pylist() == [None, "a", None, "cd", None]


def test_no_slices_at_all_are_all_null() -> None:
    found = gather_slices(pa.py_buffer(b""), positions(), positions(), pa.string(), positions(), 3)
    assert found.to_pylist() == [None, None, None]
    assert found.type == pa.string()


def test_a_text_is_repeated_in_every_row() -> None:
    assert repeat_text("标", 3).to_pylist() == ["标", "标", "标"]
    assert repeat_text("", 2).to_pylist() == ["", ""]
    assert repeat_text("x", 0).to_pylist() == []
