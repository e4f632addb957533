"""The popping reader called as Spark calls it, on both brokers, without a Spark."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.harness import produce
from tests.support.brokers import Broker
from tests.support.calls import Offset, again
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer, PopConsumer
from rmq_ordered.errors import BrokerError
from rmq_ordered.model import MessageQueue, OutgoingMessage
from rmq_ordered.spark.popping.stream import PoppingStreamReader

NewPopper = Callable[..., PoppingStreamReader]
Row = dict[str, Any]
SOON_S = 90
# Long beside the pauses of a busy machine, which would bring messages back too early.
BRIEF_MS = 5_000


class Query:
    """A reader and where it stands; runs batches one by one."""

    def __init__(self, reader: PoppingStreamReader, start: Offset | None = None) -> None:
        self.reader = reader
        self.start = start or again(reader.initialOffset())
        self.rows: list[Row] = []

    def plan(self) -> Offset:
        """Acknowledge what is finished and pop what comes next."""
        limit = self.reader.getDefaultReadLimit()
        return again(self.reader.latestOffset(self.start, limit))

    def read(self, end: Offset) -> list[Row]:
        """The rows of a batch."""
        return [
            row
            for partition in self.reader.partitions(self.start, end)
            for batch in self.reader.read(partition)
            for row in batch.to_pylist()
        ]

    def step(self) -> int:
        """Run one batch to its end; how many rows it had."""
        end = self.plan()
        rows = self.read(end)
        self.start = end
        self.rows += rows
        return len(rows)

    def run_until(self, count: int) -> None:
        """Run batches until so many rows came, and acknowledge the last one."""

        def is_through() -> bool:
            self.step()
            return len(self.rows) >= count

        wait_until(is_through, f"{count} rows came", SOON_S)
        self.step()


def values(rows: list[Row]) -> list[bytes]:
    return sorted(row["key"].encode() + b"=" + row["value"] for row in rows)


def expect_settled(client: Client, topic: str, group: str, bodies: list[bytes]) -> None:
    """None of these, which were popped before, comes again.

    A last message is popped and not acknowledged: when that has come again, whatever was popped
    earlier for as long a time would have come before it.
    """
    OrderedProducer(client, topic).send("last", b"marker")
    consumer = PopConsumer(client, group, topic, invisible_ms=BRIEF_MS)
    seen: list[tuple[bytes, int]] = []

    def is_back() -> bool:
        seen.extend((m.message.body, m.message.reconsume_times) for m in consumer.pop(wait_ms=500))
        return any(times > 0 for _, times in seen)

    wait_until(is_back, "the marker came again", SOON_S)
    assert {body for body, _ in seen}.isdisjoint(bodies)


@proves("pop-queries-share")
def test_two_queries_share_everything_and_nothing_comes_twice(
    client: Client, topic: str, group: str, new_popper: NewPopper
) -> None:
    total = produce(client, topic, keys=8, sequences=range(20))
    one, other = (
        Query(new_popper(invisible_ms=BRIEF_MS, maxOffsetsPerTrigger="15")) for _ in range(2)
    )

    def is_through() -> bool:
        one.step()
        other.step()
        return len(one.rows) + len(other.rows) >= total

    wait_until(is_through, "everything was popped", SOON_S)
    assert one.rows
    assert other.rows
    found = values(one.rows + other.rows)
    assert len(found) == len(set(found)) == total
    one.step()
    other.step()
    expect_settled(client, topic, group, [row["value"] for row in one.rows + other.rows])


def test_the_rows_of_a_stopped_query_come_to_another_from_the_retry_topic_as_of_their_own(
    client: Client, topic: str, group: str, new_popper: NewPopper
) -> None:
    total = produce(client, topic, keys=4, sequences=range(5))
    stopped = Query(new_popper(invisible_ms=BRIEF_MS))
    planned = stopped.plan()
    lost = stopped.read(planned)
    assert len(lost) == total
    stopped.reader.stop()
    other = Query(new_popper(invisible_ms=BRIEF_MS))
    wait_until(lambda: other.plan() != other.start, "the messages came again", SOON_S)
    assert set(other.plan()["popped"]) == {f"%RETRY%{group}_{topic}"}
    other.run_until(total)
    assert values(other.rows) == values(lost)
    assert {row["topic"] for row in other.rows} == {topic}
    assert {row["reconsume_times"] for row in other.rows} == {1}
    # The batch that was never finished is in its query's log, and is repeated to the letter.
    recovered = Query(new_popper(), stopped.start)
    assert recovered.read(planned) == lost
    expect_settled(client, topic, group, [row["value"] for row in lost])


@pytest.mark.proof
@proves("pop-killed-query")
def test_a_batch_may_last_longer_than_its_time_and_nobody_else_gets_it(
    client: Client, topic: str, group: str, new_popper: NewPopper
) -> None:
    total = produce(client, topic, keys=4, sequences=range(10))
    query = Query(new_popper(invisible_ms=BRIEF_MS))
    end = query.plan()
    other = PopConsumer(client, group, topic)
    seconds = client.clock.monotonic_ms
    # On either broker what is not renewed comes back within five seconds after its time.
    deadline_ms = seconds() + BRIEF_MS + 6_000

    def is_over() -> bool:
        assert other.pop(wait_ms=200) == ()
        return seconds() >= deadline_ms

    wait_until(is_over, "the time was over, and more", SOON_S)
    rows = query.read(end)
    assert len(rows) == total
    query.start = end
    assert query.step() == 0
    expect_settled(client, topic, group, [row["value"] for row in rows])


@proves("pop-batch-exact")
@pytest.mark.parametrize(
    "wanted", [{"tags": "even || none"}, {"sql92": "number BETWEEN 4 AND 8 OR number = 1"}]
)
def test_only_what_matches_is_popped_and_exactly_that_is_read(
    client: Client, topic: str, group: str, new_popper: NewPopper, wanted: dict[str, str]
) -> None:
    producer = OrderedProducer(client, topic)
    for number in range(10):
        tags = "even" if number % 2 == 0 else "odd"
        properties = {"TAGS": tags, "number": str(number)}
        message = OutgoingMessage(b"%d" % number, properties)
        producer.send_all({producer.queue_of("key"): [message]})
    expected = [b"0", b"2", b"4", b"6", b"8"]
    if "sql92" in wanted:
        expected = [b"1", b"4", b"5", b"6", b"7", b"8"]
    query = Query(new_popper(invisible_ms=BRIEF_MS, **wanted))
    query.run_until(len(expected))
    assert [row["value"] for row in query.rows] == expected
    expect_settled(client, topic, group, expected)


def test_a_condition_that_is_none_fails_the_query(client: Client, new_popper: NewPopper) -> None:
    query = Query(new_popper(sql92="number >"))
    with pytest.raises(BrokerError, match="code 23"):
        query.plan()


def test_orderly_queries_take_turns_at_a_queue_and_keep_its_order(
    client: Client, topic: str, group: str, new_popper: NewPopper
) -> None:
    total = produce(client, topic, keys=6, sequences=range(30))
    handled: list[Row] = []
    queries = [
        Query(new_popper(popOrder="queue", maxOffsetsPerTrigger=limit)) for limit in ("7", "20")
    ]

    def is_through() -> bool:
        for query in queries:
            before = len(query.rows)
            query.step()
            handled.extend(query.rows[before:])
        return len(handled) >= total

    wait_until(is_through, "everything was popped", SOON_S)
    assert all(query.rows for query in queries)
    for queue in client.routes.readable(topic):
        found = [row["offset"] for row in handled if row["queue"] == queue.queue_id]
        assert found == list(range(client.broker.max_offset(queue)))
    for key in {row["key"] for row in handled}:
        numbers = [int(row["value"]) for row in handled if row["key"] == key]
        assert numbers == sorted(numbers)


@proves("pop-queue-order")
def test_an_orderly_batch_of_a_dead_query_comes_again_in_place(
    client: Client, topic: str, new_popper: NewPopper
) -> None:
    produce(client, topic, keys=1, sequences=range(5))
    dead = Query(new_popper(invisible_ms=BRIEF_MS, popOrder="queue"))
    first = dead.plan()
    assert len(dead.read(first)) == 5
    dead.reader.stop()
    other = Query(new_popper(invisible_ms=60_000, popOrder="queue"))
    other.run_until(5)
    assert [row["offset"] for row in other.rows] == list(range(5))
    produce(client, topic, keys=1, sequences=range(5, 8))
    other.run_until(8)
    assert [row["offset"] for row in other.rows] == list(range(8))


def test_a_new_group_begins_at_the_first_message_and_an_old_one_where_it_stands(
    client: Client, topic: str, new_popper: NewPopper
) -> None:
    produce(client, topic, keys=4, sequences=range(3))
    first = Query(new_popper())
    first.run_until(12)
    first.reader.stop()
    produce(client, topic, keys=4, sequences=range(3, 5))
    fresh_checkpoint = Query(new_popper())
    fresh_checkpoint.run_until(8)
    assert {int(row["value"]) for row in fresh_checkpoint.rows} == {3, 4}


def test_a_query_reads_several_topics_and_each_row_names_its_own(
    broker: Broker, client: Client, topic: str, new_popper: NewPopper
) -> None:
    second = broker.create_topic("popping-too", 1)
    total = produce(client, topic, keys=3, sequences=range(3))
    total += produce(client, second, keys=3, sequences=range(2))
    query = Query(new_popper(subscribe=f"{topic},{second}"))
    query.run_until(total)
    places = {MessageQueue(row["topic"], row["broker"], row["queue"]) for row in query.rows}
    assert {place.topic for place in places} == {topic, second}
    assert len(query.rows) == total
