"""The ordered consumer on both brokers: order, retries, dead letters, filters, starting points."""

from collections.abc import Callable, Iterator

import pytest
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.folded import folded_queue
from tests.support.waiting import wait_until

from rmq_ordered.client import (
    Client,
    ConsumeResult,
    ConsumerSettings,
    FilterKind,
    MessageBatch,
    OrderedConsumer,
    OrderedProducer,
    StartPoint,
    Subscription,
)
from rmq_ordered.errors import BrokerError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.message import decode_messages

SOON_S = 60
QUICK = ConsumerSettings(suspend_ms=50, rebalance_ms=1_000, heartbeat_ms=1_000, commit_ms=100)
Handle = Callable[[MessageBatch], ConsumeResult]


class Topic:
    """A topic of two queues, a group, and what its consumers handled."""

    def __init__(self, broker: Broker, client: Client) -> None:
        self.name = broker.create_topic("consumed", 2)
        self.group = broker.unique("consumers")
        self.handled: list[Message] = []
        self._client = client
        self._producer = OrderedProducer(client, self.name)
        self.queues = client.routes.readable(self.name)

    def send(
        self, queue: MessageQueue, *bodies: bytes, tag: str | None = None, **more: str
    ) -> None:
        properties = more | ({"TAGS": tag} if tag else {})
        messages = [self._producer.message(body, properties=properties) for body in bodies]
        self._producer.send_all({queue: messages})

    def consumer(
        self,
        handle: Handle | None = None,
        settings: ConsumerSettings = QUICK,
        subscription: Subscription | None = None,
    ) -> OrderedConsumer:
        wanted = subscription or Subscription(self.name)
        return OrderedConsumer(self._client, self.group, [wanted], handle or self.take, settings)

    def take(self, batch: MessageBatch) -> ConsumeResult:
        self.handled += batch
        return ConsumeResult.SUCCESS

    def wait_for(self, count: int) -> list[bytes]:
        wait_until(lambda: len(self.handled) >= count, f"{count} were handled", SOON_S)
        return [message.body for message in self.handled]

    def committed(self, queue: MessageQueue) -> int | None:
        return self._client.broker.committed_offset(self.group, queue)


@pytest.fixture
def topic(broker: Broker, client: Client) -> Iterator[Topic]:
    return Topic(broker, client)


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_queues_are_handled_in_order_and_a_later_consumer_goes_on_after_them(
    topic: Topic,
) -> None:
    for queue in topic.queues:
        topic.send(queue, *bodies(50))
    with topic.consumer():
        topic.wait_for(100)
    for queue in topic.queues:
        of_queue = [m for m in topic.handled if m.queue == queue]
        assert [m.queue_offset for m in of_queue] == list(range(50))
        assert [m.body for m in of_queue] == bodies(50)
        assert topic.committed(queue) == 50
    topic.send(topic.queues[0], b"later")
    with topic.consumer():
        assert topic.wait_for(101)[100:] == [b"later"]


def test_queues_are_free_at_once_when_a_consumer_closes(topic: Topic, client: Client) -> None:
    with topic.consumer() as consumer:
        wait_until(lambda: len(consumer.queues) >= 2, "it owns its queues", SOON_S)
    answers = client.broker.lock(topic.group, "somebody", topic.queues)
    assert [answer.granted for answer in answers] == [True, True]
    assert client.broker.group_members(topic.group, [topic.name]) == ()


