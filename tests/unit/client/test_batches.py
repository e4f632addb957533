"""What a listener is given."""

from dataclasses import replace

import pytest

from rmq_ordered.client.batches import MessageBatch, Record, read_records
from rmq_ordered.columnar import bodies, decode_pull_body
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.compression import ZLIB_FLAGS
from rmq_ordered.protocol.message import INNER_BATCH_FLAGS, encode_batch, encode_message

QUEUE = MessageQueue("orders", "broker-a", 3)


def message(offset: int, tag: str) -> Message:
    host = "10.0.0.1:10911"
    return Message(QUEUE, offset, offset * 100, b"%d" % offset, {"TAGS": tag}, 1, 2, host, host)


BODY = b"".join(encode_message(message(offset, "ABA"[offset])) for offset in range(3))


def test_records_are_read_with_their_offsets() -> None:
    found = read_records(BODY, QUEUE)
    assert [offset for offset, _ in found] == [0, 1, 2]
    assert b"".join(record.raw for _, record in found) == BODY
    assert found[1][1].message == message(1, "B")


def test_tags_whose_hashes_collide_are_told_apart_here() -> None:
    assert [offset for offset, _ in read_records(BODY, QUEUE, frozenset({"A"}))] == [0, 2]


@pytest.mark.parametrize(
    "asked", [MessageQueue("orders", "broker-a", 4), MessageQueue("refunds", "broker-a", 3)]
)
def test_a_record_of_another_queue_is_refused(asked: MessageQueue) -> None:
    with pytest.raises(RemoteProtocolError, match=rf"{asked}.* offset 0 .*'orders', queue 3$"):
        read_records(BODY, asked)


def test_a_light_queue_gives_records_of_the_topic_behind_it() -> None:
    assert len(read_records(BODY, MessageQueue("%LMQ%orders", "broker-a", 0))) == 3


def test_a_batch_is_a_sequence_of_messages_and_an_arrow_batch() -> None:
    records: list[Record] = [record for _, record in read_records(BODY, QUEUE)]
    batch = MessageBatch.of(QUEUE, records, 2)
    assert (len(batch), batch.attempt) == (3, 2)
    assert [one.body for one in batch] == [b"0", b"1", b"2"]
    assert batch.arrow().column("offset").to_pylist() == [0, 1, 2]
    assert batch.arrow().column("tags").to_pylist() == ["A", "B", "A"]


def test_an_arrow_batch_is_whole_however_much_its_messages_expand_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = [
        replace(message(n, "A"), body=bytes([n]) * 10_000, sys_flag=ZLIB_FLAGS) for n in range(5)
    ]
    records = [record for _, record in read_records(b"".join(map(encode_message, large)), QUEUE)]
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", 20_000)
    found = MessageBatch.of(QUEUE, records, 0).arrow()
    assert found.column("value").to_pylist() == [one.body for one in large]


def stored_batch(offset: int, *bodies: bytes, sys_flag: int = 0) -> bytes:
    """One record with messages of tags A, B, A, B, ... as a BatchCQ topic has it."""
    inner = [
        OutgoingMessage(body, {"TAGS": "AB"[index % 2]}, flag=index)
        for index, body in enumerate(bodies)
    ]
    host = "10.0.0.1:10911"
    flags = INNER_BATCH_FLAGS | sys_flag
    outer = Message(QUEUE, offset, 900, encode_batch(inner), {}, 1, 2, host, host, sys_flag=flags)
    return encode_message(outer)


@pytest.mark.parametrize("sys_flag", [0, ZLIB_FLAGS])
def test_a_batch_that_is_stored_as_one_record_is_handed_out_message_by_message(
    sys_flag: int,
) -> None:
    body = BODY + stored_batch(3, b"three", b"four", b"five", sys_flag=sys_flag)
    found = read_records(body, QUEUE)
    assert [offset for offset, _ in found] == [0, 1, 2, 3, 4, 5]
    assert [record.message.body for _, record in found[3:]] == [b"three", b"four", b"five"]
    assert [record.message.flag for _, record in found[3:]] == [0, 1, 2]
    batch = MessageBatch.of(QUEUE, [record for _, record in found], 0)
    assert batch.arrow() == decode_pull_body(body, QUEUE), "as the Spark source gives them"
    assert [offset for offset, _ in read_records(body, QUEUE, frozenset({"B"}))] == [1, 4]


def test_a_pull_that_began_inside_a_batch_gives_the_rest_of_it() -> None:
    body = stored_batch(3, b"three", b"four", b"five") + stored_batch(6, b"six")
    assert [offset for offset, _ in read_records(body, QUEUE, start=4)] == [4, 5, 6]
    assert [offset for offset, _ in read_records(BODY, QUEUE, start=2)] == [0, 1, 2], (
        "a record of its own before the start is the broker's mistake, and told as such later"
    )


def test_a_batch_that_lies_is_refused_with_its_offset() -> None:
    lying = Message(QUEUE, 7, 0, b"no batch", {}, 1, 2, "1.1.1.1:1", "1.1.1.1:1",
                    sys_flag=INNER_BATCH_FLAGS)  # fmt: skip
    with pytest.raises(RemoteProtocolError, match=r"queue offset 7 .*messages of an inner batch"):
        read_records(encode_message(lying), QUEUE)
