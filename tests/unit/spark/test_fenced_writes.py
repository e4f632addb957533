"""Runs in requests: where a broker fences their writes, and only there."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from rmq_ordered.client import Client, LeaseKeeper, OrderedProducer, QueueReader, SendSettings
from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.errors import QueueLeaseLost, WriteFenced
from rmq_ordered.model import MessageQueue, QueueRange, SendStream
from rmq_ordered.protocol.codes import (
    FEATURE_FENCED_WRITE,
    FEATURE_IDEMPOTENT_SEND,
    FEATURE_LEASE_EPOCH,
    FEATURE_STAMPED_REQUEST,
    RequestCode,
)
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import ClusterDouble, DropReply

BEFORE = frozenset({FEATURE_LEASE_EPOCH, FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST})
NOW = BEFORE | {FEATURE_FENCED_WRITE}
RUN = "query-1/run-1"
ROWS = pa.record_batch({"key": ["a", "b", "a"], "value": [b"0", b"1", b"2"]})


@pytest.fixture(params=[NOW, BEFORE, frozenset()], ids=["fenced", "older", "rocketmq"])
def cluster(request: pytest.FixtureRequest) -> ClusterDouble:
    cluster = ClusterDouble(features=request.param)
    for queue in cluster.brokers[0].add_topic("orders", 2):
        cluster.brokers[0].fill(queue, 10)
    return cluster


def is_fenced(cluster: ClusterDouble) -> bool:
    return FEATURE_FENCED_WRITE in cluster.brokers[0].features


def seen(cluster: ClusterDouble, *codes: RequestCode) -> list[RemotingCommand]:
    return [request for code in codes for request in cluster.network.requests(code)]


def named(cluster: ClusterDouble, *codes: RequestCode) -> set[str | None]:
    """The runs that requests of these kinds named."""
    return {(request.ext_fields or {}).get("run") for request in seen(cluster, *codes)}


def write(client: Client, stream: SendStream | None, **settings: Any) -> None:
    sender = OrderedProducer(client, "orders", settings=SendSettings(**settings))
    with sender.writer(stream) as writer:
        writer.write(ROWS)
        writer.finish()


SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
STREAMS = pytest.mark.parametrize(
    "stream", [SendStream("sink", 1, 0), None], ids=["stamped", "plain"]
)


@STREAMS
def test_sends_name_their_run_where_that_means_something(
    cluster: ClusterDouble, client: Client, stream: SendStream | None
) -> None:
    write(client, stream, run=RUN)
    assert named(cluster, *SENDS) == {RUN if is_fenced(cluster) else None}


def test_sends_of_no_run_name_none(cluster: ClusterDouble, client: Client) -> None:
    write(client, SendStream("sink", 1, 0))
    assert named(cluster, *SENDS) == {None}


@STREAMS
@pytest.mark.parametrize("cluster", [NOW], indirect=True)
def test_a_refused_write_fails_at_once_with_what_to_do(
    cluster: ClusterDouble, client: Client, stream: SendStream | None
) -> None:
    cluster.brokers[0].fenced_runs.add(RUN)
    before = cluster.clock.monotonic_ms()
    with pytest.raises(WriteFenced, match="run query-1/run-1 lost a queue") as caught:
        write(client, stream, run=RUN)
    assert not caught.value.retryable
    assert cluster.clock.monotonic_ms() - before < 1_000
    assert [queue.maximum for queue in cluster.brokers[0].queues.values()] == [10, 10]


@pytest.fixture
def plan(cluster: ClusterDouble, client: Client) -> ReadPlan:
    queue = MessageQueue("orders", "broker-a", 0)
    keeper = LeaseKeeper(client.broker, client.clock, "billing", "c1")
    keeper.acquire([queue], 1_000)
    lease = keeper.lease(queue)
    return ReadPlan(
        QueueRange(queue, 0, 10), "billing", lease, cluster.brokers[0].features, run=RUN
    )


def test_pulls_under_a_lease_name_their_run(
    cluster: ClusterDouble, client: Client, plan: ReadPlan
) -> None:
    assert sum(rows.num_rows for rows in QueueReader(client).read(plan)) == 10
    assert named(cluster, RequestCode.PULL_MESSAGE) == {RUN if is_fenced(cluster) else None}


def test_pulls_without_a_lease_name_no_run(
    cluster: ClusterDouble, client: Client, plan: ReadPlan
) -> None:
    list(QueueReader(client).read(replace(plan, lease=None)))
    assert named(cluster, RequestCode.PULL_MESSAGE) == {None}


def test_a_lease_that_ended_after_the_last_pull_is_noticed_by_the_last_look(
    cluster: ClusterDouble, client: Client, plan: ReadPlan
) -> None:
    reader = QueueReader(client)
    list(reader.read(plan))
    reader.ensure_leased(plan)
    cluster.brokers[0].locks.unlock("billing", "c1", plan.range.queue)
    if FEATURE_LEASE_EPOCH not in cluster.brokers[0].features:
        reader.ensure_leased(plan)
        return
    with pytest.raises(QueueLeaseLost, match="the epoch is 1"):
        reader.ensure_leased(plan)


def test_what_is_given_back_while_the_run_goes_on_is_marked_and_nothing_else(
    cluster: ClusterDouble, client: Client
) -> None:
    queues = client.routes.readable("orders")
    keeper = LeaseKeeper(client.broker, client.clock, "billing", "c1")
    keeper.try_acquire(queues)
    keeper.give_back(queues[:1], run_goes_on=True)
    keeper.release()
    marks = [
        json.loads(request.body).get("runGoesOn")
        for request in seen(cluster, RequestCode.UNLOCK_BATCH_MQ)
    ]
    assert marks == [True, None]


def test_an_unlock_without_an_answer_is_repeated_with_its_mark(
    cluster: ClusterDouble, client: Client
) -> None:
    queues = client.routes.readable("orders")
    keeper = LeaseKeeper(client.broker, client.clock, "billing", "c1")
    keeper.try_acquire(queues)
    cluster.network.arm(DropReply(cluster.clock, 4_000), RequestCode.UNLOCK_BATCH_MQ)
    keeper.give_back(queues[:1], run_goes_on=True)
    keeper.try_acquire(queues)
    marks = [
        json.loads(request.body).get("runGoesOn")
        for request in seen(cluster, RequestCode.UNLOCK_BATCH_MQ)
    ]
    assert marks == [True, True]
