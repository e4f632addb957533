import pyarrow as pa
import pytest
from tests.unit.columnar.samples import QUEUE, message, patched, records, rising

from rmq_ordered.columnar import bodies
from rmq_ordered.columnar.bodies import Damage, body_column, stored_bodies, verify_checksums
from rmq_ordered.columnar.boundaries import TooMuchAtOnce, split_records
from rmq_ordered.columnar.fields import Fields, read_fields
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.compression import LZ4_FLAGS, ZLIB_FLAGS, ZSTD_FLAGS


def cut(body: bytes, *, collect: bool = False) -> tuple[pa.Array, Fields, Damage]:
    found = split_records(body, QUEUE)
    fields = read_fields(found)
    return stored_bodies(found, fields), fields, Damage(found, collect)


def test_bodies_of_all_sizes_stand_in_their_rows() -> None:
    sent = [b"", b"a", bytes(range(256)), b"", b"x" * 5000]
    body = records(*[message(body=one) for one in sent])
    assert body_column(*cut(body)).to_pylist() == sent


def test_only_compressed_rows_are_expanded() -> None:
    flags = [0, ZLIB_FLAGS, 0, LZ4_FLAGS, ZSTD_FLAGS, 0x1]
    sent = [f"body {number} ".encode() * 100 for number in range(len(flags))]
    body = records(*[message(body=b, sys_flag=f) for b, f in zip(sent, flags, strict=True)])
    column = body_column(*cut(body))
    assert column.to_pylist() == sent
    column.validate(full=True)


def test_an_empty_body_with_the_flag_stays_empty() -> None:
    body = records(message(body=b"", sys_flag=ZLIB_FLAGS), message(body=b"plain"))
    assert body_column(*cut(body)).to_pylist() == [b"", b"plain"]


def test_a_body_that_does_not_expand_is_refused_by_queue_offset() -> None:
    body = records(*rising(3))
    spoiled = patched(body, 102 + 36, ">i", ZSTD_FLAGS)
    with pytest.raises(RemoteProtocolError) as refusal:
        body_column(*cut(spoiled))
    assert "orders@broker-a#3: the message at queue offset 1 (byte 102" in str(refusal.value)
    assert "expected a body compressed as sysFlag 513 says" in str(refusal.value)


def test_bodies_that_expand_to_too_much_together_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = records(*rising(3, body=bytes(10_000), sys_flag=ZLIB_FLAGS))
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", 20_000)
    with pytest.raises(TooMuchAtOnce, match=r"#3: 3 messages expand to more than 20000 "):
        body_column(*cut(body))


def test_a_single_body_is_as_large_as_bodies_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", 100)
    body = records(message(body=bytes(10_000), sys_flag=ZLIB_FLAGS))
    assert body_column(*cut(body)).to_pylist() == [bytes(10_000)]


def test_the_first_body_with_a_wrong_checksum_is_named() -> None:
    body = records(*rising(4))
    verify_checksums(*cut(body))
    spoiled = patched(patched(body, 2 * 102 + 88, ">B", 0), 3 * 102 + 88, ">B", 0)
    with pytest.raises(RemoteProtocolError, match=r"queue offset 2 .* instead of 907060870"):
        verify_checksums(*cut(spoiled))


@pytest.mark.parametrize("sizes", [(100, 100), (512, 512), (513, 513), (100, 3, 0, 2_000), (0, 0)])
def test_checksums_are_compared_whatever_the_sizes(sizes: tuple[int, ...]) -> None:
    sent = [bytes([number]) * size for number, size in enumerate(sizes, 1)]
    body = records(*[message(queue_offset=n, body=one) for n, one in enumerate(sent)])
    verify_checksums(*cut(body))
    for row, start in enumerate(split_records(body, QUEUE).starts.tolist()):
        stored, fields, damage = cut(patched(body, start + 8, ">i", 1), collect=True)
        verify_checksums(stored, fields, damage)
        assert list(damage.reasons) == [row]


def test_checksums_are_those_of_stored_bytes() -> None:
    verify_checksums(*cut(records(message(body=bytes(9000), sys_flag=LZ4_FLAGS))))


def test_damage_is_collected_row_by_row_where_that_is_asked_for() -> None:
    flags = [0, ZLIB_FLAGS, 0, ZLIB_FLAGS]
    body = records(
        *[message(queue_offset=n, sys_flag=flag, body=b"x" * 50) for n, flag in enumerate(flags)]
    )
    # A changed byte in the first body; a codec that is not the one used in the last.
    (last,) = [int(start) for start in split_records(body, QUEUE).starts[3:]]
    spoiled = patched(patched(body, 88, ">B", 0), last + 36, ">i", ZSTD_FLAGS)
    found, fields, damage = cut(spoiled, collect=True)
    verify_checksums(found, fields, damage)
    assert body_column(found, fields, damage).to_pylist() == [None, b"x" * 50, b"x" * 50, None]
    reasons = damage.column().to_pylist()
    assert "orders@broker-a#3: the message at queue offset 0 (byte 0 of" in reasons[0]
    assert "CRC" in reasons[0]
    assert "queue offset 3" in reasons[3]
    assert "bytes that are not zstd" in reasons[3]
    assert reasons[1:3] == [None, None]


def test_a_body_with_a_wrong_checksum_is_not_expanded() -> None:
    body = patched(records(message(body=b"x" * 50, sys_flag=ZLIB_FLAGS)), 88, ">B", 0)
    found, fields, damage = cut(body, collect=True)
    verify_checksums(found, fields, damage)
    assert body_column(found, fields, damage).to_pylist() == [None]
    assert "CRC" in damage.column().to_pylist()[0]


def test_without_damage_the_reasons_are_null() -> None:
    found, fields, damage = cut(records(*rising(3)), collect=True)
    verify_checksums(found, fields, damage)
    assert damage.column().to_pylist() == [None, None, None]
    assert body_column(found, fields, damage).to_pylist() == [b"hello"] * 3
