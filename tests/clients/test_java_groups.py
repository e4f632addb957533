"""Apache's Java consumers when an operator sets the offsets of their group back."""

from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.waiting import wait_until

# A running client that is told to reset stops its queues for 10 s before it goes on.
CONSUME_TIMEOUT_S = 60.0
EPOCH = "0"


def test_a_group_starts_over_from_a_time_while_its_consumer_runs_and_while_it_is_stopped(
    broker: Broker, anyclients: JavaClients
) -> None:
    topic, group = broker.create_topic("reset", 1), broker.unique("reset")
    early = anyclients.send(broker.name_server, topic, [("n=1", f"early {n}") for n in range(3)])
    after_early = early[-1].at_ms + 1  # the next send comes from a JVM that has yet to start
    anyclients.send(broker.name_server, topic, [("n=1", f"late {n}") for n in range(2)])

    def reset(time: str) -> str:
        arguments = ["-g", group, "-t", topic, "-s", time]
        return anyclients.mqadmin(broker.name_server, "resetOffsetByTime", *arguments)

    def committed() -> int | None:
        return frames.committed_offset(broker.broker_address, group, topic, 0)

    with anyclients.concurrent_consumer(broker.name_server, topic, group) as consumer:
        consumer.wait_for_messages(5, CONSUME_TIMEOUT_S)
        wait_until(lambda: committed() == 5, "the group has committed all", CONSUME_TIMEOUT_S)
        printed = reset(str(after_early))
        running = consumer.wait_for_messages(7, CONSUME_TIMEOUT_S)[5:]
        wait_until(lambda: committed() == 5, "the group is at the end again", CONSUME_TIMEOUT_S)

    assert topic in printed
    assert sorted(message.body for message in running) == ["late 0", "late 1"]

    reset(EPOCH)

    assert committed() == 0
    with anyclients.concurrent_consumer(broker.name_server, topic, group) as consumer:
        stopped = consumer.wait_for_messages(5, CONSUME_TIMEOUT_S)
    assert [message.body for message in sorted(stopped, key=lambda m: m.queue_offset)] == [
        *(f"early {n}" for n in range(3)),
        *(f"late {n}" for n in range(2)),
    ]
