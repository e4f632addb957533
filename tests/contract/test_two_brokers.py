"""A RocketMQ of two brokers: whose queues come in which order, and what the death of one costs."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from tests.support.brokers import unique_name
from tests.support.promises import proves
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered.client import (
    Client,
    ConsumeResult,
    ConsumerSettings,
    LeaseKeeper,
    MessageBatch,
    OrderedConsumer,
    OrderedProducer,
    QueueReader,
    ReadPlan,
)
from rmq_ordered.errors import QueueLeaseLost, RmqOrderedError, TopicNotFound, TransportError
from rmq_ordered.model import MessageQueue, QueueRange, SendResult
from rmq_ordered.options import SourceOptions
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.spark.ownership import SourceRun

pytestmark = pytest.mark.proof

PUT_KV_CONFIG = 100
DEADLINE_S = 30.0


@pytest.fixture
def client(pair: RocketMq) -> Iterator[Client]:
    with Client(pair.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def topic(client: Client) -> str:
    """A topic with two queues on either broker."""
    name = unique_name("orders")
    client.broker.create_topic(name, 2)
    wait_until(lambda: has_queues(client, name, 4), "both brokers have the topic", DEADLINE_S)
    return name


def has_queues(client: Client, topic: str, count: int) -> bool:
    client.routes.forget(topic)
    try:
        return len(client.routes.readable(topic)) == count
    except (TopicNotFound, TransportError):
        return False


def places(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}#{queue.queue_id}" for queue in queues]


def declare_order(client: Client, name_server: str, topic: str, conf: str) -> None:
    fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": conf}
    request = RemotingCommand(PUT_KV_CONFIG, ext_fields=fields)
    assert client.remoting.call(name_server, request, "an order conf", 5_000).code == 0
    client.routes.forget(topic)


def key_of(producer: OrderedProducer, broker_name: str) -> str:
    keys = (f"order-{number}" for number in range(100))
    return next(key for key in keys if producer.queue_of(key).broker_name == broker_name)


def values(client: Client, queue: MessageQueue, end: int) -> list[bytes]:
    batches = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, end)))
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_queues_come_sorted_by_broker_name_then_queue_id(client: Client, topic: str) -> None:
    expected = ["broker-a#0", "broker-a#1", "broker-b#0", "broker-b#1"]
    assert places(client.routes.readable(topic)) == expected
    assert places(client.routes.writable(topic)) == expected


def test_a_declared_order_of_queues_is_the_order_that_selectors_see(
    pair: RocketMq, client: Client, topic: str
) -> None:
    declare_order(client, pair.name_server, topic, "broker-b:2;broker-a:1")
    assert places(client.routes.writable(topic)) == ["broker-b#0", "broker-b#1", "broker-a#0"]
    assert len(client.routes.readable(topic)) == 4


def test_offsets_of_all_queues_are_told_and_committed_wherever_they_live(
    client: Client, topic: str
) -> None:
    producer = OrderedProducer(client, topic)
    producer.send_all({queue: [producer.message(b"m")] for queue in producer.queues})

    def ends() -> list[int]:
        spans = client.broker.topic_stats(topic)
        return [spans[queue].maximum for queue in producer.queues]

    # RocketMQ tells of a message once its queue knows it, a little after the send was answered.
    wait_until(lambda: ends() == [1] * 4, "every queue tells of its message", DEADLINE_S)
    group = unique_name("group")
    client.broker.heartbeat("me", group, [topic])
    positions = {queue: number for number, queue in enumerate(producer.queues)}
    client.broker.commit_offsets(group, positions)
    assert client.broker.committed_offsets(group, producer.queues) == positions


@proves("broker-death-is-local")
def test_the_death_of_a_broker_costs_its_own_queues_only_until_it_is_back(
    pair: RocketMq, client: Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    declare_order(client, pair.name_server, topic, "broker-a:2;broker-b:2")
    producer = OrderedProducer(client, topic, send_timeout_ms=1_000)
    pinned = producer.queues
    here, there = key_of(producer, "broker-a"), key_of(producer, "broker-b")
    for key in (here, there):
        producer.send(key, b"before")
    source = SourceRun(source_options(pair, topic))
    source.own(source.spans())
    keeper = LeaseKeeper(client.broker, client.clock, unique_name("group"), "me")
    keeper.acquire([queue for queue in pinned if queue.broker_name == "broker-a"], 5_000)

    pair.kill_broker("broker-b")

    away = f"broker-b|{pair.address_of('broker-b')}"
    with pytest.raises(RmqOrderedError, match=away):
        producer.send(there, b"lost")
    producer.send(here, b"meanwhile")
    keeper.renew()
    keeper.ensure_held()
    client.routes.forget(topic)
    assert places(client.routes.unreachable(topic)) == ["broker-b#0", "broker-b#1"]
    assert f"{topic}@broker-b#0, {topic}@broker-b#1" in caplog.text
    with pytest.raises(TransportError, match=f"2 queues of topic {topic} have no master"):
        client.routes.ensure_complete(topic)
    # It waits, with the route from before and with the one that lacks the broker; on a slow
    # machine until its lease there is over.
    with pytest.raises((TransportError, QueueLeaseLost), match=away):
        source.spans()
    source.close()
    assert values(client, producer.queue_of(here), 2) == [b"before", b"meanwhile"]
    assert (producer.queues, client.routes.writable(topic)) == (pinned, pinned)

    pair.restart_broker("broker-b")

    wait_until(lambda: has_queues(client, topic, 4), "the queues are back", DEADLINE_S)
    assert client.routes.unreachable(topic) == ()
    sent = wait_until(lambda: try_send(producer, there), "the broker takes messages", DEADLINE_S)
    assert sent.queue == producer.queue_of(there)
    assert values(client, sent.queue, 2) == [b"before", b"after"]
    source = SourceRun(source_options(pair, topic))
    assert source.spans()[sent.queue].maximum >= 2
    source.close()
    keeper.ensure_held()
    keeper.release()


Handled = list[tuple[MessageQueue, bytes]]


def member(client: Client, group: str, topic: str, handled: Handled) -> OrderedConsumer:
    def handle(batch: MessageBatch) -> ConsumeResult:
        handled.extend((batch.queue, message.body) for message in batch)
        return ConsumeResult.SUCCESS

    settings = ConsumerSettings(rebalance_ms=500, heartbeat_ms=1_000, commit_ms=100)
    return OrderedConsumer(client, group, [topic], handle, settings)


@contextmanager
def killed(pair: RocketMq, broker_name: str) -> Iterator[None]:
    """Its connections end, and the name server drops it."""
    pair.kill_broker(broker_name)
    try:
        yield
    finally:
        pair.restart_broker(broker_name)


@contextmanager
def frozen(pair: RocketMq, broker_name: str) -> Iterator[None]:
    """Its connections stay and nothing is answered; the name server still has it in its routes."""
    pair.signal_broker(signal.SIGSTOP, broker_name)
    try:
        yield
    finally:
        pair.signal_broker(signal.SIGCONT, broker_name)


@proves("dead-broker-is-local")
@pytest.mark.parametrize("away", [killed, frozen])
def test_members_share_the_queues_of_the_broker_that_lives_when_the_other_is_away(
    pair: RocketMq,
    client: Client,
    topic: str,
    away: Callable[[RocketMq, str], AbstractContextManager[None]],
) -> None:
    producer = OrderedProducer(client, topic)
    here, there = key_of(producer, "broker-a"), key_of(producer, "broker-b")
    living = {queue for queue in producer.queues if queue.broker_name == "broker-a"}
    group, handled = unique_name("group"), Handled()
    with (
        Client(pair.name_server, request_timeout_ms=2_000) as one_client,
        Client(pair.name_server, request_timeout_ms=2_000) as other_client,
    ):
        pairs = (one_client, other_client)
        members = [member(each, group, topic, handled).start() for each in pairs]
        wait_until(lambda: are_shared(members, topic), "each has its share", 2 * DEADLINE_S)
        for key in (here, there):
            producer.send(key, b"before")
        wait_until(lambda: len(handled) == 2, "both are handled", DEADLINE_S)
        leaves, stays = sorted(members, key=lambda one: not living & one.queues)
        with away(pair, "broker-b"):
            producer.send(here, b"meanwhile")
            wait_until(lambda: len(handled) == 3, "the living broker goes on", DEADLINE_S)
            leaves.close(timeout_s=10)
            wait_until(lambda: living <= stays.queues, "its queues are taken over", 2 * DEADLINE_S)
            producer.send(here, b"after")
            wait_until(lambda: len(handled) == 4, "the new owner handles them", DEADLINE_S)
        stays.close()
    of_here = [body for queue, body in handled if queue == producer.queue_of(here)]
    assert of_here == [b"before", b"meanwhile", b"after"]
    wait_until(lambda: has_queues(client, topic, 4), "the queues are back", DEADLINE_S)


def are_shared(members: list[OrderedConsumer], topic: str) -> bool:
    counts = [sum(queue.topic == topic for queue in one.queues) for one in members]
    return counts == [2, 2]


def source_options(pair: RocketMq, topic: str) -> SourceOptions:
    given = {"nameServer": pair.name_server, "subscribe": topic, "group": unique_name("group")}
    return SourceOptions.parse(given, streaming=True)


def try_send(producer: OrderedProducer, key: str) -> SendResult | None:
    try:
        return producer.send(key, b"after")
    except TransportError:
        return None
