"""Queues in memory: real records, real batches."""

from rmq_ordered.model import MessageQueue, OutgoingMessage
from rmq_ordered.protocol.message import decode_messages, encode_batch
from rmq_ordered.testing.storage import StoredQueue, split_batch

QUEUE = MessageQueue("orders", "broker-a", 3)


def test_messages_get_rising_offsets_and_are_stored_as_records() -> None:
    stored = StoredQueue(QUEUE)
    assert [
        stored.append(OutgoingMessage(body, {"TAGS": "t"}), 100) for body in (b"a", b"b", b"c")
    ] == [0, 1, 2]
    assert stored.maximum == 3
    body = b"".join(stored.records(1, 10))
    messages = list(decode_messages(body, broker_name="broker-a"))
    assert [(m.queue, m.queue_offset, m.body) for m in messages] == [
        (QUEUE, 1, b"b"),
        (QUEUE, 2, b"c"),
    ]
    assert messages[0].properties == {"TAGS": "t"}
    assert stored.bodies == [b"a", b"b", b"c"]


def test_the_offset_at_a_time_is_the_first_stored_then_or_later() -> None:
    stored = StoredQueue(QUEUE, minimum=1)
    for at_ms in (100, 200, 200, 300):
        stored.append(OutgoingMessage(b"x"), at_ms)
    assert [stored.first_at(t) for t in (0, 200, 201, 301)] == [1, 1, 3, 4]


def test_a_batch_is_split_into_what_was_put_in() -> None:
    batch = [
        OutgoingMessage(b"a", {"KEYS": "k"}, flag=5),
        OutgoingMessage(b"", {}),
        OutgoingMessage(b"c" * 1_000, {"名": "值"}),
    ]
    assert split_batch(encode_batch(batch)) == batch
    assert split_batch(b"") == []
