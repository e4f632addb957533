"""The sink's tasks and commits on both brokers, called as Spark calls them, but without Spark."""

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.client.ledger import SinkLedger, WriteAttempt
from rmq_ordered.errors import BatchSuperseded, ReplayDiverged
from rmq_ordered.model import QueueRange, SendStream
from rmq_ordered.options import SinkOptions, ValueFormat
from rmq_ordered.spark.writing.columns import SinkColumns
from rmq_ordered.spark.writing.commit import committed, forget
from rmq_ordered.spark.writing.task import SentMessage, write_rows

COLUMNS = SinkColumns(
    (("value", "value"), ("key", "key")), ValueFormat.RAW, topic_column=False, sequence=None
)
TASKS, KEYS = 3, 4


class Sink:
    """A query with three tasks a batch; each task has its own keys, 20 rows a batch."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.name = broker.unique("query")
        self.options = SinkOptions.parse(
            {"nameServer": broker.name_server, "topic": topic, "requestTimeout": "15s"}
        )

    def task(self, batch: int, run: str, partition: int, **given: object) -> SentMessage:
        count, is_first = given.get("count", 20), given.get("is_first", True)
        stream = SendStream(self.name, batch, partition)
        attempt = WriteAttempt(stream, run, is_first=bool(is_first))
        rows = list(_rows(batch, partition, count))
        sent = write_rows(self.options, COLUMNS, attempt, iter(rows))
        # Spark carries it to the driver.
        message: SentMessage = pickle.loads(pickle.dumps(sent))
        return message

    def batch(self, batch: int, run: str) -> list[SentMessage]:
        messages = [self.task(batch, run, partition) for partition in range(TASKS)]
        committed(self.options, messages)
        return messages


def _rows(batch: int, partition: int, count: object) -> Iterator[pa.RecordBatch]:
    numbers = range(20 * batch, 20 * batch + int(str(count)))
    for start in range(0, len(numbers), 7):
        part = numbers[start : start + 7]
        keys = [f"{partition}-{number % KEYS}" for number in part]
        yield pa.record_batch({"key": keys, "value": [str(number) for number in part]})


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("sunk", 3)


@pytest.fixture
def sink(broker: Broker, topic: str) -> Sink:
    return Sink(broker, topic)


def by_key(client: Client, topic: str, total: int) -> dict[str, list[int]]:
    """Numbers by key in the order of the queues, once so many can be seen."""

    def read() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for queue, span in client.broker.topic_stats(topic).items():
            for rows in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, span.maximum))):
                columns = (rows.column(name).to_pylist() for name in ("key", "value"))
                for key, value in zip(*columns, strict=True):
                    found.setdefault(key, []).append(int(value))
        return found

    wait_until(lambda: sum(map(len, read().values())) >= total, f"{total} rows can be seen", 20)
    return read()


def expected(batches: int) -> dict[str, list[int]]:
    return {
        f"{partition}-{key}": list(range(key, 20 * batches, KEYS))
        for partition in range(TASKS)
        for key in range(KEYS)
    }


def test_batches_of_one_run_land_once_and_in_order(client: Client, topic: str, sink: Sink) -> None:
    messages = [message for batch in range(4) for message in sink.batch(batch, "run-1")]
    assert by_key(client, topic, 240) == expected(4)
    assert sum(message.count for message in messages) == 240
    assert sum(message.duplicates for message in messages) == 0


def test_a_new_run_that_repeats_the_last_batch_adds_nothing(
    client: Client, topic: str, sink: Sink
) -> None:
    sink.batch(0, "run-1")
    sink.batch(1, "run-1")
    by_key(client, topic, 120)
    for run in ("run-2", "run-3"):
        again = sink.batch(1, run)
        assert sum(message.count for message in again) == 0
        assert sum(message.duplicates for message in again) == 60
    sink.batch(2, "run-3")
    assert by_key(client, topic, 180) == expected(3)


def test_a_batch_that_was_cut_off_is_completed_by_the_next_run(
    client: Client, topic: str, sink: Sink
) -> None:
    sink.batch(0, "run-1")
    # One task has finished, one has written half, one nothing; nobody has committed.
    sink.task(1, "run-1", 0)
    sink.task(1, "run-1", 1, count=9)
    by_key(client, topic, 89)
    sink.batch(1, "run-2")
    assert by_key(client, topic, 120) == expected(2)


def test_the_very_first_batch_can_be_cut_off_too(client: Client, topic: str, sink: Sink) -> None:
    sink.task(0, "run-1", 2, count=5)
    sink.task(0, "run-1", 0, count=11)
    sink.task(0, "run-1", 0, count=15, is_first=False)
    by_key(client, topic, 20)
    sink.batch(0, "run-2")
    assert by_key(client, topic, 60) == expected(1)


def test_two_sinks_do_not_know_of_each_other(
    broker: Broker, client: Client, topic: str, sink: Sink
) -> None:
    sink.batch(0, "run-1")
    Sink(broker, topic).batch(0, "run-1")
    found = by_key(client, topic, 120)
    assert found == {key: numbers * 2 for key, numbers in expected(1).items()}


def test_a_leftover_of_an_earlier_batch_is_refused(client: Client, topic: str, sink: Sink) -> None:
    sink.batch(0, "run-1")
    sink.batch(1, "run-1")
    by_key(client, topic, 120)
    with pytest.raises(BatchSuperseded):
        sink.task(0, "run-0", 0)
    assert by_key(client, topic, 120) == expected(2)


def test_a_repeated_batch_with_fewer_rows_is_refused(
    client: Client, topic: str, sink: Sink
) -> None:
    sink.batch(0, "run-1")
    by_key(client, topic, 60)
    with pytest.raises(ReplayDiverged):
        sink.task(0, "run-2", 1, count=8)


def test_a_write_that_is_never_repeated_leaves_no_records(
    broker: Broker, client: Client, topic: str, sink: Sink
) -> None:
    sink.batch(0, "run-1")
    assert client.kv.list(f"rmq-ordered-sink@{sink.name}")
    forget(sink.options, sink.name)
    assert client.kv.list(f"rmq-ordered-sink@{sink.name}") == {}


def test_floors_follow_the_batches(broker: Broker, client: Client, topic: str, sink: Sink) -> None:
    ledger = SinkLedger(client, sink.name)
    queues = client.routes.readable(topic)
    sink.batch(0, "run-1")
    by_key(client, topic, 60)
    ends = {queue: client.broker.max_offset(queue) for queue in queues}
    sink.batch(1, "run-1")
    floors = client.broker.committed_offsets(ledger.group, queues)
    assert floors == (dict.fromkeys(queues) if broker.kind == "embedded" else ends)
