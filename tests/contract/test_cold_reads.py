"""Messages that a broker reads from its disk: fewer per pull on RocketMQ, the same rows."""

from collections.abc import Iterator

import pytest
from tests.support.brokers import Broker
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import MessageQueue, QueueRange
from rmq_ordered.protocol.pulls import PullLimits, parse_pull, pull_request

COUNT = 2_000


@pytest.fixture(scope="module", params=["embedded", "rocketmq"])
def cold_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that takes all its messages to be on disk; the embedded one knows no difference."""
    if request.param == "embedded":
        with EmbeddedBroker() as embedded:
            yield Broker(embedded.name_server, embedded.name_server, "embedded")
        return
    try:
        with RocketMq(
            {"accessMessageInMemoryMaxRatio": "0", "enablePropertyFilter": "true"}
        ) as cluster:
            yield Broker(cluster.name_server, cluster.broker_address, "rocketmq")
    except ToolUnavailable as missing:
        give_up(missing)


@pytest.fixture
def client(cold_broker: Broker) -> Iterator[Client]:
    with Client(cold_broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def queue(cold_broker: Broker, client: Client) -> MessageQueue:
    producer = OrderedProducer(client, cold_broker.create_topic("cold", 1))
    (filled,) = producer.queues
    messages = [
        producer.message(b"%d" % n, key="k", tags="seventh" if n % 7 == 0 else "other")
        for n in range(COUNT)
    ]
    producer.send_all({filled: messages})
    wait_until(lambda: client.broker.max_offset(filled) >= COUNT, f"{filled} is all there", 10)
    return filled


def read(
    client: Client, queue: MessageQueue, start: int, end: int, **filters: str
) -> tuple[list[int], list[int]]:
    features = client.routes.features(queue.topic)
    plan = ReadPlan(QueueRange(queue, start, end), features=features, **filters)
    batches = list(QueueReader(client).read(plan))
    rows = [row for batch in batches for row in batch.select(["offset", "value"]).to_pylist()]
    assert all(int(row["value"]) == row["offset"] for row in rows)
    return [row["offset"] for row in rows], [batch.num_rows for batch in batches]


@pytest.mark.proof
def test_a_stock_broker_gives_eight_messages_from_its_disk(
    cold_broker: Broker, client: Client, queue: MessageQueue
) -> None:
    request = pull_request(queue, 0, group="g", limits=PullLimits(32))
    pulled = parse_pull(client.broker.start(queue, request, "a pull", 15_000).result())
    assert pulled.next_offset == (32 if cold_broker.kind == "embedded" else 8)


@pytest.mark.proof
@pytest.mark.parametrize(("start", "end"), [(0, COUNT), (3, 1_717)])
def test_a_cold_range_comes_whole_and_in_batches_worth_their_handling(
    client: Client, queue: MessageQueue, start: int, end: int
) -> None:
    offsets, sizes = read(client, queue, start, end)
    assert offsets == list(range(start, end))
    assert all(size >= 1_000 for size in sizes[:-1])


@pytest.mark.proof
@pytest.mark.parametrize(
    "filters",
    [{"expression": "seventh"}, {"expression": "TAGS = 'seventh'", "expression_type": "SQL92"}],
    ids=["tag", "SQL92"],
)
def test_a_cold_range_can_be_filtered(
    client: Client, queue: MessageQueue, filters: dict[str, str]
) -> None:
    offsets, _ = read(client, queue, 5, 1_900, **filters)
    assert offsets == list(range(7, 1_900, 7))
