"""A streaming query that does nothing with its rows, beside Apache's Java lite pull consumer.

    python benchmarks/source.py [--messages 1000000] [--rounds 3] [--check]

Both read the same four queues of the same broker to their end, in turns, and the best of the rounds
counts: the machine is shared, so only the ratios mean anything. The query owns its queues, commits
for its group and writes to Spark's ``noop`` sink, in two batches; its rate is the rows of the
second over the time of its whole trigger, planning, logs and commits included. The first, in which
Spark starts its Python processes, is left out, as is the start of Java's consumer. Then hand-over,
from the end of one run to the first row of the next, and planning alone: one look at all queues and
one partition for each.

``--check`` makes it an error when the query without properties is not twice as fast as Java.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.broker import Server, embedded, rocketmq, run_load
from benchmarks.client import BODIES, Filled, fill
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from rich.console import Console
from rich.table import Table
from tests.support.brokers import unique_name

from rmq_ordered import Client
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.stream import OrderedStreamReader

console = Console()
GOAL = 2.0
PLANNED_QUEUES = (4, 64, 1_024)
BATCHES = 2
PLANNINGS = 20
HAND_OVERS = 5
JAVA, PLAIN, WITH_PROPERTIES = "Java lite pull", "query", "query with properties"


@dataclass
class Best:
    """The best rate of every contestant, in messages per second."""

    rates: dict[str, float] = field(default_factory=dict)

    def note(self, name: str, rate: float) -> None:
        """Keep it if it is better than before."""
        self.rates[name] = max(rate, self.rates.get(name, 0.0))

    def ratio(self, name: str) -> float:
        """How many times as fast as Java."""
        return self.rates[name] / self.rates[JAVA]


def start_spark() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[*]").appName("benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run_query(spark: SparkSession, filled: Filled, home: Path, *, properties: bool) -> float:
    """Rows per second of a query over everything there is."""
    query = (
        spark.readStream.format("rmq-ordered")
        .option("nameServer", filled.server.name_server)
        .option("subscribe", filled.topic)
        .option("group", unique_name("group"))
        .option("includeProperties", str(properties).lower())
        .option("requestTimeout", "15s")
        .option("maxOffsetsPerTrigger", str(filled.count // BATCHES))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(home / unique_name("checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [one for one in query.recentProgress if one.numInputRows]
    rows = sum(one.numInputRows for one in batches)
    if rows != filled.count:
        raise SystemExit(f"{filled.name}: expected {filled.count} rows, read {rows}")
    steady = batches[1:]
    seconds = sum(one.durationMs["triggerExecution"] for one in steady) / 1000
    return sum(one.numInputRows for one in steady) / seconds


def compare(spark: SparkSession, filled: Filled, rounds: int, home: Path) -> Best:
    best = Best()
    run_query(spark, filled, home, properties=False)
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}: {filled.name}")
        arguments = {"topic": filled.topic, "group": unique_name("group"), "count": filled.count}
        done = run_load(filled.server, "pull", home, **arguments)
        best.note(JAVA, done["count"] / done["nanos"] * 1e9)
        best.note(PLAIN, run_query(spark, filled, home, properties=False))
        best.note(WITH_PROPERTIES, run_query(spark, filled, home, properties=True))
    return best


def show(results: dict[str, Best]) -> None:
    table = Table(title="Four queues, read to their end: messages/s")
    table.add_column("broker, body")
    for column in (JAVA, PLAIN, "ratio", WITH_PROPERTIES, "ratio"):
        table.add_column(column, justify="right")
    for name, best in results.items():
        table.add_row(
            name,
            f"{best.rates[JAVA]:,.0f}",
            f"{best.rates[PLAIN]:,.0f}",
            f"{best.ratio(PLAIN):.2f}x",
            f"{best.rates[WITH_PROPERTIES]:,.0f}",
            f"{best.ratio(WITH_PROPERTIES):.2f}x",
        )
    console.print(table)


def plan(server: Server, queues: int) -> tuple[float, float]:
    """Milliseconds of an idle look and of the plan of a batch, each the best of many."""
    topic = unique_name("planned")
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        client.broker.create_topic(topic, queues)
    reader = OrderedStreamReader(options_of(server, topic, group=unique_name("group")))
    try:
        start = reader.initialOffset()
        reader.latestOffset(start, ReadAllAvailable())
        ahead = {
            name: {queue: position + 1 for queue, position in places.items()}
            for name, places in start["topics"][topic].items()
        }
        end = start | {"topics": {topic: ahead}}
        looks = [_ms(reader.latestOffset, start, ReadAllAvailable()) for _ in range(PLANNINGS)]
        plans = [_ms(reader.partitions, start, end) for _ in range(PLANNINGS)]
    finally:
        reader.stop()
    return min(looks), min(plans)


def _ms(call: object, *arguments: object) -> float:
    begin = time.perf_counter()
    call(*arguments)  # type: ignore[operator]
    return (time.perf_counter() - begin) * 1000


def options_of(server: Server, topic: str, **more: str) -> SourceOptions:
    given = {"nameServer": server.name_server, "subscribe": topic, "requestTimeout": "15s"} | more
    return SourceOptions.parse(given, streaming=True)


def own_for_ever(options: SourceOptions, owned: Event) -> None:
    """Runs in a process that is killed while it owns its queues."""
    OrderedStreamReader(options).initialOffset()
    owned.set()
    time.sleep(3_600)


def first_row_ms(options: SourceOptions) -> float:
    """From the wish to read to the first row."""
    begin = time.perf_counter()
    reader = OrderedStreamReader(options)
    try:
        start = reader.initialOffset()
        partitions = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        next(iter(reader.read(partitions[0])))
        return (time.perf_counter() - begin) * 1000
    finally:
        reader.stop()


def hand_over(filled: Filled) -> tuple[float, float]:
    """Milliseconds to the first row after a clean stop, and after a kill of the same instance."""
    context = get_context("spawn")
    stopped: list[float] = []
    killed: list[float] = []
    for _ in range(HAND_OVERS):
        group = unique_name("group")
        options = options_of(filled.server, filled.topic, group=group, instanceId="bench")
        predecessor = OrderedStreamReader(options)
        predecessor.initialOffset()
        predecessor.stop()
        stopped.append(first_row_ms(options))
        owned = context.Event()
        process = context.Process(target=own_for_ever, args=(options, owned))
        process.start()
        owned.wait(60)
        process.kill()
        process.join()
        killed.append(first_row_ms(options))
    return statistics.median(stopped), statistics.median(killed)


def show_hand_over(filled: list[Filled]) -> None:
    table = Table(title="Hand-over: ms until the next run's first row, the start of Spark left out")
    for column in ("broker", "after a stop", "after kill -9, same instanceId"):
        table.add_column(column, justify="right" if column != "broker" else "left")
    for one in filled:
        stopped, killed = hand_over(one)
        table.add_row(one.server.name, f"{stopped:.0f}", f"{killed:.0f}")
    console.print(table)


def show_planning(servers: tuple[Server, ...]) -> None:
    table = Table(title="Planning a batch, in ms")
    table.add_column("broker")
    table.add_column("queues", justify="right")
    table.add_column("where do they end", justify="right")
    table.add_column("partitions", justify="right")
    for server in servers:
        for queues in PLANNED_QUEUES:
            look, partitions = plan(server, queues)
            table.add_row(server.name, f"{queues:,}", f"{look:.1f}", f"{partitions:.1f}")
    console.print(table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help=f"fail below {GOAL}x")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    results: dict[str, Best] = {}
    topics: dict[str, Filled] = {}
    with tempfile.TemporaryDirectory() as folder, rocketmq() as theirs, embedded() as ours:
        home, servers = Path(folder), (theirs, ours)
        spark = start_spark()
        for body_bytes in BODIES:
            # A fifth of them in kilobytes: as many bytes, and in reach of the page cache.
            count = arguments.messages if body_bytes == BODIES[0] else arguments.messages // 5
            for server in servers:
                filled = fill(server, count, body_bytes, home)
                results[filled.name] = compare(spark, filled, arguments.rounds, home)
                topics[server.name] = filled
        spark.stop()
        show(results)
        show_hand_over(list(topics.values()))
        show_planning(servers)
    if arguments.check and any(best.ratio(PLAIN) < GOAL for best in results.values()):
        raise SystemExit(f"a ratio is below {GOAL}x")


if __name__ == "__main__":
    main()
