"""Our reader beside Apache's Java lite pull consumer, on the same queues of the same broker.

    python benchmarks/client.py [--messages 1000000] [--rounds 3] [--check]
    python benchmarks/client.py --soak [--soak-messages 10000000]

Both brokers are filled by Apache's batch producer, with bodies of 100 bytes and of 1 KiB. Java,
which asks for 32 messages a pull, the most that RocketMQ gives and more than its default of 10, and
Python then read the same four queues in turns, and the best of the rounds counts: the machine is
shared, so only the ratios mean anything. The reader makes Arrow batches with every column but the
map of properties, checksums verified. It runs as one process that reads one queue after the other,
and as Spark runs it, a process for each queue; Java's consumer has its threads, and is measured
after the first half, when its compiler has done most of its work. The processor time of the clients
alone is shown beside: it depends little on what else the machine does.

``--check`` makes it an error when the reader is not at least twice as fast as Java, either way.
``--soak`` reads the same queues again and again and shows the process's memory at intervals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.broker import LARGEST_PULL, Server, embedded, resident_mb, rocketmq, run_load
from rich.console import Console
from rich.table import Table
from tests.support.brokers import unique_name
from tests.support.waiting import wait_until

from rmq_ordered import Client
from rmq_ordered.client import QueueReader, ReadPlan
from rmq_ordered.model import MessageQueue, QueueRange

console = Console()
QUEUES = 4
GOAL = 2.0
BODIES = (100, 1_024)
# What RocketMQ takes in one batch: 4 MiB.
BATCH_SIZES = {100: 1_000, 1_024: 300}
SOAK_REPORTS = 20


@dataclass(frozen=True)
class Filled:
    """A topic with messages in it."""

    server: Server
    topic: str
    count: int
    body_bytes: int

    @property
    def name(self) -> str:
        """As it stands in the tables."""
        return f"{self.server.name}, {self.body_bytes} B"


def fill(server: Server, messages: int, body_bytes: int, home: Path) -> Filled:
    """A fresh topic, filled by Apache's client."""
    batch_size = BATCH_SIZES[body_bytes]
    count = messages // batch_size * batch_size
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic = unique_name("load")
        client.broker.create_topic(topic, QUEUES)
        wait_until(lambda: topic in client.routes.topics(), "the topic is there", 60)
        options = {"batch_size": batch_size, "body_bytes": body_bytes}
        run_load(server, "batch", home, topic=topic, count=count, **options)
        # RocketMQ acknowledges a send before its consume queue shows the message.
        wait_until(lambda: sum(ends(client, topic).values()) == count, "all can be read", 60)
    return Filled(server, topic, count, body_bytes)


def ends(client: Client, topic: str) -> dict[MessageQueue, int]:
    return {queue: client.broker.max_offset(queue) for queue in client.routes.readable(topic)}


@dataclass
class Rates:
    """The best of several rounds: messages per second, and processor microseconds per message."""

    per_second: float = 0.0
    cpu_us: float = float("inf")

    def note(self, count: int, seconds: float, cpu_seconds: float) -> None:
        """Keep what is better than before."""
        self.per_second = max(self.per_second, count / seconds)
        self.cpu_us = min(self.cpu_us, cpu_seconds / count * 1e6)


def read_queues(name_server: str, topic: str, number: int | None) -> tuple[int, float]:
    """Read one queue or all to their end; returns how many messages and how much processor time."""
    begin = time.process_time()
    with Client(name_server, request_timeout_ms=15_000) as client:
        reader = QueueReader(client)
        features = client.routes.features(topic)
        rows = sum(
            batch.num_rows
            for queue, end in ends(client, topic).items()
            if number in (None, queue.queue_id)
            for batch in reader.read(ReadPlan(QueueRange(queue, 0, end), features=features))
        )
    return rows, time.process_time() - begin


def read(filled: Filled, rates: Rates, workers: Executor | None = None) -> None:
    """Read every queue here, one after the other, or each in a worker of its own."""
    where = (filled.server.name_server, filled.topic)
    begin = time.perf_counter()
    if workers is None:
        parts = [read_queues(*where, None)]
    else:
        tasks = [workers.submit(read_queues, *where, number) for number in range(QUEUES)]
        parts = [task.result() for task in tasks]
    seconds = time.perf_counter() - begin
    rows = sum(count for count, _ in parts)
    if rows != filled.count:
        raise SystemExit(f"{filled.name}: expected {filled.count} messages, read {rows}")
    rates.note(rows, seconds, sum(cpu for _, cpu in parts))


