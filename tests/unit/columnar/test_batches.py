import struct
import zlib

import pytest
from tests.support.promises import proves
from tests.unit.columnar.samples import QUEUE, inner_batch, message, patched, records

from rmq_ordered.columnar import batches, decode_in_parts
from rmq_ordered.columnar.batches import has_batches, unfold_batches
from rmq_ordered.columnar.boundaries import Records, TooMuchAtOnce, split_records
from rmq_ordered.columnar.fields import Fields, read_fields
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.compression import ZLIB_FLAGS
from rmq_ordered.protocol.message import decode_messages, encode_message


def cut(body: bytes) -> tuple[Records, Fields]:
    found = split_records(body, QUEUE)
    return found, read_fields(found)


def unfolded(body: bytes, *, verify_crc: bool = True) -> bytes:
    return unfold_batches(*cut(body), verify_crc=verify_crc)


def test_records_of_one_message_are_left_as_they_are() -> None:
    # One of the two bits alone means nothing.
    body = records(message(), message(sys_flag=0x40), message(sys_flag=0x80))
    assert not has_batches(cut(body)[1])
    assert unfolded(body) == body


def test_each_message_of_a_batch_becomes_a_record_of_its_own() -> None:
    batch = inner_batch(b"a", b"", b"ccc", queue_offset=40, reconsume_times=2)
    body = records(message(queue_offset=39), batch, message(queue_offset=43))
    assert has_batches(cut(body)[1])
    plain = unfolded(body)
    assert not has_batches(cut(plain)[1])
    found = list(decode_messages(plain, broker_name="broker-a"))
    assert [(one.queue_offset, one.body) for one in found] == [
        (39, b"hello"), (40, b"a"), (41, b""), (42, b"ccc"), (43, b"hello"),
    ]  # fmt: skip
    assert [one.properties.get("TAGS") for one in found] == [None, "t0", "t1", "t2", None]
    assert [one.flag for one in found] == [0, 0, 1, 2, 0]
    assert {one.reconsume_times for one in found[1:4]} == {2}
    assert {(one.born_host, one.commit_log_offset) for one in found} == {("10.0.0.1:5555", 4096)}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("host", ["10.0.0.1:1", "[::1]:1"])
def test_every_shape_of_the_outer_record_is_kept(version: int, host: str) -> None:
    batch = inner_batch(b"a", b"b", born_host=host, store_host=host, sys_flag=ZLIB_FLAGS)
    plain = unfolded(encode_message(batch, version=version))  # type: ignore[arg-type]
    found = list(decode_messages(plain, broker_name="broker-a"))
    assert [one.body for one in found] == [b"a", b"b"]
    assert {(one.born_host, one.store_host, one.queue.topic) for one in found} == {
        (host, host, "orders")
    }


def damaged(body: bytes, position: int, value: int) -> bytes:
    """A batch at queue offset 7 with a word of its body overwritten, and the right checksum."""
    spoiled = patched(body, position, ">i", value)
    (length,) = struct.unpack_from(">i", spoiled, 84)
    return patched(spoiled, 8, ">i", zlib.crc32(spoiled[88 : 88 + length]) & 0x7FFF_FFFF)


@pytest.mark.parametrize(
    ("position", "value", "complaint"),
    [
        (88, 21, "totalSize 21"),
        (88, 2**31 - 1, "totalSize 2147483647"),
        (88 + 16, -1, "bodyLen -1 where 62 bytes of the batch are left"),
        (88 + 16, 100, "bodyLen 100"),
    ],
)
def test_a_batch_that_lies_is_refused_by_queue_offset(
    position: int, value: int, complaint: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint) as refusal:
        unfolded(damaged(records(inner_batch(b"a", b"b")), position, value))
    assert "orders@broker-a#3: the message at queue offset 7 (byte 0 of" in str(refusal.value)


def test_a_batch_without_a_message_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"queue offset 7 .* a batch without a message"):
        unfolded(records(message(body=b"", sys_flag=0xC0)))


def test_queue_offsets_beyond_64_bits_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="2 messages from queue offset"):
        unfolded(records(inner_batch(b"a", b"b", queue_offset=2**63 - 1)))


def test_a_batch_that_fails_its_checksum_is_refused_unless_that_is_switched_off() -> None:
    spoiled = patched(records(inner_batch(b"a", b"b")), 8, ">i", 1)
    with pytest.raises(RemoteProtocolError, match=r"queue offset 7 .* instead of 1"):
        unfolded(spoiled)
    assert len(list(decode_messages(unfolded(spoiled, verify_crc=False), broker_name="b"))) == 2


@proves("expansion-bounded")
def test_batches_that_hold_too_much_together_are_decoded_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "MAX_UNFOLDED_BYTES", 250_000)
    bomb = [inner_batch(bytes(100_000), sys_flag=ZLIB_FLAGS, queue_offset=at) for at in range(4)]
    body = records(*bomb)
    assert len(body) < 2_000
    assert len(unfolded(records(*bomb[:2]))) > 200_000
    with pytest.raises(TooMuchAtOnce, match="4 records unfold to more than 250000 bytes"):
        unfolded(body)
    parts = list(decode_in_parts(body, QUEUE))
    assert [part.column("offset").to_pylist() for part in parts] == [[0, 1], [2, 3]]


@proves("expansion-bounded")
def test_a_batch_that_holds_too_much_by_itself_is_refused_by_queue_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "MAX_UNFOLDED_BYTES", 250_000)
    bomb = [inner_batch(bytes(260_000), sys_flag=ZLIB_FLAGS, queue_offset=at) for at in range(2)]
    expected = r"orders@broker-a#3: .* queue offset 0 .* 250000 bytes at most, found .* expands to"
    with pytest.raises(RemoteProtocolError, match=expected):
        list(decode_in_parts(records(*bomb), QUEUE))


def test_messages_that_are_small_beside_their_heads_are_counted_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "MAX_UNFOLDED_BYTES", 50_000)
    batch = inner_batch(*[b""] * 1_000, sys_flag=ZLIB_FLAGS)
    with pytest.raises(RemoteProtocolError, match=r"queue offset 7 .* messages need more"):
        unfolded(records(batch))
