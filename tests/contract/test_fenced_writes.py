"""Who lost a queue stores nothing more of what it read there."""

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.contract.divergences import diverges
from tests.support.brokers import Broker
from tests.support.promises import proves

from rmq_ordered.client import Client, LeaseKeeper, OrderedProducer, QueueReader, SendSettings
from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.errors import WriteFenced
from rmq_ordered.model import MessageQueue, QueueRange, SendStream

ROWS = pa.record_batch({"key": ["a", "b"], "value": [b"0", b"1"]})
STREAMS = pytest.mark.parametrize(
    "stream", [SendStream("sink", 1, 0), None], ids=["stamped", "plain"]
)


@pytest.fixture
def output(broker: Broker, client: Client) -> str:
    name = broker.unique("output")
    client.broker.create_topic(name, 1)
    return name


def read_all(client: Client, keeper: LeaseKeeper, run: str, queues: list[MessageQueue]) -> None:
    """Read the queues under the keeper's leases, in the name of a run."""
    for queue in queues:
        lease, end = keeper.lease(queue), client.broker.max_offset(queue)
        features = client.routes.features(queue.topic)
        plan = ReadPlan(QueueRange(queue, 0, end), keeper.group, lease, features, run=run)
        rows = sum(part.num_rows for part in QueueReader(client).read(plan))
        assert rows == end


def write(client: Client, topic: str, run: str, stream: SendStream | None) -> int:
    """How many rows were stored."""
    sender = OrderedProducer(client, topic, settings=SendSettings(run=run))
    with sender.writer(stream) as writer:
        writer.write(ROWS)
        return sum(receipt.count for receipt in writer.finish().values())


@STREAMS
@proves("former-owner-writes-nothing")
def test_a_run_whose_queue_somebody_else_has_stores_nothing(
    broker: Broker,
    client: Client,
    output: str,
    stream: SendStream | None,
    request: pytest.FixtureRequest,
) -> None:
    diverges(request, broker, "fenced writes")
    topic, group = broker.unique("input"), broker.unique("group")
    client.broker.create_topic(topic, 2)
    queues = list(client.routes.readable(topic))
    run, next_run = broker.unique("run"), broker.unique("run")
    OrderedProducer(client, topic).send("a", b"0")
    former = LeaseKeeper(client.broker, client.clock, group, "former")
    former.acquire(queues, 10_000)
    read_all(client, former, run, queues)
    later = stream and replace(stream, batch=2)
    assert write(client, output, run, stream) == 2
    # A queue that it gives back while it goes on is no loss; one that it loses is.
    former.give_back(queues[:1], run_goes_on=True)
    assert write(client, output, run, later) == 2
    former.release()
    following = LeaseKeeper(client.broker, client.clock, group, "following")
    following.acquire(queues, 10_000)
    read_all(client, following, next_run, queues)
    latest = stream and replace(stream, batch=3)
    with pytest.raises(WriteFenced):
        write(client, output, run, latest)
    assert [span.maximum for span in client.broker.topic_stats(output).values()] == [4]
    assert write(client, output, next_run, latest) == 2
    assert (
        write(client, output, broker.unique("stranger"), latest and replace(latest, batch=4)) == 2
    )
    following.release()
