"""What a listener is given."""

import pytest

from rmq_ordered.client.batches import MessageBatch, Record, read_records
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.message import encode_message

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
