"""The nouns: order, text, length and pickling."""

import pickle

import pytest

from rmq_ordered.model import (
    BrokerData,
    Message,
    MessageQueue,
    OffsetSpan,
    OutgoingMessage,
    QueueData,
    QueueLease,
    QueueRange,
    SendResult,
    TopicRoute,
)

QUEUE = MessageQueue("orders", "broker-a", 3)


def test_a_queue_reads_as_topic_broker_and_number() -> None:
    assert str(QUEUE) == "orders@broker-a#3"


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    queues = [
        MessageQueue("b", "broker-a", 0),
        MessageQueue("a", "broker-b", 0),
        MessageQueue("a", "broker-a", 10),
        MessageQueue("a", "broker-a", 9),
    ]
    assert [str(queue) for queue in sorted(queues)] == [
        "a@broker-a#9",
        "a@broker-a#10",
        "a@broker-b#0",
        "b@broker-a#0",
    ]


@pytest.mark.parametrize(("start", "end", "length"), [(3, 10, 7), (3, 3, 0), (10, 3, 0)])
def test_the_length_of_a_range_counts_its_offsets(start: int, end: int, length: int) -> None:
    assert len(QueueRange(QUEUE, start, end)) == length


def test_an_outgoing_message_has_no_properties_unless_given() -> None:
    first, second = OutgoingMessage(b"a"), OutgoingMessage(b"b")
    assert first.properties == {}
    assert first.properties is not second.properties


@pytest.mark.parametrize(
    "value",
    [
        QUEUE,
        QueueRange(QUEUE, 1, 2),
        OffsetSpan(1, 2),
        QueueLease("billing", QUEUE, "me", 7),
        SendResult(QUEUE, 5, 1),
        TopicRoute("orders", (BrokerData("a", "h:1"),), (QueueData("a", 4, 4, True, True),), None),
        Message(QUEUE, 1, 100, b"x", {"TAGS": "t"}, 1, 2, "10.0.0.1:1", "10.0.0.2:2"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_cross_processes_are_equal_after_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        QUEUE.queue_id = 4  # type: ignore[misc]
