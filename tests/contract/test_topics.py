"""Topics and routes, on both brokers."""

import pytest
from tests.support.brokers import Broker
from tests.support.ports import free_base_port
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.errors import BrokerError, ConnectFailed, TopicNotFound
from rmq_ordered.model import MessageQueue, OffsetSpan


def test_a_created_topic_is_listed_and_routed_with_its_queues(
    broker: Broker, client: Client
) -> None:
    topic = broker.unique("created")
    client.broker.create_topic(topic, 3)
    wait_until(lambda: topic in client.routes.topics(), "the topic is listed", 10)
    queues = client.routes.readable(topic)
    assert [queue.queue_id for queue in queues] == [0, 1, 2]
    assert client.routes.writable(topic) == queues


def test_an_empty_topic_has_empty_queues(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("empty", 2)
    assert list(client.broker.topic_stats(topic).values()) == [OffsetSpan(0, 0), OffsetSpan(0, 0)]


def test_stats_count_what_was_sent_per_queue(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("counted", 2)
    producer = OrderedProducer(client, topic)
    queue = producer.queues[1]
    producer.send_all({queue: [producer.message(b"x") for _ in range(5)]})
    # RocketMQ acknowledges a send before its consume queue shows the message.
    wait_until(lambda: client.broker.max_offset(queue) == 5, "the messages are visible", 10)
    spans = client.broker.topic_stats(topic)
    assert (spans[queue].minimum, spans[queue].maximum) == (0, 5)
    assert spans[producer.queues[0]].maximum == 0


def test_a_topic_can_be_given_more_queues(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("growing", 1)
    client.broker.create_topic(topic, 4)

    def queues() -> tuple[MessageQueue, ...]:
        client.routes.forget(topic)
        return client.routes.readable(topic)

    wait_until(lambda: len(queues()) == 4, "the route shows four queues", 10)


def test_a_deleted_topic_is_gone(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("doomed", 1)
    client.broker.delete_topic(topic)
    client.routes.forget(topic)
    with pytest.raises(TopicNotFound, match=f"topic '{topic}' is not known"):
        client.routes.route(topic)


def test_a_missing_topic_is_named_with_what_to_do(broker: Broker, client: Client) -> None:
    topic = broker.unique("missing")
    with pytest.raises(TopicNotFound, match=f"rmq-ordered topic create {topic} --queues"):
        client.routes.route(topic)


@pytest.mark.parametrize("name", ["with space", "with/slash", "x" * 128, "../escape"])
def test_an_illegal_topic_name_is_refused(client: Client, name: str) -> None:
    with pytest.raises(BrokerError):
        client.broker.create_topic(name, 1)


def test_the_second_name_server_is_asked_when_the_first_is_away(broker: Broker) -> None:
    topic = broker.create_topic("failover", 1)
    nobody = f"127.0.0.1:{free_base_port((0,))}"
    with Client(f"{nobody};{broker.name_server}") as client:
        assert len(client.routes.readable(topic)) == 1


def test_an_unreachable_name_server_is_named(broker: Broker) -> None:
    nobody = f"127.0.0.1:{free_base_port((0,))}"
    with Client(nobody) as client, pytest.raises(ConnectFailed, match=nobody):
        client.routes.route("orders")
