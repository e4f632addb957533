"""How fast does Spark's sink write, beside Apache's Java producer with a selector?

Each row is one broker and one size of bodies. Java sends synchronously with the hash selector, one
message after the other, on one thread, as an ordered producer has to. Spark writes a frame from its
memory with ``df.write.format("rmq-ordered")``, two tasks at a time, without and with idempotence;
starting the job and its Python workers is part of the time. Everything runs on one machine that the
brokers share; both flush asynchronously.

    python benchmarks/sink.py [--rows N] [--java N] [--rounds N] [--check]

``--check`` makes it an error when the idempotent sink is not at least twenty times as fast as Java.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.producer import Server, create_topic, embedded, java, rocketmq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from rich.console import Console
from rich.table import Table

from rmq_ordered import Client

console = Console()
KEYS = 10_000
TASKS = 2
GOAL = 20.0


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )


def frame_of(spark: SparkSession, body_bytes: int, count: int) -> DataFrame:
    """Keys that repeat and bodies that do not, held in Spark's memory."""
    digits = F.sha2(F.col("id").cast("string"), 512)
    body = F.repeat(digits, body_bytes // 128 + 1).substr(1, body_bytes).cast("binary")
    rows = spark.range(0, count, 1, TASKS).select(
        F.concat(F.lit("order-"), F.col("id") % KEYS).alias("key"), body.alias("value")
    )
    kept = rows.cache()
    kept.count()
    return kept


def spark_rate(server: Server, frame: DataFrame, count: int, *, idempotent: bool) -> float:
    """Rows per second of one write into a new topic."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic = create_topic(client)
        begin = time.perf_counter()
        (
            frame.write.format("rmq-ordered")
            .options(nameServer=server.name_server, topic=topic, requestTimeout="15s")
            .option("idempotent", str(idempotent).lower())
            .mode("append")
            .save()
        )
        seconds = time.perf_counter() - begin
        spans = client.broker.topic_stats(topic).values()
        written = sum(span.maximum for span in spans)
    if written > count:
        raise SystemExit(f"{written} messages were written, but there are {count} rows")
    return count / seconds


def measure(
    server: Server, spark: SparkSession, body_bytes: int, arguments: argparse.Namespace, home: Path
) -> tuple[list[str], float]:
    count = arguments.rows if body_bytes < 1_000 else arguments.rows // 4
    frame = frame_of(spark, body_bytes, count)
    theirs = plain = stamped = 0.0
    for number in range(arguments.rounds):
        console.print(f"{server.name}, {body_bytes} B, round {number + 1} of {arguments.rounds}")
        theirs = max(theirs, java(server, body_bytes, arguments.java, home))
        plain = max(plain, spark_rate(server, frame, count, idempotent=False))
        stamped = max(stamped, spark_rate(server, frame, count, idempotent=True))
    frame.unpersist(blocking=True)
    row = [
        server.name,
        f"{body_bytes} B",
        f"{theirs:,.0f}",
        f"{plain:,.0f}",
        f"{stamped:,.0f}",
        f"{stamped / theirs:,.1f}x",
        f"{100 * (1 - stamped / plain):,.0f} %",
    ]
    return row, stamped / theirs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--java", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    table = Table(title="Spark's sink, rows per second (best of the rounds)")
    for name in ("broker", "body", "Java", "not idempotent", "idempotent", "ratio", "its cost"):
        table.add_column(name, justify="left" if name == "broker" else "right")
    ratios = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(rocketmq()), stack.enter_context(embedded())]
        spark = session()
        stack.callback(spark.stop)
        for server in servers:
            for body_bytes in (100, 1_024):
                row, ratio = measure(server, spark, body_bytes, arguments, home)
                console.print("  ".join(row))
                table.add_row(*row)
                ratios.append(ratio)
    console.print(table)
    if arguments.check and min(ratios) < GOAL:
        console.print(f"[red]below {GOAL:g}x[/]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
