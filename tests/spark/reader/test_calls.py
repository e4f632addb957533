"""The streaming reader called as Spark calls it, in the orders that Spark uses, without a Spark."""

import json
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.spark.harness import produce
from tests.support.brokers import unique_name
from tests.support.calls import ALL, NewReader, again, ends, positions, ranges
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.errors import OffsetOutOfRange, QueueLeaseLost
from rmq_ordered.spark.stream import OrderedStreamReader


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
    assert sum(ends(end, topic).values()) == 10
    assert all(ends(end, topic).values())


@proves("killed-batch-repeated")
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


@proves("first-batch-repeated")
def test_a_first_batch_that_began_now_is_repeated_from_where_it_began(
    client: Client, topic: str, new_reader: NewReader
) -> None:
    produce(client, topic, keys=4, sequences=range(1))
    reader = new_reader(startingOffsets="latest")
    start = reader.initialOffset()
    produce(client, topic, keys=4, sequences=range(1, 3))
    end = reader.latestOffset(start, ALL)
    planned = ranges(reader.partitions(start, end))
    assert planned
    reader.stop()
    produce(client, topic, keys=4, sequences=range(3, 5))
    recovered = new_reader(startingOffsets="latest")
    assert ranges(recovered.partitions(recovered.initialOffset(), again(end))) == planned


def test_without_leases_a_first_batch_that_began_now_is_repeated_too(
    client: Client, topic: str, new_reader: NewReader
) -> None:
    unowned = {"startingOffsets": "latest", "leaseMode": "none", "leaseTimeout": None}
    reader = new_reader(**unowned)
    start = reader.initialOffset()
    produce(client, topic, keys=4, sequences=range(2))
    end = reader.latestOffset(start, ALL)
    planned = ranges(reader.partitions(start, end))
    assert planned
    reader.stop()
    produce(client, topic, keys=4, sequences=range(2, 4))
    recovered = new_reader(**unowned)
    assert ranges(recovered.partitions(recovered.initialOffset(), again(end))) == planned


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
    assert positions(joined, added) == {"0": [7, 10]}
    (partition,) = wider.partitions(again(end), again(joined))
    assert (partition.plan.range.start, partition.plan.range.end) == (7, 10)
    assert wider.latestOffset(again(joined), ALL) == again(joined)


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
