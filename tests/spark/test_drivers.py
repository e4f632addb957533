"""Whole drivers that die, sleep and come back, on a broker that remembers every owner."""

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.drivers import OFTEN, Driver, assert_whole_and_in_order, committed
from tests.spark.harness import Source, produce
from tests.support.brokers import unique_name
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import MessageQueue, OwnershipEvent

# Longer than the time between two renewals.
LEASE_MS = 25_000


@pytest.fixture(scope="module")
def impatient_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker whose leases end after seconds: a test must not wait for a minute."""
    settings = {"lockMaxLiveTimeMs": str(LEASE_MS)}
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), settings=settings) as broker:
        yield broker


@pytest.fixture
def client(impatient_broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(impatient_broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def topic(client: Client) -> str:
    name = unique_name("driven")
    client.broker.create_topic(name, 2)
    return name


@pytest.fixture
def options(impatient_broker: EmbeddedBroker, topic: str) -> dict[str, str]:
    return {
        "nameServer": impatient_broker.name_server,
        "subscribe": topic,
        "group": f"{topic}-group",
        "requestTimeout": "15s",
    }


def assert_one_owner_at_a_time(events: tuple[OwnershipEvent, ...]) -> None:
    """In the broker's own log every queue passes from owner to owner, epochs only rising."""
    by_queue: dict[MessageQueue, list[OwnershipEvent]] = defaultdict(list)
    for event in events:
        by_queue[event.queue].append(event)
    assert by_queue
    for history in by_queue.values():
        for before, after in pairwise(history):
            assert after.previous_owner == before.owner, f"{before} then {after}"
            assert after.epoch >= before.epoch
            if after.owner is not None and before.owner is not None:
                assert after.epoch > before.epoch


@pytest.mark.proof
@proves("sleeping-driver-no-harm")
def test_a_killed_driver_is_replaced_at_once_and_a_sleeping_one_does_no_harm(
    client: Client, topic: str, options: dict[str, str], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    total = produce(client, topic, keys=10, sequences=range(5))
    named = options | {"instanceId": "billing"}
    with Driver(named, checkpoint, tmp_path / "first") as first:
        first.wait_for_rows(total)
        first.kill()
    total += produce(client, topic, keys=10, sequences=range(5, 9))
    with Driver(named, checkpoint, tmp_path / "second") as second:
        second.wait_for_rows(40)
        # The dead one's leases had not ended: the new run of the same instance took them over.
        wait_until(
            lambda: sum(committed(client, topic, options["group"]).values()) == total,
            "committed",
            60,
        )
        second.send(signal.SIGSTOP)
        total += produce(client, topic, keys=10, sequences=range(9, 12))
        # Somebody else, with a checkpoint of its own: begins where the group stands.
        with Driver(options, tmp_path / "other", tmp_path / "third") as third:
            third.wait_for_rows(30)
            wait_until(
                lambda: sum(committed(client, topic, options["group"]).values()) == total,
                "committed",
                60,
            )
            before = committed(client, topic, options["group"])
            second.send(signal.SIGCONT)
            assert second.wait_for_end() == 3
            assert third.process.poll() is None
            assert "QueueLeaseLost" in str(second.failure)
            assert committed(client, topic, options["group"]) == before
    assert_whole_and_in_order(first.rows + second.rows + third.rows, total)
    _, events = client.broker.leases(group=f"{topic}-group")
    assert_one_owner_at_a_time(events)


@proves("sigterm-frees-queues")
def test_a_driver_that_is_asked_to_end_gives_its_queues_back(
    client: Client, topic: str, options: dict[str, str], tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(5))
    with Driver(options, tmp_path / "checkpoint", tmp_path / "output") as driver:
        driver.wait_for_rows(total)
        driver.process.terminate()
        driver.process.wait(60)
        asked = time.monotonic()
        queues = client.routes.readable(topic)

        def are_free() -> bool:
            answers = client.broker.lock(f"{topic}-group", "next", queues)
            return all(answer.granted for answer in answers)

        wait_until(are_free, "the queues are free", 60)
        # Not because the lease ended: somebody unlocked.
        _, events = client.broker.leases(group=f"{topic}-group")
    assert [event.reason for event in events if event.owner is None], events
    assert time.monotonic() - asked < 60


@pytest.mark.proof
@proves("held-while-in-flight")
def test_a_batch_lasts_longer_than_a_lease_and_the_source_process_keeps_the_queues(
    spark: SparkSession, client: Client, topic: str, options: dict[str, str], tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    group, queues = options["group"], client.routes.readable(topic)
    collected: list[int] = []
    may_end = threading.Event()

    def keep(batch: DataFrame, batch_id: int) -> None:
        collected.append(len(batch.collect()))
        may_end.wait()

    query = (
        Source(spark, options)
        .stream()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(**OFTEN)
        .start()
    )
    try:
        wait_until(lambda: collected or query.exception(), "a batch is at work", 180)
        granted, _ = client.broker.leases(group=group)
        first_end_ms = max(row.granted_at_ms for row in granted) + LEASE_MS
        wait_until(lambda: time.time() * 1000 > first_end_ms, "the leases would be over", 60)
        assert not any(answer.granted for answer in client.broker.lock(group, "other", queues))
        kept, _ = client.broker.leases(group=group)
        assert all(row.is_live for row in kept)
        assert [(row.queue, row.epoch) for row in kept] == [
            (row.queue, row.epoch) for row in granted
        ]
        may_end.set()
        wait_until(
            lambda: sum(committed(client, topic, group).values()) == total or query.exception(),
            "the batch has ended and is committed",
            60,
        )
        assert query.exception() is None
        assert collected == [total]
    finally:
        may_end.set()
        query.stop()
