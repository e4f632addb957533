"""Apache's Java producers: what they send arrives where they were told, in order, complete."""

import pytest
from tests.clients.order import assert_first_deliveries_follow_send_order, keyed_messages
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.promises import proves

CONSUME_TIMEOUT_S = 60.0
# A broker may deliver at a full second before the time asked for (RocketMQ's timer wheel).
PRECISION_MS = 1000


@pytest.mark.both_brokers
@proves("java-clients-work")
def test_a_selector_send_lands_in_the_queue_that_the_selector_chose(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic = broker.create_topic("selected", 4)
    pairs = keyed_messages(keys=7, each=3)

    sent = anyclients.send_ordered(broker.name_server, topic, pairs)

    with anyclients.selector_oracle() as oracle:
        chosen = [oracle.choose(key, 4).index for key, _ in pairs]
    assert [message.queue_id for message in sent] == chosen
    assert len({message.message_id for message in sent}) == len(pairs)
    for queue_id in range(4):
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
    broker: Broker, anyclients: JavaClients
) -> None:
    topic = broker.create_topic("batches", 2)
    pairs = [*keyed_messages(keys=1, each=24), ("订单-1", "订单-1#grün 😀")]

    sent = anyclients.send_batches(broker.name_server, topic, pairs, queue_id=1, batch_size=10)

    assert [(batch.count, batch.queue_id, batch.queue_offset) for batch in sent] == [
        (10, 1, 0),
        (10, 1, 10),
        (5, 1, 20),
    ]
    assert sum(len(set(batch.message_ids)) for batch in sent) == len(pairs)
    group = broker.unique("batch-reader")
    consumer = anyclients.lite_pull_consumer(broker.name_server, topic, group)
    received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)
    assert [message.queue_offset for message in received] == list(range(len(pairs)))
    assert [(message.key, message.body) for message in received] == pairs
    assert_first_deliveries_follow_send_order(received, pairs)


def test_synchronous_asynchronous_and_one_way_sends_arrive_and_a_delayed_one_later(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("ways", 3), broker.unique("ways")
    ways = ["level=2", "mode=sync", "mode=async", "mode=async", "mode=oneway"]
    messages = [(how, f"{how} {number}") for number, how in enumerate(ways)]

    answers = anyclients.send(broker.name_server, topic, messages)
    with anyclients.concurrent_consumer(broker.name_server, topic, group) as consumer:
        received = consumer.wait_for_messages(len(messages), CONSUME_TIMEOUT_S)

    bodies = [body for _, body in messages]
    assert sorted(answer.body for answer in answers) == sorted(bodies[:-1])
    assert len({answer.message_id for answer in answers}) == len(answers)
    assert sorted(message.body for message in received) == sorted(bodies)
    (delayed,) = [message for message in received if message.body == bodies[0]]
    (sent,) = [answer for answer in answers if answer.body == bodies[0]]
    assert delayed.started_at_ms - sent.at_ms >= 5000 - PRECISION_MS
    # Where it waited is the broker's business: the consumer sees a message of its topic.
    assert 0 <= delayed.queue_id < 3


def test_messages_with_delay_levels_come_at_their_time_and_in_its_order(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("levels", 1), broker.unique("levels")
    plan = [("level=2", "5 s"), ("level=1", "1 s"), ("n=1", "now")]
    with anyclients.concurrent_consumer(broker.name_server, topic, group) as consumer:
        consumer.wait_for_event("started", CONSUME_TIMEOUT_S)
        sent = anyclients.send(broker.name_server, topic, plan)
        received = consumer.wait_for_messages(len(plan), CONSUME_TIMEOUT_S)

    assert [message.body for message in received] == ["now", "1 s", "5 s"]
    assert received[1].started_at_ms - sent[1].at_ms >= 1000 - PRECISION_MS
    assert received[2].started_at_ms - sent[0].at_ms >= 5000 - PRECISION_MS


def test_delayed_messages_come_at_their_time_and_in_its_order(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic, group = broker.create_topic("delayed", 1), broker.unique("delayed")
    with javaclients.concurrent_consumer(broker.name_server, topic, group) as consumer:
        started = consumer.wait_for_event("started", CONSUME_TIMEOUT_S)[0]["at"]
        at = started + 9000
        plan = [("level=2", "5 s"), ("after=3000", "3 s"), ("n=1", "now"), (f"at={at}", "9 s")]
        sent = javaclients.send(broker.name_server, topic, plan)
        received = consumer.wait_for_messages(len(plan), CONSUME_TIMEOUT_S)

    assert [message.body for message in received] == ["now", "3 s", "5 s", "9 s"]
    assert received[1].started_at_ms - sent[1].at_ms >= 3000 - 2 * PRECISION_MS
    assert received[2].started_at_ms - sent[0].at_ms >= 5000 - PRECISION_MS
    assert received[3].started_at_ms >= at - PRECISION_MS
