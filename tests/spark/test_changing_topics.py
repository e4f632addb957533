"""Topics that get or lose queues while a query reads them."""

from pathlib import Path

import pytest
from tests.spark.harness import (
    Source,
    assert_in_order,
    collect_available,
    failure_of,
    produce,
    start_collecting,
)
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client

OFTEN = {"processingTime": "500 milliseconds"}


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("changing", 3)


def resize(client: Client, topic: str, queues: int) -> None:
    client.broker.create_topic(topic, queues)

    def is_known() -> bool:
        client.routes.forget(topic)
        return len(client.routes.readable(topic)) == queues

    wait_until(is_known, f"the route of {topic} shows {queues} queues", 20)


def files(checkpoint: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}


@pytest.mark.proof
@proves("added-queues-from-beginning")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_running_query_reads_queues_that_are_added_from_their_beginning(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    first = produce(client, topic, keys=10, sequences=range(3))
    query, collected = start_collecting(source.stream(), tmp_path / "cp", **OFTEN)
    try:
        wait_until(lambda: len(collected.rows) == first or query.exception(), "it reads", 180)
        resize(client, topic, 5)
        total = first + produce(client, topic, keys=60, sequences=range(1))
        # A running query believes a route for 30 s.
        wait_until(lambda: len(collected.rows) >= total or query.exception(), "it goes on", 180)
        query.processAllAvailable()
    finally:
        query.stop()
    ends = {q.queue_id: span.maximum for q, span in client.broker.topic_stats(topic).items()}
    assert ends[3]
    assert ends[4]
    found = {q: [row.offset for row in collected.rows if row.queue == q] for q in ends}
    assert found == {queue: list(range(end)) for queue, end in ends.items()}


@proves("removed-queue-fails")
def test_a_running_query_fails_by_name_when_a_queue_is_taken_away_and_goes_on_when_it_is_back(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    before = produce(client, topic, keys=10, sequences=range(3))
    lost = client.routes.readable(topic)[2]
    query, collected = start_collecting(source.stream(), tmp_path / "cp", **OFTEN)
    try:
        wait_until(lambda: len(collected.rows) == before or query.exception(), "it reads", 180)
        query.processAllAvailable()
        checkpoint = files(tmp_path / "cp")
        resize(client, topic, 2)
        text = failure_of(query)
    finally:
        query.stop()
    assert "OffsetOutOfRange" in text
    assert f"{lost}: queue offset " in text
    assert files(tmp_path / "cp") == checkpoint
    resize(client, topic, 3)
    after = produce(client, topic, keys=10, sequences=range(3, 5))
    rest = collect_available(source.stream(), tmp_path / "cp")
    assert_in_order(collected.rows + rest.rows, before + after)
