"""Batch reads on both brokers: of which topics and queues, from where and up to where."""

import json
import re
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, Row
from tests.spark.harness import Source
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("read", 3)


def fill(client: Client, topic: str, *counts: int) -> int:
    """Send so many messages to each queue; returns when the last one of them was stored."""
    producer = OrderedProducer(client, topic)
    routed = {
        queue: [producer.message(b"%d" % number, key="any") for number in range(count)]
        for queue, count in zip(producer.queues, counts, strict=True)
        if count
    }
    before = client.broker.topic_stats(topic)
    producer.send_all(routed)
    for queue, sent in routed.items():
        end = before[queue].maximum + len(sent)
        wait_until(lambda q=queue, e=end: client.broker.max_offset(q) == e, "it is visible", 20)
    return max(span.last_stored_ms for span in client.broker.topic_stats(topic).values())


def offsets_of(rows: list[Row]) -> dict[int, list[int]]:
    """The offsets of each queue, in the order in which they came."""
    found: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        found[row.queue].append(row.offset)
    return dict(found)


def by_queue(topic: str, client: Client, places: dict[str, int] | list[int]) -> str:
    """JSON for queues of the topic on its only broker."""
    (name,) = {queue.broker_name for queue in client.routes.readable(topic)}
    return json.dumps({topic: {name: places}})


def selected(source: Source, **options: object) -> DataFrame:
    """A read of what these options choose, instead of the source's topic."""
    others = {name: value for name, value in source.options.items() if name != "subscribe"}
    return Source(source.spark, others).batch(**options)


def test_a_batch_read_begins_and_ends_at_the_offsets_that_are_given_for_some_queues(
    client: Client, topic: str, source: Source
) -> None:
    fill(client, topic, 9, 6, 4)
    bounds = {
        "startingOffsets": by_queue(topic, client, {"0": 4, "1": -2}),
        "endingOffsets": by_queue(topic, client, {"0": 7, "1": -1}),
    }
    both = source.batch(**bounds)
    assert offsets_of(both.collect()) == {0: [4, 5, 6], 1: [*range(6)], 2: [*range(4)]}
    others_late = source.batch(**bounds, startingOffsetsFallback="latest")
    assert offsets_of(others_late.collect()) == {0: [4, 5, 6], 1: [*range(6)]}


def test_a_batch_read_begins_and_ends_at_times_and_a_queue_without_a_match_is_left_out_or_named(
    client: Client, topic: str, source: Source
) -> None:
    then_ms = fill(client, topic, 5, 5, 3) + 1
    wait_until(lambda: time.time() * 1000 > then_ms, "the time has passed", 10)
    later_ms = fill(client, topic, 2, 1, 0) + 1
    wait_until(lambda: time.time() * 1000 > later_ms, "that time has passed, too", 10)
    iso = datetime.fromtimestamp(then_ms / 1000, UTC).isoformat(timespec="milliseconds")
    before = source.batch(endingTimestamp=iso)
    assert offsets_of(before.collect()) == {0: [*range(5)], 1: [*range(5)], 2: [*range(3)]}
    since = source.batch(startingTimestamp=then_ms, endingTimestamp=later_ms)
    assert offsets_of(since.collect()) == {0: [5, 6], 1: [5]}
    strict = source.batch(startingTimestamp=then_ms, startingTimestampNoMatch="error")
    with pytest.raises(Exception, match="OptionError") as raised:
        strict.collect()
    assert re.search(rf"{topic}@\S+#2 has a message", str(raised.value))


def test_a_pattern_reads_none_of_the_brokers_own_topics(
    broker: Broker, client: Client, topic: str, group: str, source: Source
) -> None:
    fill(client, topic, 1, 1, 1)
    retries = f"%RETRY%{group}"
    client.broker.heartbeat("somebody", group, [topic])
    wait_until(lambda: retries in client.routes.topics(), "the retry topic is listed", 20)
    fill(client, retries, 1)
    # Everything but what other tests have made.
    pattern = rf"{topic}|{retries}|(?!pinned)(?!.*-[0-9a-f]+-\d+$).*"
    matching = {name for name in client.routes.topics() if re.fullmatch(pattern, name)}
    assert matching >= {topic, retries}
    if broker.kind == "rocketmq":
        assert matching >= {"TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"}
    rows = selected(source, subscribePattern=pattern).collect()
    assert sorted((row.topic, row.queue) for row in rows) == [(topic, n) for n in range(3)]


def test_a_batch_read_of_assigned_queues_reads_no_other(
    client: Client, topic: str, source: Source
) -> None:
    fill(client, topic, 3, 3, 3)
    assigned = selected(source, assign=by_queue(topic, client, [0, 2]))
    assert offsets_of(assigned.collect()) == {0: [0, 1, 2], 2: [0, 1, 2]}


def test_a_batch_read_waits_for_a_missing_topic_as_long_as_it_may(
    broker: Broker, client: Client, source: Source
) -> None:
    late, never = broker.unique("late"), broker.unique("never")
    with ThreadPoolExecutor() as pool:
        patient = pool.submit(source.batch(subscribe=late, waitForTopic="2m").collect)
        hasty = pool.submit(source.batch(subscribe=never, waitForTopic="2s").collect)
        assert f"rmq-ordered topic create {never}" in str(hasty.exception(120))
        assert not patient.done()
        client.broker.create_topic(late, 1)
        assert patient.result(120) == []
