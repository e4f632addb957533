"""Apache's Java consumers: per-key order, offsets, retries in place, hand-over between owners."""

from collections import defaultdict

import pytest
from tests.clients.order import (
    assert_first_deliveries_follow_send_order,
    assert_one_owner_at_a_time,
    assert_queue_offsets_rise,
    dead_letters,
    keyed_messages,
    wait_until_all_committed,
    wait_until_assigned,
)
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients
from tests.support.promises import proves
from tests.support.waiting import wait_until

CONSUME_TIMEOUT_S = 60.0
ALWAYS = 1_000


@pytest.mark.both_brokers
@proves("java-clients-work")
def test_an_orderly_consumer_handles_every_key_in_order_and_commits(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("orderly", 4), broker.unique("orderly")
    pairs = keyed_messages(keys=8, each=10)
    sent = anyclients.send_ordered(broker.name_server, topic, pairs)

    with anyclients.orderly_consumer(broker.name_server, topic, group) as consumer:
        received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)
        wait_until_all_committed(broker, group, topic, sent)

    assert len(received) == len(pairs)
    assert_queue_offsets_rise(received)
    assert_first_deliveries_follow_send_order(received, pairs)


def test_a_restarted_orderly_consumer_goes_on_where_its_group_stopped(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("resumed", 2), broker.unique("resumed")
    before = keyed_messages(keys=4, each=5)
    sent = anyclients.send_ordered(broker.name_server, topic, before)
    with anyclients.orderly_consumer(broker.name_server, topic, group) as consumer:
        consumer.wait_for_messages(len(before), CONSUME_TIMEOUT_S)
        wait_until_all_committed(broker, group, topic, sent)

    after = keyed_messages(keys=4, each=5, first=5)
    anyclients.send_ordered(broker.name_server, topic, after)
    with anyclients.orderly_consumer(broker.name_server, topic, group) as consumer:
        received = consumer.wait_for_messages(len(after), CONSUME_TIMEOUT_S)

    assert_first_deliveries_follow_send_order(received, after)


def test_a_refused_message_is_retried_in_place_and_a_poisonous_one_becomes_a_dead_letter(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("refused", 2), broker.unique("refused")
    # order-0 and order-1 select different queues of two.
    pairs = keyed_messages(keys=2, each=5)
    sent = anyclients.send_ordered(broker.name_server, topic, pairs)

    with anyclients.orderly_consumer(
        broker.name_server,
        topic,
        group,
        refuse={"order-0#2": 3, "order-1#1": ALWAYS},
        max_reconsume_times=3,
    ) as consumer:
        received = consumer.wait_for_messages(len(pairs) - 1, CONSUME_TIMEOUT_S)
        (dead,) = dead_letters(broker, anyclients, group)
        wait_until_all_committed(broker, group, topic, sent)

    refused: dict[str, list[int]] = defaultdict(list)
    for message in consumer.suspended:
        refused[message.body].append(message.reconsume_times)
    assert refused == {"order-0#2": [0, 1, 2], "order-1#1": [0, 1, 2, 3]}
    (retried,) = [message for message in received if message.body == "order-0#2"]
    assert retried.reconsume_times == 3
    handled = [pair for pair in pairs if pair[1] != "order-1#1"]
    assert_first_deliveries_follow_send_order(received, handled)
    assert_queue_offsets_rise(message for message in received if message.key == "order-0")
    assert (dead.body, dead.properties["KEYS"]) == ("order-1#1", "order-1")
    assert dead.properties["RETRY_TOPIC"] == topic


def test_two_orderly_consumers_share_the_queues_and_hand_over_when_one_stops(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("shared", 4), broker.unique("shared")

    def start() -> Consumer:
        return anyclients.orderly_consumer(broker.name_server, topic, group, work_ms=20)

    with start() as staying:
        wait_until_assigned(staying, 4)
        leaving = start()
        wait_until_assigned(staying, 2)
        wait_until_assigned(leaving, 2)
        pairs = keyed_messages(keys=8, each=10)
        anyclients.send_ordered(broker.name_server, topic, pairs)
        leaving.wait_for_messages(10, CONSUME_TIMEOUT_S)

        leaving.stop()

        wait_until_assigned(staying, 4)
        wait_until(
            lambda: bodies(staying) | bodies(leaving) == {value for _, value in pairs},
            "every message was handled by one or the other",
            CONSUME_TIMEOUT_S,
        )

    assert_one_owner_at_a_time(staying.received, leaving.received)
    assert_first_deliveries_follow_send_order([*staying.received, *leaving.received], pairs)


def test_a_lite_pull_consumer_reads_every_key_in_order_and_commits(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("lite", 4), broker.unique("lite")
    pairs = keyed_messages(keys=8, each=10)
    sent = anyclients.send_ordered(broker.name_server, topic, pairs)

    with anyclients.lite_pull_consumer(broker.name_server, topic, group) as consumer:
        received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)
        wait_until_all_committed(broker, group, topic, sent)

    assert_queue_offsets_rise(received)
    assert_first_deliveries_follow_send_order(received, pairs)


def test_a_lite_pull_consumer_reads_assigned_queues_seeks_back_and_commits_when_told(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("assigned", 2), broker.unique("assigned")
    # order-0 and order-1 select different queues of two: each has offsets 0 to 5.
    sent = anyclients.send_ordered(broker.name_server, topic, keyed_messages(keys=2, each=6))

    def start(**options: object) -> Consumer:
        return anyclients.lite_pull_consumer(
            broker.name_server, topic, group, assign=True, auto_commit=False, **options
        )

    with start(seek=4, seek_after=12) as consumer:
        received = consumer.wait_for_messages(16, CONSUME_TIMEOUT_S)
        before = offsets_on_broker(broker, group, topic)
        # It commits on its way out, and nobody commits again what RocketMQ forgets of a group's
        # first commits that arrive together. So these are not the first.
        for queue_id in range(2):
            frames.commit_offset(broker.broker_address, group, topic, queue_id, 0)
    wait_until_all_committed(broker, group, topic, sent)
    with start() as consumer:
        found = consumer.wait_for_event("committed", CONSUME_TIMEOUT_S, count=2)

    assert before == [None, None]
    assert {event["queueOffset"] for event in found} == {6}
    for queue_id in range(2):
        offsets = [message.queue_offset for message in received if message.queue_id == queue_id]
        assert offsets == [0, 1, 2, 3, 4, 5, 4, 5]


def test_a_waiting_consumer_is_woken_by_a_send(broker: Broker, anyclients: JavaClients) -> None:
    topic, group = broker.create_topic("long-poll", 1), broker.unique("long-poll")
    with anyclients.orderly_consumer(broker.name_server, topic, group) as consumer:
        wait_until_assigned(consumer, 1)
        anyclients.send_ordered(broker.name_server, topic, [("k", "k#0")])
        consumer.wait_for_messages(1, CONSUME_TIMEOUT_S)

        # The consumer now long-polls; a parked pull that nobody wakes would take 15 s to end.
        (sent,) = anyclients.send_ordered(broker.name_server, topic, [("k", "k#1")])
        received = consumer.wait_for_messages(2, 10)

    assert received[1].queue_offset == sent.queue_offset


def bodies(consumer: Consumer) -> set[str]:
    return {message.body for message in consumer.received}


def offsets_on_broker(broker: Broker, group: str, topic: str) -> list[int | None]:
    address = broker.broker_address
    return [frames.committed_offset(address, group, topic, queue_id) for queue_id in range(2)]
