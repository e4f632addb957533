"""Producer and reader against a cluster double that does its worst.

PerKeyOrder: the messages in each queue are what was sent, in the order it was sent, each once.
NoGapInRange: a read gives every matching offset of its range exactly once, in order.
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.faults import FAULTS, arm
from tests.support.examples import examples

from rmq_ordered.client import (
    OrderedProducer,
    QueueReader,
    ReadPlan,
    SendSettings,
    pulls,
    reader,
)
from rmq_ordered.model import QueueRange
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.testing import ClusterDouble

# The patched limits are the same for every example.
STATEFUL = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)


@STATEFUL
@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    faults=st.lists(FAULTS, max_size=8),
)
def test_per_key_order_survives_any_faults(counts: list[int], faults: list[str | None]) -> None:
    cluster = ClusterDouble()
    broker = cluster.brokers[0]
    queues = broker.add_topic("orders", len(counts))
    arm(cluster, faults, RequestCode.SEND_BATCH_MESSAGE)
    settings = SendSettings(send_timeout_ms=600_000, batch_rows=2)
    with cluster.client() as client:
        sender = OrderedProducer(client, "orders", settings=settings)
        sent = {
            queue: [sender.message(b"%d" % number) for number in range(count)]
            for queue, count in zip(queues, counts, strict=True)
        }
        landed = sender.send_all(sent)
    for queue, messages in sent.items():
        stored = broker.queues[queue].messages
        assert [message.body for message in stored] == [message.body for message in messages]
        assert len({message.properties["UNIQ_KEY"] for message in stored}) == len(messages)
        assert sum(result.count for result in landed[queue]) == len(messages)


@STATEFUL
@given(
    size=st.integers(1, 150),
    bounds=st.tuples(st.integers(0, 150), st.integers(0, 150)),
    caps=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    hidden=st.sets(st.integers(0, 150)),
    filter_scan=st.sampled_from([0, 0, 10, 60, 150]),
    faults=st.lists(FAULTS, max_size=6),
)
def test_no_gap_in_range_whatever_the_broker_does(
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    bounds: tuple[int, int],
    caps: list[int],
    hidden: set[int],
    filter_scan: int,
    faults: list[str | None],
) -> None:
    monkeypatch.setattr(pulls, "_STOCK_DEPTH", 4)
    monkeypatch.setattr(reader, "_CHUNK_OFFSETS", 20)
    start, end = sorted(bound % (size + 1) for bound in bounds)
    cluster = ClusterDouble()
    broker = cluster.brokers[0]
    (queue,) = broker.add_topic("orders", 1)
    broker.fill(queue, size)
    broker.pull_caps = (caps[i % len(caps)] for i in range(1_000_000))
    broker.is_matching = lambda queue_offset: queue_offset not in hidden
    broker.filter_scan = filter_scan
    arm(cluster, faults, RequestCode.PULL_MESSAGE)
    plan = ReadPlan(QueueRange(queue, start, end))
    if hidden:
        plan = replace(plan, expression="colour = 'red'", expression_type="SQL92")
    with cluster.client() as client:
        batches = list(QueueReader(client).read(plan))
    read = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert read == [offset for offset in range(start, end) if offset not in hidden]
    assert all(batch.num_rows for batch in batches)
