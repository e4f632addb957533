"""What the Spark tests share: known sequences, queries run to their end, a check of order."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.model import MessageQueue, OutgoingMessage

QUERY_TIMEOUT_S = 240


def produce(client: Client, topic: str, keys: int, sequences: range) -> int:
    """Send `sequences` of every key, keys interleaved; returns how many messages that were."""
    producer = OrderedProducer(client, topic)
    routed: dict[MessageQueue, list[OutgoingMessage]] = defaultdict(list)
    for sequence in sequences:
        for number in range(keys):
            key = f"key-{number}"
            message = producer.message(b"%d" % sequence, key=key)
            routed[producer.queue_of(key)].append(message)
    before = {queue: client.broker.max_offset(queue) for queue in routed}
    producer.send_all(routed)
    for queue, messages in routed.items():
        end = before[queue] + len(messages)
        # RocketMQ acknowledges a send before its consume queue shows the message.
        wait_until(lambda q=queue, e=end: client.broker.max_offset(q) >= e, "all is visible", 10)
    return keys * len(sequences)


@dataclass
class Source:
    """The options of one source, with shorthands to vary them."""

    spark: SparkSession
    options: dict[str, str]

    def stream(self, **options: Any) -> DataFrame:
        return self._reader(self.spark.readStream, options)

    def batch(self, **options: Any) -> DataFrame:
        return self._reader(self.spark.read, options)

    def _reader(self, reader: Any, options: dict[str, Any]) -> DataFrame:
        merged = self.options | {name: str(value) for name, value in options.items()}
        return reader.format("rmq-ordered").options(**merged).load()


class Collected:
    """Rows of a stream in the order in which each batch's partitions delivered them."""

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.batches.append(batch.collect())

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]


def start_collecting(stream: DataFrame, checkpoint: Path, **trigger: Any) -> tuple[Any, Collected]:
    """Start a query that collects on the driver."""
    collected = Collected()
    query = (
        stream.writeStream.foreachBatch(collected)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )
    return query, collected


def collect_available(stream: DataFrame, checkpoint: Path) -> Collected:
    """Run a query over everything that is there now."""
    query, collected = start_collecting(stream, checkpoint)
    finish(query)
    return collected


def finish(query: StreamingQuery) -> None:
    """Wait for the end of a query; raises its error."""
    try:
        assert query.awaitTermination(QUERY_TIMEOUT_S), f"{query.status} after {QUERY_TIMEOUT_S} s"
    finally:
        query.stop()


def failure_of(query: StreamingQuery) -> str:
    """The text with which a query fails."""
    try:
        finish(query)
    except StreamingQueryException as error:
        return str(error)
    raise AssertionError("the query was expected to fail, but it ended well")


def assert_in_order(rows: list[Row], expected: int) -> None:
    """Per queue the offsets follow one another from 0; per key the sequence counts up from 0."""
    next_offset: dict[tuple[str, int], int] = defaultdict(int)
    next_sequence: dict[str, int] = defaultdict(int)
    for row in rows:
        queue = (row.broker, row.queue)
        assert row.offset == next_offset[queue], f"{queue}: {row.offset}, not {next_offset[queue]}"
        next_offset[queue] += 1
        sequence = int(bytes(row.value))
        assert sequence == next_sequence[row.key], f"{row.key}: {sequence}"
        next_sequence[row.key] += 1
    assert len(rows) == expected


def owners(client: Client, group: str, topic: str) -> set[bool]:
    """Whether the queues could be locked by somebody else now; gives them back at once."""
    queues = client.routes.readable(topic)
    answers = client.broker.lock(group, "prober", queues)
    client.broker.unlock(group, "prober", queues)
    return {answer.granted for answer in answers}
