"""The streaming reader called as Spark calls it, in the orders that Spark uses, without a Spark."""

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.spark.harness import produce
from tests.support.brokers import unique_name

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import OffsetOutOfRange, OptionError, QueueLeaseLost
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.stream import OrderedStreamReader

NewReader = Callable[..., OrderedStreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def client(embedded_broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(embedded_broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def topic(client: Client) -> str:
    name = unique_name("called")
    client.broker.create_topic(name, 2)
    return name


@pytest.fixture
def group() -> str:
    return unique_name("group")


@pytest.fixture
def new_reader(embedded_broker: EmbeddedBroker, topic: str, group: str) -> Iterator[NewReader]:
    """Makes readers of the topic, as a new run would, and stops them at the end."""
    readers: list[OrderedStreamReader] = []

    def make(**options: str) -> OrderedStreamReader:
        merged = {
            "nameServer": embedded_broker.name_server,
            "subscribe": topic,
            "group": group,
            "leaseTimeout": "5s",
            "requestTimeout": "15s",
        } | options
        readers.append(OrderedStreamReader(SourceOptions.parse(merged, streaming=True)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def positions(source_offset: dict[str, Any], topic: str) -> dict[str, int]:
    (brokers,) = source_offset["topics"][topic].values()
    return brokers


def again(source_offset: dict[str, Any]) -> dict[str, Any]:
    """The offset after its way through Spark's log."""
    return json.loads(json.dumps(source_offset))


def test_the_first_offset_is_the_same_however_often_it_is_asked_for(
    client: Client, topic: str, new_reader: NewReader
) -> None:
    reader = new_reader(startingOffsets="latest")
    first = reader.initialOffset()
    produce(client, topic, keys=4, sequences=range(2))
    assert reader.initialOffset() == first


def test_an_idle_poll_gives_the_start_back_to_the_letter(
    client: Client, topic: str, new_reader: NewReader
) -> None:
    produce(client, topic, keys=4, sequences=range(2))
    reader = new_reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    start = again(end)
    assert json.dumps(reader.latestOffset(start, ALL)) == json.dumps(end)


def test_the_limit_is_kept_and_shared(client: Client, topic: str, new_reader: NewReader) -> None:
    produce(client, topic, keys=20, sequences=range(5))
    reader = new_reader()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    assert sum(positions(end, topic).values()) == 10
    assert all(positions(end, topic).values())


def test_a_restart_in_the_middle_of_a_batch_begins_with_its_partitions(
    client: Client, topic: str, group: str, new_reader: NewReader
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    reader = new_reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    reader.stop()
    recovered = new_reader()
    planned = recovered.partitions(again(start), again(end))
    assert sum(len(partition.plan.range) for partition in planned) == total
    assert all(partition.plan.lease and partition.plan.lease.epoch for partition in planned)
    rows = [
        row
        for partition in planned
        for batch in recovered.read(partition)
        for row in batch.to_pylist()
    ]
    assert len(rows) == total


def test_a_copy_on_an_executor_has_options_and_nothing_else(new_reader: NewReader) -> None:
    reader = new_reader()
    reader.initialOffset()
    copy = pickle.loads(pickle.dumps(reader))
    assert vars(copy) == vars(OrderedStreamReader(reader._options))


def test_a_first_batch_that_began_now_cannot_be_repeated(
    client: Client, topic: str, new_reader: NewReader
) -> None:
    reader = new_reader(startingOffsets="latest")
    start = reader.initialOffset()
    produce(client, topic, keys=4, sequences=range(2))
    end = reader.latestOffset(start, ALL)
    assert reader.partitions(start, end)
    reader.stop()
    produce(client, topic, keys=4, sequences=range(2, 4))
    recovered = new_reader(startingOffsets="latest")
    with pytest.raises(OptionError, match="delete the checkpoint and start again"):
        recovered.partitions(recovered.initialOffset(), again(end))


def test_a_topic_added_to_the_subscription_begins_where_a_new_query_would(
    client: Client, topic: str, group: str, new_reader: NewReader
) -> None:
    produce(client, topic, keys=4, sequences=range(2))
    reader = new_reader()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    added = unique_name("added")
    client.broker.create_topic(added, 1)
    produce(client, added, keys=1, sequences=range(10))
    (queue,) = client.routes.readable(added)
    client.broker.commit_offset(group, queue, 7)
    wider = new_reader(subscribe=f"{topic},{added}")
    joined = wider.latestOffset(again(end), ALL)
    assert positions(joined, added) == {"0": 7}
    assert wider.partitions(again(end), again(joined)) == []
    following = wider.latestOffset(again(joined), ALL)
    (partition,) = wider.partitions(again(joined), again(following))
    assert (partition.plan.range.start, partition.plan.range.end) == (7, 10)


def test_group_offsets_beyond_the_queue_are_refused(
    client: Client, topic: str, group: str, new_reader: NewReader
) -> None:
    client.broker.heartbeat("somebody", group, [topic])
    client.broker.commit_offset(group, client.routes.readable(topic)[0], 1_000)
    with pytest.raises(OffsetOutOfRange, match="1000"):
        new_reader().initialOffset()


def test_a_stopped_reader_holds_nothing(
    client: Client, topic: str, group: str, new_reader: NewReader
) -> None:
    reader = new_reader()
    reader.initialOffset()
    queues = client.routes.readable(topic)
    assert not any(answer.granted for answer in client.broker.lock(group, "other", queues))
    reader.stop()
    reader.stop()
    assert all(answer.granted for answer in client.broker.lock(group, "other", queues))


def test_a_reader_that_lost_a_queue_neither_plans_nor_commits(
    client: Client, topic: str, group: str, new_reader: NewReader
) -> None:
    produce(client, topic, keys=4, sequences=range(2))
    reader = new_reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    queue = client.routes.readable(topic)[0]
    (row,) = [row for row in client.broker.leases(group=group)[0] if row.queue == queue]
    client.broker.unlock(group, row.client_id, [queue])
    client.broker.lock(group, "thief", [queue])
    planned = reader.partitions(start, end)
    with pytest.raises(QueueLeaseLost, match="thief"):
        list(reader.read(planned[0]))
    with pytest.raises(QueueLeaseLost, match="thief"):
        reader.latestOffset(again(end), ALL)
    assert client.broker.committed_offset(group, queue) == 0
