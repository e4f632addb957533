"""Apache's Java consumers that do without order: concurrent listeners, retry topics, POP."""

import pytest
from tests.clients.order import keyed_messages, wait_until_all_committed
from tests.contract.divergences import diverges
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients

CONSUME_TIMEOUT_S = 60.0


def test_a_concurrent_consumer_handles_everything_and_commits(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic, group = broker.create_topic("concurrent", 4), broker.unique("concurrent")
    pairs = keyed_messages(keys=8, each=10)
    sent = javaclients.send_ordered(broker.name_server, topic, pairs)

    with javaclients.concurrent_consumer(broker.name_server, topic, group) as consumer:
        received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)

    assert sorted(message.body for message in received) == sorted(value for _, value in pairs)
    wait_until_all_committed(broker, group, topic, sent)


def test_a_message_refused_by_a_concurrent_consumer_comes_back_through_the_retry_topic(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic, group = broker.create_topic("retried", 1), broker.unique("retried")
    javaclients.send_ordered(broker.name_server, topic, keyed_messages(keys=1, each=3))

    with javaclients.concurrent_consumer(
        broker.name_server, topic, group, fail_body="order-0#1", fail_times=1
    ) as consumer:
        received = consumer.wait_for_messages(3, CONSUME_TIMEOUT_S)

    assert {message.body for message in received} == {"order-0#0", "order-0#1", "order-0#2"}
    (again,) = [message for message in received if message.body == "order-0#1"]
    assert again.reconsume_times == 1
    assert b"order-0#1" in frames.pull(broker.broker_address, f"%RETRY%{group}", 0, 0).body


@pytest.mark.parametrize("refused", [0, 1], ids=["all handled", "one refused once"])
def test_a_consumer_that_the_broker_switched_to_pop_handles_everything(
    request: pytest.FixtureRequest, broker: Broker, javaclients: JavaClients, refused: int
) -> None:
    diverges(request, broker, "pop")
    topic, group = broker.create_topic("popped", 2), broker.unique("popped")
    cluster = javaclients.mqadmin(broker.name_server, "clusterList").splitlines()[1].split()[0]
    javaclients.mqadmin(broker.name_server, "updateSubGroup", "-c", cluster, "-g", group)
    mode = ["-c", cluster, "-t", topic, "-g", group, "-m", "POP", "-q", "8"]
    javaclients.mqadmin(broker.name_server, "setConsumeMode", *mode)
    pairs = keyed_messages(keys=4, each=5)
    javaclients.send_ordered(broker.name_server, topic, pairs)

    with javaclients.concurrent_consumer(
        broker.name_server,
        topic,
        group,
        server_rebalance=True,
        fail_body="order-1#2",
        fail_times=refused,
    ) as consumer:
        received = consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)

    assert sorted(message.body for message in received) == sorted(value for _, value in pairs)
    assert len(consumer.suspended) == refused
