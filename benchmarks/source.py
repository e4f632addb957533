"""A streaming query that does nothing with its rows, beside Apache's Java lite pull consumer.

    python benchmarks/source.py [--messages 3000000] [--rounds 3] [--check]
    python benchmarks/source.py --only speed --broker embedded --body 100

What is measured is the steady rate of a query that runs. Both sides read the same four queues of
the same broker to their end, round by round in turns; of every read the first half is warming up
and not measured, on either side. Both have their default settings. The query (``local[*]``) owns
its queues, commits for its group and writes to Spark's ``noop`` sink, in two batches of a half
each; its rate is the rows of the second over ``triggerExecution`` of its progress: planning, tasks,
Spark's logs and commits included, the start of Spark and of its Python processes left out. Java's
rate is that of the consumer's ``poll`` loop after the first half of the messages. Before each
comparison queries run unmeasured until they get no faster: Spark's JVM compiles for half a minute,
on one core of two. The ratio is the median of the rounds' ratios; the machine is shared, so only
ratios mean anything.

Java's consumer is measured twice. With its defaults it asks for 10 messages a pull, and the goal is
about that one. Who tunes it asks for 32, the most that RocketMQ gives, and it is about twice as
fast: what a query is beside that one is shown too.

"Spark alone" is the same query over a source that yields ready Arrow batches of the same shape
(``benchmarks/ready.py``): no broker, no decoding. It is what Spark leaves room for.

Then hand-over, from the end of one run to the first row of the next, and planning alone: one look
at all queues, idle or with the commit of a batch that has read from every one of them, and one
partition for each.

``--check`` makes it an error when a query is not twice as fast as Java with its defaults, with and
without properties.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
from benchmarks.broker import LARGEST_PULL, Server, embedded, rocketmq, run_load
from benchmarks.client import BODIES, QUEUES, Filled, fill
from benchmarks.ready import ReadySource
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from rich.console import Console
from rich.table import Table
from tests.support.brokers import unique_name
from tests.support.paths import ROOT

from rmq_ordered import Client
from rmq_ordered.client import OrderedProducer, Selector, SendSettings
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.stream import OrderedStreamReader

# In a file its tables are not folded.
console = Console(width=None if sys.stdout.isatty() else 130)
T = TypeVar("T")
GOAL = 2.0
PLANNED_QUEUES = (4, 64, 1_024)
BATCHES = 2
# Warm is who was not a twentieth faster than before for so many queries in a row.
WARM_AFTER = 4
WARMER = 1.05
MOST_WARM_UPS = 12
PLANNINGS = 20
HAND_OVERS = 5
PARTS = ("speed", "hand-over", "planning")
BROKERS = {"rocketmq": rocketmq, "embedded": embedded}
JAVAS = JAVA, TUNED_JAVA = "Java", f"Java, {LARGEST_PULL} a pull"
PLAIN, WITH_PROPERTIES = "query", "query with properties"
READY, READY_WITH_PROPERTIES = "Spark alone", "Spark alone with properties"


@dataclass
class Rounds:
    """The rates of every contestant, round by round, in messages per second."""

    rates: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def rate(self, name: str) -> float:
        """The median."""
        return statistics.median(self.rates[name])

    def ratio(self, name: str) -> float:
        """How many times as fast as Java with its defaults in the same round: the median."""
        return statistics.median(self._ratios(name, JAVA))

    def spread(self, name: str, java: str) -> str:
        """The ratio, and the lowest and highest of the rounds."""
        ratios = self._ratios(name, java)
        return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f})"

    def _ratios(self, name: str, java: str) -> list[float]:
        pairs = zip(self.rates[name], self.rates[java], strict=True)
        return [ours / theirs for ours, theirs in pairs]


def start_spark() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark's Python processes import ReadySource.
    paths = [str(ROOT), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[*]").appName("benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(ReadySource)
    return spark


def run_query(rows: DataFrame, expected: int, home: Path) -> float:
    """Rows per second of all batches but the first."""
    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(home / unique_name("checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [one for one in query.recentProgress if one.numInputRows]
    read = sum(one.numInputRows for one in batches)
    if read != expected or len(batches) != BATCHES:
        raise SystemExit(f"expected {expected} rows in {BATCHES} batches, read {read}")
    steady = batches[1:]
    seconds = sum(one.durationMs["triggerExecution"] for one in steady) / 1000
    return sum(one.numInputRows for one in steady) / seconds


def ordered_rows(spark: SparkSession, filled: Filled, *, properties: bool) -> DataFrame:
    options = {
        "nameServer": filled.server.name_server,
        "subscribe": filled.topic,
        "group": unique_name("group"),
        "includeProperties": str(properties).lower(),
        "requestTimeout": "15s",
        # Rounded up: the queues share the limit, and a rest would be a batch of its own.
        "maxOffsetsPerTrigger": str(-(-filled.count // BATCHES) + QUEUES),
    }
    return spark.readStream.format("rmq-ordered").options(**options).load()


def ready_rows(spark: SparkSession, filled: Filled, *, properties: bool) -> DataFrame:
    options: dict[str, Any] = {
        "queues": QUEUES,
        "batches": BATCHES,
        "rowsPerBatch": filled.count // BATCHES,
        "bodyBytes": filled.body_bytes,
        "includeProperties": str(properties).lower(),
    }
    return spark.readStream.format("ready").options(**options).load()


def run_java(filled: Filled, home: Path, **settings: object) -> float:
    """Messages per second of the consumer after its first half."""
    count = filled.count
    settings |= {"topic": filled.topic, "group": unique_name("group"), "count": count}
    done = run_load(filled.server, "pull", home, warm_up=count // BATCHES, **settings)
    return float(done["count"] / done["nanos"] * 1e9)


def warm_up(spark: SparkSession, filled: Filled, home: Path) -> None:
    """Until Spark's compiler has come to an end with the paths that are measured."""
    best = {False: 0.0, True: 0.0}
    since = 0
    for number in range(MOST_WARM_UPS):
        if since == WARM_AFTER:
            break
        properties = number % 2 == 1
        rows = ordered_rows(spark, filled, properties=properties)
        rate = run_query(rows, filled.count, home)
        since = 0 if rate > best[properties] * WARMER else since + 1
        best[properties] = max(best[properties], rate)


