"""A Spark that does a little of what the tests' Sparks do, so that its classes can be kept.

Run as a program that ends after its JVM.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

ROWS = 1_000


def _rows() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"id": pa.array(range(ROWS), pa.int64())})


class _Batch(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows()


class _Stream(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows()


class _Drain:
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class _BatchWriter(_Drain, DataSourceArrowWriter):
    pass


class _StreamWriter(_Drain, DataSourceStreamArrowWriter):
    pass


class _Rehearsal(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rehearsal"

    def schema(self) -> str:
        return "id bigint"

    def reader(self, schema: Any) -> DataSourceReader:
        return _Batch()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _Stream()

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return _BatchWriter()

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        return _StreamWriter()


def _play(spark: SparkSession, folder: str) -> None:
    spark.dataSource.register(_Rehearsal)
    rows = spark.readStream.format("rehearsal").load().selectExpr("id", "id % 7 as key")
    writers = [rows.select("id").writeStream.format(sink) for sink in ("noop", "rehearsal")]
    writers.append(
        rows.writeStream.foreachBatch(lambda batch, _: batch.write.json(f"{folder}/rows"))
    )
    for number, writer in enumerate(writers):
        writer.option("checkpointLocation", f"{folder}/{number}").trigger(availableNow=True)
        writer.start().awaitTermination()
    read = spark.read.format("rehearsal").load()
    read.write.format("rehearsal").mode("append").save()
    read.groupBy((read.id % 7).alias("key")).count().orderBy("key").collect()
    spark.createDataFrame([Row(id=1)]).toArrow()


def main() -> None:
    """Run everything once; returns when the JVM has ended."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    gateway = session.sparkContext._gateway
    with tempfile.TemporaryDirectory() as folder:
        _play(session, folder)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
