"""Apache's Java consumers without order: retries, dead letters, filters, broadcasts, POP."""

import itertools

import pytest
from tests.clients.order import dead_letters, keyed_messages, wait_until_all_committed
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients
from tests.support.promises import proves
from tests.support.waiting import wait_until

CONSUME_TIMEOUT_S = 60.0
ALWAYS = 1_000
INVISIBLE_MS = 5_000  # the shortest that Apache's client takes
RETRY_DELAY_MS = 1_000  # the shortest level, which the listener asks for


def test_a_concurrent_consumer_handles_everything_and_commits(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("concurrent", 4), broker.unique("concurrent")
    pairs = keyed_messages(keys=8, each=10)
    sent = anyclients.send_ordered(broker.name_server, topic, pairs)

    with anyclients.concurrent_consumer(broker.name_server, topic, group) as consumer:
        received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)
        wait_until_all_committed(broker, group, topic, sent)

    assert sorted(message.body for message in received) == sorted(value for _, value in pairs)


def test_refused_messages_come_back_through_the_retry_topic_until_they_are_dead_letters(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("retried", 1), broker.unique("retried")
    messages = [("key=k1", "bad"), ("n=2", "once"), ("n=3", "good")]
    sent = anyclients.send(broker.name_server, topic, messages)

    with anyclients.concurrent_consumer(
        broker.name_server,
        topic,
        group,
        refuse={"bad": ALWAYS, "once": 1},
        max_reconsume_times=2,
    ) as consumer:
        received = consumer.wait_for_messages(2, CONSUME_TIMEOUT_S)
        (dead,) = dead_letters(broker, anyclients, group)

    (again,) = [message for message in received if message.body == "once"]
    assert again.reconsume_times == 1
    tries = [message for message in consumer.suspended if message.body == "bad"]
    assert [message.reconsume_times for message in tries] == [0, 1, 2]
    for before, after in itertools.pairwise(tries):
        assert after.started_at_ms - before.ended_at_ms >= RETRY_DELAY_MS - 1
    retries = frames.pull(broker.broker_address, f"%RETRY%{group}", 0, 0).body
    assert (retries.count(b"bad"), retries.count(b"once")) == (2, 1)
    assert (dead.body, dead.reconsume_times, dead.properties["KEYS"]) == ("bad", 3, "k1")
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent[0].offset_message_id
    assert dead.properties["RETRY_TOPIC"] == topic


def test_tags_and_sql_filters_let_through_what_they_name(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic = broker.create_topic("filtered", 2)
    messages = [(f"tag={'ABC'[size % 3]};size={size}", f"size {size}") for size in range(10)]
    anyclients.send(broker.name_server, topic, messages)

    def start(**wanted: str) -> Consumer:
        group = broker.unique("filtered")
        return anyclients.concurrent_consumer(broker.name_server, topic, group, **wanted)

    with (
        start(tags="A || C") as by_tags,
        start(sql="size BETWEEN 3 AND 5 OR (size > 7 AND TAGS IN ('A'))") as by_sql,
    ):
        by_tags.wait_for_messages(7, CONSUME_TIMEOUT_S)
        by_sql.wait_for_messages(4, CONSUME_TIMEOUT_S)

    assert bodies(by_tags) == [f"size {size}" for size in (0, 2, 3, 5, 6, 8, 9)]
    assert bodies(by_sql) == [f"size {size}" for size in (3, 4, 5, 9)]


def test_every_member_of_a_broadcast_group_gets_everything_and_keeps_its_own_offsets(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("broadcast", 2), broker.unique("broadcast")
    first, second = keyed_messages(keys=4, each=3), keyed_messages(keys=4, each=3, first=3)
    anyclients.send_ordered(broker.name_server, topic, first)

    def start(instance: str) -> Consumer:
        return anyclients.concurrent_consumer(
            broker.name_server, topic, group, broadcast=True, instance=instance
        )

    with start("one") as one, start("two") as two:
        for member in (one, two):
            member.wait_for_messages(len(first), CONSUME_TIMEOUT_S)
    anyclients.send_ordered(broker.name_server, topic, second)
    with start("one") as again:
        again.wait_for_messages(len(second), CONSUME_TIMEOUT_S)

    assert bodies(one) == bodies(two) == sorted(value for _, value in first)
    assert bodies(again) == sorted(value for _, value in second)
    for queue_id in range(2):
        committed = frames.committed_offset(broker.broker_address, group, topic, queue_id)
        assert committed is None


@pytest.mark.parametrize(
    "refused",
    # It comes again after half a minute.
    [0, pytest.param(1, marks=pytest.mark.proof)],
    ids=["all handled", "one refused once"],
)
def test_a_consumer_that_the_broker_switched_to_pop_handles_everything(
    broker: Broker, javaclients: JavaClients, refused: int
) -> None:
    topic, group = broker.create_topic("popped", 2), broker.unique("popped")
    switch_to_pop(broker, javaclients, topic, group)
    pairs = keyed_messages(keys=4, each=5)
    javaclients.send_ordered(broker.name_server, topic, pairs)

    with javaclients.concurrent_consumer(
        broker.name_server, topic, group, server_rebalance=True, refuse={"order-1#2": refused}
    ) as consumer:
        received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)

    assert sorted(message.body for message in received) == sorted(value for _, value in pairs)
    assert len(consumer.suspended) == refused


@proves("pop-killed-consumer")
def test_what_a_killed_consumer_had_popped_comes_to_the_others_after_its_time(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic, group = broker.create_topic("popped", 1), broker.unique("popped")
    switch_to_pop(broker, javaclients, topic, group)
    pairs = keyed_messages(keys=2, each=5)
    javaclients.send_ordered(broker.name_server, topic, pairs)

    def start(**options: object) -> Consumer:
        return javaclients.concurrent_consumer(
            broker.name_server, topic, group, server_rebalance=True, **options
        )

    stuck = start(stuck=True, invisible_ms=INVISIBLE_MS)
    wait_until(lambda: len(set(stuck.held)) == len(pairs), "all is held", CONSUME_TIMEOUT_S)
    stuck.kill()
    bodies_sent = [value for _, value in pairs]
    with start() as one, start() as other:

        def have_both_worked() -> bool:
            if not (one.received and other.received):
                more = [(key, f"{value} again {len(bodies_sent)}") for key, value in pairs]
                javaclients.send_ordered(broker.name_server, topic, more)
                bodies_sent.extend(value for _, value in more)
            return bool(one.received and other.received)

        wait_until(have_both_worked, "both consumers share the queue", CONSUME_TIMEOUT_S)
        wait_until(
            lambda: len(one.received) + len(other.received) >= len(bodies_sent),
            "everything was handled",
            CONSUME_TIMEOUT_S,
        )
    received = one.received + other.received
    # Each once: none of those that were handled, and so acknowledged, came a second time.
    assert sorted(message.body for message in received) == sorted(bodies_sent)
    times = {message.body: message.reconsume_times for message in received}
    assert all(times[value] >= 1 for _, value in pairs)


def switch_to_pop(broker: Broker, javaclients: JavaClients, topic: str, group: str) -> None:
    """Let all members of a group pop all queues of a topic."""
    cluster = javaclients.mqadmin(broker.name_server, "clusterList").splitlines()[1].split()[0]
    javaclients.mqadmin(broker.name_server, "updateSubGroup", "-c", cluster, "-g", group)
    mode = ["-c", cluster, "-t", topic, "-g", group, "-m", "POP", "-q", "8"]
    javaclients.mqadmin(broker.name_server, "setConsumeMode", *mode)


def bodies(consumer: Consumer) -> list[str]:
    return sorted(message.body for message in consumer.received)