def compare(spark: SparkSession, filled: Filled, rounds: int, home: Path) -> Rounds:
    found = Rounds()
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}: {filled.name}")
        found.rates[JAVA].append(run_java(filled, home))
        tuned = run_java(filled, home, pull_batch_size=LARGEST_PULL)
        found.rates[TUNED_JAVA].append(tuned)
        for name, properties in ((PLAIN, False), (WITH_PROPERTIES, True)):
            rows = ordered_rows(spark, filled, properties=properties)
            found.rates[name].append(run_query(rows, filled.count, home))
        console.print({name: round(rates[-1]) for name, rates in found.rates.items()})
    for name, properties in ((READY, False), (READY_WITH_PROPERTIES, True)):
        for _ in range(rounds):
            rows = ready_rows(spark, filled, properties=properties)
            whole = filled.count // (BATCHES * QUEUES) * BATCHES * QUEUES
            found.rates[name].append(run_query(rows, whole, home))
    return found


def show(results: dict[str, Rounds]) -> None:
    table = Table(title="Four queues, steady: messages/s, medians; ratios with lowest and highest")
    table.add_column("broker, body")
    for column in ("", "query", JAVA, "ratio", TUNED_JAVA, "ratio", READY):
        table.add_column(column, justify="right")
    for title, found in results.items():
        for what, name, ready in (
            ("", PLAIN, READY),
            ("properties", WITH_PROPERTIES, READY_WITH_PROPERTIES),
        ):
            beside = [(f"{found.rate(java):,.0f}", found.spread(name, java)) for java in JAVAS]
            rates = (f"{found.rate(name):,.0f}", *chain(*beside), f"{found.rate(ready):,.0f}")
            table.add_row(title, what, *rates)
    console.print(table)


@dataclass(frozen=True)
class Planning:
    """Milliseconds, each the best of many: see the table of ``show_planning``."""

    look: float
    commit: float
    partitions: float


def plan(server: Server, queues: int) -> Planning:
    """Plan batches of a message of each queue, then look at queues that have no more."""
    topic = unique_name("planned")
    fill_evenly(server, topic, queues, PLANNINGS)
    reader = OrderedStreamReader(options_of(server, topic, group=unique_name("group")))
    commits, plans = [], []
    try:
        start = reader.initialOffset()
        for _ in range(PLANNINGS):
            end, look_ms = _timed(reader.latestOffset, start, ReadMaxRows(queues))
            planned, plan_ms = _timed(reader.partitions, start, end)
            if len(planned) != queues:
                raise SystemExit(f"{len(planned)} partitions for {queues} queues")
            commits.append(look_ms)
            plans.append(plan_ms)
            start = end
        looks = [
            _timed(reader.latestOffset, start, ReadAllAvailable())[1] for _ in range(1 + PLANNINGS)
        ]
    finally:
        reader.stop()
    # The first look commits the last batch.
    return Planning(min(looks[1:]), min(commits), min(plans))


