"""Batches that are written again, on both brokers: what landed is recognised, and nothing else."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming import StreamingQuery
from tests.spark.harness import Source, failure_of, finish, produce
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan, SendSettings
from rmq_ordered.client.ledger import SinkLedger, WriteAttempt
from rmq_ordered.model import QueueRange, SendStream


class Pipeline:
    """From a topic with 60 rows of 6 keys to another one, in batches of 20 or so."""

    def __init__(self, spark: SparkSession, broker: Broker, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.input, self.output = broker.create_topic("in", 2), broker.create_topic("out", 3)
        self.total = produce(client, self.input, keys=6, sequences=range(10))
        self.common = {"nameServer": broker.name_server, "requestTimeout": "15s"}
        self.rows = Source(
            spark,
            {
                **self.common,
                "subscribe": self.input,
                "leaseMode": "none",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": "20",
            },
        ).stream()

    def start(self, frame: DataFrame | None = None, **options: str) -> StreamingQuery:
        rows = self.rows.select("key", "value") if frame is None else frame
        return (
            rows.writeStream.format("rmq-ordered")
            .options(**self.common, **{"topic": self.output, **options})
            .option("checkpointLocation", str(self.folder / "cp"))
            .trigger(availableNow=True)
            .start()
        )

    def forget_last_commit(self) -> None:
        """As after a crash: the sink has committed the last batch, and Spark does not know."""
        commits = [
            path for path in (self.folder / "cp" / "commits").iterdir() if path.name.isdigit()
        ]
        last = max(commits, key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def written(self, topic: str | None = None) -> list[tuple[str, bytes]]:
        """Keys and values, queue by queue."""
        found: list[tuple[str, bytes]] = []
        for queue, span in self.client.broker.topic_stats(topic or self.output).items():
            for batch in QueueReader(self.client).read(
                ReadPlan(QueueRange(queue, 0, span.maximum))
            ):
                columns = (batch.column(name).to_pylist() for name in ("key", "value"))
                found += zip(*columns, strict=True)
        return found

    def await_rows(self, count: int) -> None:
        """RocketMQ shows messages a moment after it acknowledged them."""
        wait_until(lambda: len(self.written()) >= count, f"{count} rows can be seen", 20)


@pytest.fixture
def pipeline(spark: SparkSession, broker: Broker, client: Client, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, broker, client, tmp_path)


@pytest.mark.both_brokers
@proves("repeated-batch-adds-missing-only")
def test_a_batch_that_spark_repeats_after_a_crash_adds_nothing(pipeline: Pipeline) -> None:
    finish(pipeline.start())
    pipeline.await_rows(60)
    for _ in range(2):
        pipeline.forget_last_commit()
        finish(pipeline.start())
    found = pipeline.written()
    assert len(found) == len(set(found)) == 60
    for key in {key for key, _ in found}:
        assert [int(value) for name, value in found if name == key] == list(range(10))


@proves("changed-batch-fails")
def test_a_replay_with_other_rows_fails_and_adds_nothing(pipeline: Pipeline) -> None:
    finish(pipeline.start())
    pipeline.await_rows(60)
    pipeline.forget_last_commit()
    changed = pipeline.rows.select("key", F.concat(F.col("value"), F.lit(b"!")).alias("value"))
    text = failure_of(pipeline.start(changed))
    assert "ReplayDiverged" in text
    assert "onReplayDivergence=resend" in text
    assert len(pipeline.written()) == 60


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_replay_with_other_rows_is_written_again_where_that_was_asked_for(
    pipeline: Pipeline,
) -> None:
    finish(pipeline.start())
    pipeline.forget_last_commit()
    changed = pipeline.rows.select("key", F.concat(F.col("value"), F.lit(b"!")).alias("value"))
    finish(pipeline.start(changed, onReplayDivergence="resend"))
    again = [value for _, value in pipeline.written() if value.endswith(b"!")]
    assert len(again) > 0
    assert len(pipeline.written()) == 60 + len(again)


@proves("repeated-batch-adds-missing-only")
def test_a_query_with_a_new_checkpoint_in_the_same_place_is_a_new_sink(pipeline: Pipeline) -> None:
    finish(pipeline.start())
    pipeline.await_rows(60)
    shutil.rmtree(pipeline.folder / "cp")
    finish(pipeline.start())
    pipeline.await_rows(120)
    found = pipeline.written()
    assert len(found) == 120
    assert all(found.count(row) == 2 for row in set(found))


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_without_idempotence_a_repeated_batch_is_written_again(pipeline: Pipeline) -> None:
    finish(pipeline.start(idempotent="false"))
    pipeline.forget_last_commit()
    finish(pipeline.start(idempotent="false"))
    found = pipeline.written()
    assert len(found) > 60
    assert len(set(found)) == 60


@proves("foreach-batch-identity")
def test_inside_foreach_batch_an_identity_makes_writes_idempotent(
    pipeline: Pipeline, broker: Broker
) -> None:
    audit = broker.create_topic("audit", 1)

    def write(rows: DataFrame, batch_id: int) -> None:
        # Two writes in one call are two sinks; the first is tried twice, as after an error.
        for sink_id, topic in (("out", pipeline.output), ("out", pipeline.output), ("log", audit)):
            (
                rows.select("key", "value")
                .write.format("rmq-ordered")
                .options(**pipeline.common, topic=topic)
                .options(sinkId=f"{sink_id}-{pipeline.output[-20:]}", batchId=batch_id)
                .mode("append")
                .save()
            )

    def run() -> None:
        query = (
            pipeline.rows.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(pipeline.folder / "cp"))
            .trigger(availableNow=True)
            .start()
        )
        finish(query)

    run()
    pipeline.await_rows(60)
    pipeline.forget_last_commit()
    run()
    for topic in (pipeline.output, audit):
        found = pipeline.written(topic)
        assert len(found) == len(set(found)) == 60


@proves("speculation-adds-nothing")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_speculative_attempts_of_a_task_add_nothing_twice(
    pipeline: Pipeline, client: Client
) -> None:
    attempt = WriteAttempt(SendStream("speculation", 0, 0), "run", is_first=True)
    settings = SendSettings(batch_rows=5, buffer_bytes=64)
    batches = [
        pa.record_batch({"key": ["k"] * 10, "value": [f"{start + n}" for n in range(10)]})
        for start in range(0, 100, 10)
    ]
    ledger = SinkLedger(client, "speculation")
    with (
        ledger.writer(pipeline.output, settings, attempt) as one,
        ledger.writer(pipeline.output, settings, attempt) as other,
    ):
        # Both attempts live, and take turns in being ahead.
        for number, batch in enumerate(batches):
            for writer in (one, other) if number % 2 else (other, one):
                writer.write(batch)
        one.finish()
        other.finish()
    assert [int(value) for _, value in pipeline.written()] == list(range(100))
