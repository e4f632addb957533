"""When something is killed: an owner of queues, another consumer, or the embedded broker itself."""

from pathlib import Path

from tests.clients.conftest import LEASE_MS
from tests.clients.order import (
    assert_first_deliveries_follow_send_order,
    assert_one_owner_at_a_time,
    keyed_messages,
    wait_until_assigned,
)
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients
from tests.support.promises import proves
from tests.support.waiting import DeadlineExceeded, wait_until

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker

# Apache's client may find out only by its time-out of 30 s that a waiting poll is lost, and again
# for the next one; then it needs its queues' locks.
CONSUME_TIMEOUT_S = 120.0
# Brokers count whole milliseconds of their own clock.
ROUNDING_MS = 2


@proves("crashed-owner-one-lease")
def test_the_queues_of_an_owner_that_vanished_are_free_after_one_lease_and_not_before(
    short_leases: Broker,
) -> None:
    topic, group = short_leases.create_topic("vanished", 2), short_leases.unique("vanished")
    with Client(short_leases.name_server, request_timeout_ms=15_000) as client:
        queues = client.routes.readable(topic)
        now_ms = client.clock.monotonic_ms
        before_ms = now_ms()
        assert all(answer.granted for answer in client.broker.lock(group, "vanished", queues))
        ends_ms = now_ms() + LEASE_MS + ROUNDING_MS

        def is_free() -> bool:
            asked_ms = now_ms()
            answers = client.broker.lock(group, "next", queues)
            is_granted = all(answer.granted for answer in answers)
            assert is_granted or asked_ms <= ends_ms, "blocked for longer than a lease"
            return is_granted

        wait_until(is_free, "the queues are free", CONSUME_TIMEOUT_S)
        assert now_ms() - before_ms >= LEASE_MS - ROUNDING_MS


def test_one_consumer_joins_and_is_killed_and_every_message_is_handled_in_order(
    short_leases: Broker, anyclients: JavaClients
) -> None:
    broker = short_leases
    topic, group = broker.create_topic("crash", 4), broker.unique("crash")

    def start() -> Consumer:
        return anyclients.orderly_consumer(broker.name_server, topic, group, work_ms=20)

    survivor = start()
    wait_until_assigned(survivor, 4)
    pairs = keyed_messages(keys=8, each=25)
    anyclients.send_ordered(broker.name_server, topic, pairs)
    killed = start()  # while the other is at work
    wait_until_assigned(killed, 2)
    wait_until_assigned(survivor, 2)
    more = keyed_messages(keys=8, each=25, first=25)
    anyclients.send_ordered(broker.name_server, topic, more)
    killed.wait_for_messages(10, CONSUME_TIMEOUT_S)

    killed.kill()  # while at work, most likely: 40 messages of 20 ms are on each of its queues
    pairs += more
    wait_until_handled(pairs, killed, survivor)

    # What the killed one had not committed comes again; nobody handled it at the same time.
    assert_one_owner_at_a_time(killed.received, survivor.received)
    assert_first_deliveries_follow_send_order([*killed.received, *survivor.received], pairs)


def test_java_clients_outlive_a_crash_of_the_broker(
    javaclients: JavaClients, tmp_path: Path
) -> None:
    data = tmp_path / "broker"
    before, after = keyed_messages(keys=4, each=5), keyed_messages(keys=4, each=5, first=5)
    with EmbeddedBroker(data=data) as first:
        broker = contract_of(first)
        topic, group = broker.create_topic("outlived", 2), broker.unique("outlived")
        javaclients.send_ordered(broker.name_server, topic, before)
        consumer = javaclients.orderly_consumer(broker.name_server, topic, group)
        consumer.wait_for_messages(len(before), CONSUME_TIMEOUT_S)
        first.kill()

    with EmbeddedBroker(data=data, listen=broker.name_server):
        javaclients.send_ordered(broker.name_server, topic, after)
        wait_until_handled([*before, *after], consumer)
        consumer.stop()

    assert_first_deliveries_follow_send_order(consumer.received, [*before, *after])


def contract_of(embedded: EmbeddedBroker) -> Broker:
    return Broker(embedded.name_server, embedded.name_server, "embedded")


def wait_until_handled(pairs: list[tuple[str, str]], *consumers: Consumer) -> None:
    def missing() -> set[str]:
        seen = {message.body for consumer in consumers for message in consumer.received}
        return {value for _, value in pairs} - seen

    try:
        wait_until(
            lambda: not missing(), "every message was handled by somebody", CONSUME_TIMEOUT_S
        )
    except DeadlineExceeded as late:
        late.add_note(f"not handled: {sorted(missing())}")
        raise