def fill_evenly(server: Server, topic: str, queues: int, each: int) -> None:
    """Make a topic, with so many messages in each of its queues."""
    rows = pa.RecordBatch.from_pydict({"value": [b"planned"] * (queues * each)})
    in_turns = SendSettings(selector=Selector.ROUND_ROBIN)
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        client.broker.create_topic(topic, queues)
        with OrderedProducer(client, topic, settings=in_turns).writer() as writer:
            writer.write(rows)
            writer.finish()


def _timed(call: Callable[..., T], *arguments: object) -> tuple[T, float]:
    """What a call gives, and its milliseconds."""
    begin = time.perf_counter()
    found = call(*arguments)
    return found, (time.perf_counter() - begin) * 1000


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


def hand_over(server: Server, topic: str) -> tuple[float, float]:
    """Milliseconds to the first row after a clean stop, and after a kill of the same instance."""
    stopped: list[float] = []
    killed: list[float] = []
    for _ in range(HAND_OVERS):
        options = options_of(server, topic, group=unique_name("group"), instanceId="bench")
        predecessor = OrderedStreamReader(options)
        predecessor.initialOffset()
        predecessor.stop()
        stopped.append(first_row_ms(options))
        own_and_die(options)
        killed.append(first_row_ms(options))
    return statistics.median(stopped), statistics.median(killed)


def hand_over_to_a_stranger(server: Server, topic: str) -> float:
    """Milliseconds to the first row after a kill, for a run that does not know the dead one."""
    options = options_of(server, topic, group=unique_name("group"))
    own_and_die(options)
    return first_row_ms(options)


def own_and_die(options: SourceOptions) -> None:
    """A run that owns every queue is killed with SIGKILL."""
    context = get_context("spawn")
    owned = context.Event()
    process = context.Process(target=own_for_ever, args=(options, owned))
    process.start()
    if not owned.wait(60):
        raise SystemExit("the run that was to be killed owned nothing after 60 s")
    process.kill()
    process.join()


def show_hand_over(servers: list[Server], home: Path) -> None:
    table = Table(title="Hand-over: ms until the next run's first row, the start of Spark left out")
    columns = ("after a stop", "after kill -9, same instanceId", "after kill -9, no instanceId")
    table.add_column("broker")
    for column in columns:
        table.add_column(column, justify="right")
    topics = [fill(server, 4_000, BODIES[0], home).topic for server in servers]
    known = [hand_over(server, topic) for server, topic in zip(servers, topics, strict=True)]
    with ThreadPoolExecutor() as pool:  # each waits for a minute
        strangers = list(pool.map(hand_over_to_a_stranger, servers, topics))
    for server, (stopped, killed), stranger in zip(servers, known, strangers, strict=True):
        table.add_row(server.name, f"{stopped:.0f}", f"{killed:.0f}", f"{stranger:,.0f}")
    console.print(table)


def show_planning(servers: list[Server]) -> None:
    table = Table(title="Planning a batch, in ms")
    table.add_column("broker")
    table.add_column("queues", justify="right")
    table.add_column("where do they end", justify="right")
    table.add_column("and every queue committed", justify="right")
    table.add_column("partitions", justify="right")
    for server in servers:
        for queues in PLANNED_QUEUES:
            found = plan(server, queues)
            times = (found.look, found.commit, found.partitions)
            table.add_row(server.name, f"{queues:,}", *(f"{one:.1f}" for one in times))
    console.print(table)


def measure_speed(servers: list[Server], arguments: argparse.Namespace, home: Path) -> None:
    results: dict[str, Rounds] = {}
    spark = start_spark()
    for body_bytes in arguments.body or BODIES:
        # Fewer kilobytes: in reach of the page cache, and still batches of seconds.
        count = arguments.messages if body_bytes == BODIES[0] else arguments.messages // 2
        for server in servers:
            filled = fill(server, count, body_bytes, home)
            warm_up(spark, filled, home)
            results[filled.name] = compare(spark, filled, arguments.rounds, home)
    spark.stop()
    show(results)
    ratios = (found.ratio(name) for found in results.values() for name in (PLAIN, WITH_PROPERTIES))
    if arguments.check and min(ratios) < GOAL:
        raise SystemExit(f"a ratio is below {GOAL}x")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help=f"fail below {GOAL}x")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part, not all")
    parser.add_argument("--broker", choices=BROKERS, action="append", help="one, not both")
    parser.add_argument("--body", type=int, choices=BODIES, action="append", help="one, not both")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    parts = arguments.only or PARTS
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        names = arguments.broker or BROKERS
        servers = [running.enter_context(BROKERS[name]()) for name in names]
        if "hand-over" in parts:
            show_hand_over(servers, Path(folder))
        if "planning" in parts:
            show_planning(servers)
        if "speed" in parts:
            measure_speed(servers, arguments, Path(folder))


if __name__ == "__main__":
    main()
