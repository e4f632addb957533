"""Lag as Spark reports it, and the listeners in a real session."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import Source, collect_available, finish, produce, start_collecting
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.spark.lag import LagListener, OffsetCommitListener

LONG = {"processingTime": "1 hour"}


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("lagging", 2)


@pytest.fixture
def lag(spark: SparkSession) -> Iterator[LagListener]:
    listener = LagListener()
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_unread_messages_are_in_the_progress_and_in_the_log(
    client: Client,
    topic: str,
    source: Source,
    lag: LagListener,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    produce(client, topic, keys=10, sequences=range(3))
    with caplog.at_level(logging.INFO, "rmq_ordered.lag"):
        stream = source.stream(maxOffsetsPerTrigger=20)
        query, _ = start_collecting(stream, tmp_path / "cp")
        finish(query)
        wait_until(lambda: "unread=0" in caplog.text, "both batches are logged", 30)
    assert "unread=10" in caplog.text
    first = query.recentProgress[0].sources[0]
    (ends,) = json.loads(first.latestOffset)["topics"][topic].values()
    assert sum(ends.values()) == 30


@pytest.mark.proof
def test_mqadmin_sees_the_progress_of_a_query(
    broker: Broker,
    client: Client,
    topic: str,
    group: str,
    source: Source,
    javaclients: JavaClients,
    tmp_path: Path,
) -> None:
    produce(client, topic, keys=10, sequences=range(3))
    collect_available(source.stream(), tmp_path / "cp")
    report = javaclients.mqadmin(broker.name_server, "consumerProgress", "-g", group)
    rows = [line.split() for line in report.splitlines() if line.startswith(topic)]
    assert len(rows) == 2, report
    # Topic, broker, queue, the broker's offset, the group's offset, ...
    assert all(row[3] == row[4] for row in rows), report
    assert sum(int(row[4]) for row in rows) == 30


@proves("listener-commits-own-group", "commit-by-listener")
def test_a_listener_commits_although_the_next_trigger_is_far_away(
    spark: SparkSession, client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    listener = OffsetCommitListener(source.options)
    spark.streams.addListener(listener)
    try:
        query, _ = start_collecting(source.stream(), tmp_path / "cp", **LONG)

        def committed() -> int:
            queues = client.routes.readable(topic)
            found = [client.broker.committed_offset(group, queue) for queue in queues]
            return sum(one or 0 for one in found)

        wait_until(lambda: committed() == total or query.exception(), "it is committed", 120)
        assert query.exception() is None
        query.stop()
    finally:
        spark.streams.removeListener(listener)
        listener.close()