@dataclass(frozen=True)
class Comparison:
    """Java's consumer, the reader in one process, the reader in one for each queue."""

    java: Rates
    single: Rates
    each: Rates


def compare(filled: Filled, rounds: int, home: Path, workers: Executor) -> Comparison:
    """The best rates of all three, taken in turns."""
    found = Comparison(Rates(), Rates(), Rates())
    read(filled, Rates(), workers)
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}: {filled.name}")
        arguments = {"topic": filled.topic, "group": unique_name("group"), "count": filled.count}
        arguments |= {"pull_batch_size": LARGEST_PULL, "warm_up": filled.count // 2}
        done = run_load(filled.server, "pull", home, **arguments)
        found.java.note(done["count"], done["nanos"] / 1e9, done["cpuNanos"] / 1e9)
        read(filled, found.single)
        read(filled, found.each, workers)
    return found


def show(results: dict[str, Comparison]) -> bool:
    """Print the table; whether the reader reaches the goal everywhere, in one process and four."""
    table = Table(title="Four queues, read to their end: messages/s (client's cpu us/message)")
    table.add_column("broker, body")
    for column in ("Java lite pull", "one process", "ratio", "one per queue", "ratio", "cpu ratio"):
        table.add_column(column, justify="right")
    for name, found in results.items():
        table.add_row(
            name,
            *(_rate(found.java), _rate(found.single), _ratio(found.java, found.single)),
            *(_rate(found.each), _ratio(found.java, found.each)),
            f"{found.java.cpu_us / found.single.cpu_us:.2f}x",
        )
    console.print(table)
    return all(
        ours.per_second >= GOAL * found.java.per_second
        for found in results.values()
        for ours in (found.single, found.each)
    )


def _rate(rates: Rates) -> str:
    return f"{rates.per_second:,.0f} ({rates.cpu_us:.1f})"


def _ratio(java: Rates, ours: Rates) -> str:
    return f"{ours.per_second / java.per_second:.2f}x"


def soak(filled: Filled, total: int) -> None:
    """Read the same messages until there were ``total``; memory should not grow."""
    table = Table(title=f"{filled.name}: memory of the reading process")
    for column in ("messages", "messages/s", "resident MB", "since the first row MB"):
        table.add_column(column, justify="right")
    seen, first_mb, next_report = 0, 0.0, 0
    while seen < total:
        rates = Rates()
        read(filled, rates)
        seen += filled.count
        if seen >= next_report or seen >= total:
            now_mb = resident_mb("self")
            first_mb = first_mb or now_mb
            table.add_row(
                f"{seen:,}",
                f"{rates.per_second:,.0f}",
                f"{now_mb:,.1f}",
                f"{now_mb - first_mb:+,.1f}",
            )
            next_report = seen + total // SOAK_REPORTS
    console.print(table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help=f"fail below {GOAL}x")
    parser.add_argument("--soak", action="store_true", help="memory over many messages instead")
    parser.add_argument("--soak-messages", type=int, default=10_000_000)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder, rocketmq() as theirs, embedded() as ours:
        home, servers = Path(folder), (theirs, ours)
        if arguments.soak:
            for server in servers:
                count = min(arguments.messages, arguments.soak_messages)
                soak(fill(server, count, BODIES[0], home), arguments.soak_messages)
            return
        results: dict[str, Comparison] = {}
        with ProcessPoolExecutor(QUEUES, get_context("spawn")) as workers:
            for body_bytes in BODIES:
                # A fifth of them in kilobytes: as many bytes, and in reach of the page cache.
                count = arguments.messages if body_bytes == BODIES[0] else arguments.messages // 5
                for server in servers:
                    filled = fill(server, count, body_bytes, home)
                    results[filled.name] = compare(filled, arguments.rounds, home, workers)
    has_reached_goal = show(results)
    if arguments.check and not has_reached_goal:
        raise SystemExit(f"a ratio is below {GOAL}x")


if __name__ == "__main__":
    main()
