"""How fast does Spark's sink write, beside Apache's Java producer with a selector?

Each row is one broker and one size of bodies. Java sends synchronously with the hash selector, one
message after the other, on one thread, as an ordered producer has to. Spark writes a frame from its
memory with ``df.write.format("rmq-ordered")``, two tasks at a time, without and with idempotence in
turns; starting the job is part of the time. The cost of idempotence is the middle one of the pairs'
ratios, of time and of processor time (Spark, its workers and the broker together). Everything runs
on one machine that the brokers share; both flush asynchronously.

    python benchmarks/sink.py [--rows N] [--java N] [--pairs N] [--broker NAME]
        [--body BYTES] [--check]

``--check`` makes it an error when the idempotent sink is not at least twenty times as fast as Java,
or when idempotence costs 15 % or more.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.broker import Server
from benchmarks.paired import Spent, in_turns, spending
from benchmarks.producer import BODIES, BROKERS, create_topic, java, taking_part
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from rich.console import Console
from rich.table import Table

from rmq_ordered import Client

console = Console()
KEYS = 10_000
TASKS = 2
GOAL = 20.0
MOST_COST = 0.15


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )


def frame_of(spark: SparkSession, body_bytes: int, count: int) -> DataFrame:
    """Keys that repeat, each in one task, and bodies that do not, held in Spark's memory."""
    digits = F.sha2(F.col("id").cast("string"), 512)
    body = F.repeat(digits, body_bytes // 128 + 1).substr(1, body_bytes).cast("binary")
    rows = spark.range(0, count, 1, TASKS).select(
        F.concat(F.spark_partition_id(), F.lit("-order-"), F.col("id") % KEYS).alias("key"),
        body.alias("value"),
    )
    kept = rows.cache()
    kept.count()
    return kept


def write(server: Server, frame: DataFrame, count: int, *, idempotent: bool) -> Spent:
    """What one write into a new topic costs."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic = create_topic(client)
        with spending(taking_part(server)) as spent:
            (
                frame.write.format("rmq-ordered")
                .options(nameServer=server.name_server, topic=topic, requestTimeout="15s")
                .option("idempotent", str(idempotent).lower())
                .mode("append")
                .save()
            )
        spans = client.broker.topic_stats(topic).values()
        written = sum(span.maximum for span in spans)
    if written > count:
        raise SystemExit(f"{written} messages were written, but there are {count} rows")
    return spent


@dataclass(frozen=True)
class Measured:
    """One broker and one size."""

    row: tuple[str, ...]
    ratio: float
    cost: float


def measure(
    server: Server, spark: SparkSession, body_bytes: int, arguments: argparse.Namespace, home: Path
) -> Measured:
    count = arguments.rows if body_bytes < 1_000 else arguments.rows // 3
    frame = frame_of(spark, body_bytes, count)
    theirs = max(java(server, body_bytes, arguments.java, home) for _ in range(2))
    pairs = in_turns(
        lambda: write(server, frame, count, idempotent=False),
        lambda: write(server, frame, count, idempotent=True),
        arguments.pairs,
    )
    frame.unpersist(blocking=True)
    plain, stamped = count / pairs.plain_s, count / pairs.dearer_s
    row = (
        server.name,
        f"{body_bytes} B",
        f"{theirs:,.0f}",
        f"{plain:,.0f}",
        f"{stamped:,.0f}",
        f"{stamped / theirs:,.1f}x",
        f"{100 * pairs.cost:+,.0f} %",
        f"{100 * pairs.best_cost:+,.0f} %",
        f"{100 * pairs.cpu_cost:+,.0f} %",
    )
    return Measured(row, stamped / theirs, pairs.cost)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--java", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--broker", choices=BROKERS, action="append")
    parser.add_argument("--body", type=int, choices=BODIES, action="append")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    table = Table(title="Spark's sink, rows per second (the middle of the rounds)")
    for name in ("broker", "body", "Java", "plain", "idempotent", "ratio", "cost", "best", "cpu"):
        table.add_column(name, justify="left" if name == "broker" else "right")
    found: list[Measured] = []
    spark = session()
    with tempfile.TemporaryDirectory() as home:
        for name in arguments.broker or BROKERS:
            with BROKERS[name]() as server:
                for body_bytes in arguments.body or BODIES:
                    found.append(measure(server, spark, body_bytes, arguments, Path(home)))
                    console.print("  ".join(found[-1].row))
                    table.add_row(*found[-1].row)
    spark.stop()
    console.print(table)
    if not arguments.check:
        return 0
    slow = [one.row for one in found if one.ratio < GOAL or one.cost >= MOST_COST]
    for row in slow:
        console.print(f"[red]below {GOAL:g}x, or idempotence costs {MOST_COST:.0%}: {row}[/]")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