def test_a_message_that_is_refused_too_often_becomes_a_dead_letter(
    broker: Broker, topic: Topic
) -> None:
    attempts: list[int] = []

    def handle(batch: MessageBatch) -> ConsumeResult:
        if batch.messages[0].body == b"1":
            attempts.append(batch.attempt)
            return ConsumeResult.SUSPEND
        return topic.take(batch)

    topic.send(topic.queues[0], *bodies(3))
    settings = ConsumerSettings(max_reconsume_times=2, suspend_ms=50, rebalance_ms=1_000)
    with topic.consumer(handle, settings):
        assert topic.wait_for(2) == [b"0", b"2"]
    assert attempts == [0, 1, 2]
    letters = f"%DLQ%{topic.group}"
    body = wait_until(
        lambda: frames.pull(broker.broker_address, letters, 0, 0).body, "the letter is there", 30
    )
    assert [letter.body for letter in decode_messages(body, broker_name="any")] == [b"1"]
    assert topic.committed(topic.queues[0]) == 3


def test_only_the_tags_that_were_asked_for_are_handled(topic: Topic) -> None:
    # "Aa" and "BB" have the same hash code in Java: a broker cannot tell them apart.
    for number, tag in enumerate(["Aa", "BB", "C", "Aa"]):
        topic.send(topic.queues[0], b"%d" % number, tag=tag)
    with topic.consumer(subscription=Subscription(topic.name, "Aa || D")):
        assert topic.wait_for(2) == [b"0", b"3"]
    assert topic.committed(topic.queues[0]) == 4, "what was filtered out is done with"


def test_an_sql_condition_is_evaluated_by_the_broker(topic: Topic) -> None:
    for number in range(6):
        topic.send(topic.queues[0], b"%d" % number, size=str(number))
    wanted = Subscription(topic.name, "size BETWEEN 2 AND 3", FilterKind.SQL92)
    with topic.consumer(subscription=wanted):
        assert topic.wait_for(2) == [b"2", b"3"]


def test_an_sql_condition_that_cannot_be_read_is_refused_at_the_start(topic: Topic) -> None:
    with pytest.raises(BrokerError, match="the filter 'size >'"):
        topic.consumer(subscription=Subscription(topic.name, "size >", FilterKind.SQL92)).start()


def test_a_new_group_may_begin_with_what_comes_next(topic: Topic, client: Client) -> None:
    topic.send(topic.queues[0], *bodies(3))
    wait_until(lambda: client.broker.max_offset(topic.queues[0]) == 3, "all is visible", SOON_S)
    settings = ConsumerSettings(start=StartPoint.LAST, rebalance_ms=1_000)
    with topic.consumer(settings=settings) as consumer:
        wait_until(lambda: len(consumer.queues) >= 2, "it owns its queues", SOON_S)
        topic.send(topic.queues[0], b"next")
        assert topic.wait_for(1) == [b"next"]


def test_a_batch_can_be_taken_as_arrow(topic: Topic) -> None:
    values: list[list[bytes]] = []

    def handle(batch: MessageBatch) -> ConsumeResult:
        values.append(batch.arrow().column("value").to_pylist())
        return topic.take(batch)

    topic.send(topic.queues[1], *bodies(20))
    with topic.consumer(handle, ConsumerSettings(batch_size=32, rebalance_ms=1_000)):
        topic.wait_for(20)
    assert [value for batch in values for value in batch] == bodies(20)


def test_a_batch_kept_as_one_record_is_handled_message_by_message_also_from_its_middle(
    broker: Broker, client: Client
) -> None:
    queue = folded_queue(broker, client, 100)
    group, handled = broker.unique("consumers"), list[Message]()

    def handle(batch: MessageBatch) -> ConsumeResult:
        handled.extend(batch)
        return ConsumeResult.SUCCESS

    # Makes the group known, so that an offset can be committed for it.
    client.broker.heartbeat("me", group, [queue.topic])
    client.broker.leave_group("me", group, [queue.topic])
    client.broker.commit_offset(group, queue, 20)
    with OrderedConsumer(client, group, [queue.topic], handle, QUICK):
        wait_until(lambda: len(handled) >= 80, "the rest of the batches was handled", SOON_S)
    assert [message.queue_offset for message in handled] == list(range(20, 100))
    assert [message.body for message in handled] == bodies(80, first=20)
    assert client.broker.committed_offset(group, queue) == 100
