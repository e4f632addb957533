import pytest
from tests.unit.columnar.samples import QUEUE, message, patched, records, rising

from rmq_ordered.columnar import bodies
from rmq_ordered.columnar.bodies import body_column, ensure_checksums
from rmq_ordered.columnar.boundaries import Records, split_records
from rmq_ordered.columnar.fields import Fields, read_fields
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.compression import LZ4_FLAGS, ZLIB_FLAGS, ZSTD_FLAGS


def cut(body: bytes) -> tuple[Records, Fields]:
    found = split_records(body, QUEUE)
    return found, read_fields(found)


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


def test_bodies_that_expand_beyond_one_column_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    body = records(*rising(3, body=bytes(10_000), sys_flag=ZLIB_FLAGS))
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", len(body) + 20_000)
    with pytest.raises(RemoteProtocolError, match=r"queue offset 2 .* expands to more than 0"):
        body_column(*cut(body))


def test_the_first_body_with_a_wrong_checksum_is_named() -> None:
    body = records(*rising(4))
    ensure_checksums(*cut(body))
    spoiled = patched(patched(body, 2 * 102 + 88, ">B", 0), 3 * 102 + 88, ">B", 0)
    with pytest.raises(RemoteProtocolError, match=r"queue offset 2 .* instead of 907060870"):
        ensure_checksums(*cut(spoiled))


def test_checksums_are_those_of_stored_bytes() -> None:
    ensure_checksums(*cut(records(message(body=bytes(9000), sys_flag=LZ4_FLAGS))))
