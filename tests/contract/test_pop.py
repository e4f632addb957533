"""Popping: hidden until acknowledged, back when its time is over."""

import pytest
from tests.contract.divergences import diverges
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer, PopConsumer
from rmq_ordered.errors import OptionError
from rmq_ordered.protocol.pops import PoppedMessage

SOON_S = 60


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: Broker) -> str:
    diverges(request, broker, "pop")
    return broker.create_topic("popped", 1)


@pytest.fixture
def group(broker: Broker) -> str:
    return broker.unique("poppers")


def pop_all(consumer: PopConsumer, count: int) -> list[PoppedMessage]:
    """Pop until so many came."""
    found: list[PoppedMessage] = []

    def more() -> bool:
        found.extend(consumer.pop(wait_ms=1_000))
        return len(found) >= count

    wait_until(more, f"{count} messages were popped", SOON_S)
    return found


def test_popped_messages_are_hidden_and_do_not_come_again_once_acknowledged(
    client: Client, topic: str, group: str
) -> None:
    producer = OrderedProducer(client, topic)
    for number in range(5):
        producer.send("key", b"%d" % number)
    one, other = PopConsumer(client, group, topic), PopConsumer(client, group, topic)
    popped = pop_all(one, 5)
    assert [each.message.body for each in popped] == [b"%d" % number for number in range(5)]
    assert [each.handle.queue_offset for each in popped] == list(range(5))
    assert other.pop() == ()
    for each in popped:
        one.ack(each)
    producer.send("key", b"next")
    (after,) = pop_all(other, 1)
    assert after.message.body == b"next"
    other.ack(after)


def test_a_message_whose_time_is_over_comes_again(client: Client, topic: str, group: str) -> None:
    OrderedProducer(client, topic).send("key", b"again")
    consumer = PopConsumer(client, group, topic, invisible_ms=60_000)
    (popped,) = pop_all(consumer, 1)
    shortened = consumer.change_invisible_time(popped, 1_000)
    assert shortened.handle != popped.handle
    (back,) = pop_all(consumer, 1)
    assert back.message.body == b"again"
    assert back.message.reconsume_times == 1
    consumer.ack(back)
    assert consumer.pop() == ()


def test_more_than_the_broker_gives_at_once_is_refused_before_it_is_asked(
    client: Client, group: str
) -> None:
    consumer = PopConsumer(client, group, "any topic")
    for count in (0, 33):
        with pytest.raises(OptionError, match="1 to 32"):
            consumer.pop(count)
