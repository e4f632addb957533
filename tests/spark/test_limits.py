"""How much a micro-batch takes: the limits on their way through Spark and back to the source."""

from pathlib import Path
from typing import Any

import pytest
from tests.spark.harness import Source, assert_in_order, finish, produce, start_collecting
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer

pytestmark = pytest.mark.parametrize("broker", ["embedded"], indirect=True)

OFTEN = {"processingTime": "200 milliseconds"}
BODY = b"x" * 1_000
# Of one record around its body, at most.
OVERHEAD = 300


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("limited", 2)


def reported(query: Any) -> list[int]:
    """The rows of every batch that had some, as the query's progress has them."""
    return [one.numInputRows for one in query.recentProgress if one.numInputRows]


@proves("limits-of-spark")
def test_a_batch_takes_about_as_many_bytes_as_it_may(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    producer = OrderedProducer(client, topic)
    messages = [producer.message(BODY, key="any") for _ in range(150)]
    producer.send_all(dict.fromkeys(producer.queues, messages))
    query, collected = start_collecting(source.stream(maxBytesPerTrigger="100k"), tmp_path / "cp")
    finish(query)
    assert len(collected.rows) == 300
    sizes = [len(batch) for batch in collected.batches]
    assert all((100 << 10) / (len(BODY) + OVERHEAD) <= size for size in sizes[:-1]), sizes
    assert all(size <= (100 << 10) / len(BODY) for size in sizes), sizes
    assert reported(query) == sizes


@proves("limits-of-spark")
@pytest.mark.parametrize(
    "limits",
    [{"maxOffsetsPerTrigger": 7, "maxBytesPerTrigger": 500}, {"minOffsetsPerTrigger": 1_000}],
)
def test_once_takes_everything_in_one_batch_whatever_the_limits(
    client: Client, topic: str, source: Source, tmp_path: Path, limits: dict[str, int]
) -> None:
    total = produce(client, topic, keys=10, sequences=range(5))
    query, collected = start_collecting(source.stream(**limits), tmp_path / "cp", once=True)
    finish(query)
    assert_in_order(collected.rows, total)
    assert reported(query) == [total]


@proves("limits-of-spark")
def test_a_small_backlog_waits_for_more_or_for_the_delay(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    def run(delay: str) -> tuple[Any, Any]:
        stream = source.stream(minOffsetsPerTrigger=20, maxTriggerDelay=delay)
        return start_collecting(stream, tmp_path / "cp", **OFTEN)

    produce(client, topic, keys=5, sequences=range(1))
    query, held = run("1h")
    try:
        wait_until(lambda: query.lastProgress or query.exception(), "a batch was planned", 180)
        assert held.rows == []
        produce(client, topic, keys=5, sequences=range(1, 5))
        wait_until(lambda: reported(query) or query.exception(), "there was enough", 180)
    finally:
        query.stop()
    assert reported(query) == [25]
    produce(client, topic, keys=5, sequences=range(5, 6))
    query, late = run("1s")
    try:
        wait_until(lambda: reported(query) or query.exception(), "the delay was over", 180)
    finally:
        query.stop()
    assert reported(query) == [5]
    assert_in_order(held.rows + late.rows, 30)
