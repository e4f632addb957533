"""Pipelines from topic to topic that stand still at a chosen moment until they may go on.

Usage: ``gated_job.py CONF`` with Spark's settings as JSON. Each line of standard input is one
pipeline: ``source`` and ``sink`` (options), ``checkpoint``, ``who`` (the tag of its rows), and
``gate``: null, or ``folder``, ``batch``, ``partition`` and ``row``: where a task leaves a file
``held`` and goes on when there is a file ``go``. The rows before it are on their way to the sink.
``how`` is how rows are written, see ``_write``. Each pipeline is answered
by a line, ``ended`` or ``failed`` with its error as JSON.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions

POLL_S = 0.02


def gate(folder: str, batch: int, partition: int, row: int) -> Any:
    """A function that gives back what it is given, and stands still once."""
    place, seen = Path(folder), [0]

    def passed(value: bytes) -> bytes:
        from pyspark import TaskContext

        context = TaskContext.get()
        now = seen[0]
        seen[0] += 1
        if (
            now == row
            and context is not None
            and context.partitionId() == partition
            and context.getLocalProperty("streaming.sql.batchId") == str(batch)
            and not (place / "held").exists()
        ):
            (place / "held").touch()
            while not (place / "go").exists():
                threading.Event().wait(POLL_S)
        return value

    return functions.udf(passed, "binary").asNondeterministic()


def _gated(rows: DataFrame, given: dict[str, Any]) -> DataFrame:
    if given["gate"] is None:
        return rows
    return rows.withColumn("value", gate(**given["gate"])("value"))


def _write(rows: DataFrame, given: dict[str, Any], spark: SparkSession) -> Any:
    """As a sink (``plain``), or in one of the other ways that users write."""
    how = given.get("how", "plain")
    tagged = _gated(rows.select("key", "value"), given).withColumn(
        "tags", functions.lit(given["who"])
    )
    if how == "shuffled":
        tagged = tagged.repartition(2, "key")
    writer = tagged.writeStream.option("checkpointLocation", given["checkpoint"])
    if how in ("plain", "shuffled"):
        return writer.format("rmq-ordered").options(**given["sink"])

    def each(batch: DataFrame, batch_id: int) -> None:
        if how == "job group":
            spark.sparkContext.setJobGroup("nightly", "set by the user")
        batch.write.format("rmq-ordered").mode("append").options(**given["sink"]).save()

    return writer.foreachBatch(each)


def run(spark: SparkSession, given: dict[str, Any]) -> str:
    """Run one pipeline to its end."""
    sources = given["source"] if isinstance(given["source"], list) else [given["source"]]
    streams = [
        spark.readStream.format("rmq-ordered").options(**source).load() for source in sources
    ]
    rows = streams[0]
    for other in streams[1:]:
        rows = rows.union(other)
    try:
        _write(rows, given, spark).trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException as error:
        return f"failed {json.dumps(str(error))}"
    return "ended"


def main(conf: dict[str, str]) -> None:
    """Serve until there is no more input."""
    builder = SparkSession.builder.appName("gated job")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        print(run(spark, json.loads(line)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
