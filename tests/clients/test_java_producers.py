"""Apache's Java producers: what they send arrives where the selector said, in order, complete."""

from tests.clients.order import assert_first_deliveries_follow_send_order, keyed_messages
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients

CONSUME_TIMEOUT_S = 60.0


def test_a_selector_send_lands_in_the_queue_that_the_selector_chose(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic = broker.create_topic("selected", 4)
    pairs = keyed_messages(keys=7, each=3)

    sent = javaclients.send_ordered(broker.name_server, topic, pairs)

    with javaclients.selector_oracle() as oracle:
        chosen = [oracle.choose(key, 4).index for key, _ in pairs]
    assert [message.queue_id for message in sent] == chosen
    assert len({message.message_id for message in sent}) == len(pairs)


def test_the_offsets_of_a_queue_rise_by_one_per_send(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic = broker.create_topic("rising", 3)

    sent = javaclients.send_ordered(broker.name_server, topic, keyed_messages(keys=5, each=4))

    for queue_id in range(3):
        offsets = [message.queue_offset for message in sent if message.queue_id == queue_id]
        assert offsets == list(range(len(offsets)))


def test_a_topic_is_created_by_the_first_send_to_it(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic = broker.unique("created-by-send")
    assert frames.route(broker.name_server, topic).code == frames.TOPIC_NOT_EXIST

    (sent,) = javaclients.send_ordered(broker.name_server, topic, [("k", "v")])

    assert sent.queue_offset == 0
    assert frames.route(broker.name_server, topic).code == frames.SUCCESS


def test_a_batch_takes_consecutive_offsets_of_one_queue(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic = broker.create_topic("batches", 2)
    pairs = keyed_messages(keys=1, each=25)

    sent = javaclients.send_batches(broker.name_server, topic, pairs, queue_id=1, batch_size=10)

    assert [(batch.count, batch.queue_id, batch.queue_offset) for batch in sent] == [
        (10, 1, 0),
        (10, 1, 10),
        (5, 1, 20),
    ]
    assert sum(len(set(batch.message_ids)) for batch in sent) == len(pairs)
    group = broker.unique("batch-reader")
    consumer = javaclients.lite_pull_consumer(broker.name_server, topic, group)
    received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)
    assert [message.queue_offset for message in received] == list(range(len(pairs)))
    assert_first_deliveries_follow_send_order(received, pairs)


def test_unicode_keys_and_values_survive_the_journey(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic = broker.create_topic("unicode", 1)
    pair = ("订单-1", "grün 😀")

    javaclients.send_ordered(broker.name_server, topic, [pair])

    group = broker.unique("unicode-reader")
    consumer = javaclients.lite_pull_consumer(broker.name_server, topic, group)
    (received,) = consumer.wait_for_messages(1, CONSUME_TIMEOUT_S)
    assert (received.key, received.body) == pair
