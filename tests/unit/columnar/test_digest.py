"""Digests: the same for the same rows, another one for anything else; and never another one."""

import numpy as np
import pyarrow as pa
from tests.support.promises import proves

from rmq_ordered.columnar.digest import fixed_width, lengths, row_hashes, running_digests


def hashes(*rows: tuple[bytes, bytes], flag: int = 0) -> list[int]:
    bodies = pa.array([body for body, _ in rows], pa.binary())
    properties = pa.array([text for _, text in rows], pa.binary())
    return row_hashes(bodies, properties, np.full(len(rows), flag, np.int64)).tolist()


def digests(*bodies: bytes) -> list[int]:
    found = np.array(hashes(*((body, b"") for body in bodies)), np.uint64)
    return running_digests(found, 0, 0).tolist()


def test_the_numbers_never_change() -> None:
    assert hashes((b"hello", b"KEYS\x01k\x02"), (b"", b"")) == [
        0xA5CA126F2F61264F,
        0x0ED8192806921302,
    ]
    assert digests(b"a", b"b") == [0xF99123E3D2EF4BBB, 0x3332528828F0949D]


def test_a_row_s_hash_does_not_depend_on_its_neighbours() -> None:
    together = hashes((b"a" * 13, b"x"), (b"b", b""), (b"", b"yy"))
    apart = [hashes(row)[0] for row in [(b"a" * 13, b"x"), (b"b", b""), (b"", b"yy")]]
    assert together == apart


def test_what_moves_between_body_and_properties_is_seen() -> None:
    assert len({*hashes((b"ab", b"c"), (b"a", b"bc"), (b"abc", b""))}) == 3


def test_zeros_at_the_end_and_the_flag_are_seen() -> None:
    assert len({*hashes((b"a", b""), (b"a\0", b""), (b"a\0\0", b""))}) == 3
    assert hashes((b"a", b"")) != hashes((b"a", b""), flag=1)


def test_every_bit_and_every_exchange_of_two_bytes_is_seen() -> None:
    body = bytes(np.random.default_rng(5).integers(0, 256, 300, np.uint8))
    changed = {body}
    for at in range(len(body)):
        for bit in range(8):
            changed.add(body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :])
        for other in range(at):
            exchanged = bytearray(body)
            exchanged[at], exchanged[other] = body[other], body[at]
            changed.add(bytes(exchanged))
    assert len(changed) > 40_000
    assert len({*hashes(*((one, b"") for one in changed))}) == len(changed)


def test_rows_of_zeros_and_small_numbers_differ() -> None:
    counters = [number.to_bytes(8, "little") * 4 for number in range(2_000)]
    zeros = [bytes(count) for count in range(2_000)]
    tails = [number.to_bytes(1, "big") + bytes(31) for number in range(1, 256)]
    rows = {*counters, *zeros, *tails}
    assert len({*hashes(*((one, b"") for one in rows))}) == len(rows)


@proves("stream-adds-missing-only")
def test_order_and_number_of_rows_are_seen() -> None:
    assert digests(b"a", b"b")[-1] != digests(b"b", b"a")[-1]
    assert digests(b"a", b"a")[-1] != digests(b"a")[-1]


def test_digests_go_on_from_where_they_were() -> None:
    found = np.array(hashes((b"a", b""), (b"b", b""), (b"c", b"")), np.uint64)
    whole = running_digests(found, 0, 0)
    rest = running_digests(found[1:], 1, int(whole[0]))
    assert rest.tolist() == whole.tolist()[1:]


def test_slices_are_measured_from_where_they_begin() -> None:
    assert lengths(pa.array([b"aaa", b"", b"bb"], pa.binary()).slice(1)).tolist() == [0, 2]
    assert lengths(pa.array([], pa.binary())).tolist() == []
    assert hashes() == []


def test_rows_of_a_matrix_become_values() -> None:
    assert fixed_width(np.array([[1, 2], [3, 4]], ">i2")).to_pylist() == [
        b"\0\1\0\2",
        b"\0\3\0\4",
    ]
