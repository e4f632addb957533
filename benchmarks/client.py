"""Our reader beside Apache's Java lite pull consumer, on the same queues of the same broker.

    python benchmarks/client.py [--messages 1000000] [--rounds 3] [--check]
    python benchmarks/client.py --soak [--soak-messages 10000000]

Both brokers are filled by Apache's batch producer, with bodies of 100 bytes and of 1 KiB. Java and
Python then read the same four queues in turns, and the best of the rounds counts: the machine is
shared, so only the ratios mean anything. The reader is one process that reads one queue after the
other into Arrow batches with every column but the map of properties, checksums verified.

``--check`` makes a ratio below the goal an error. ``--soak`` reads the same queues again and again
and shows how much memory the process has at intervals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.broker import Server, embedded, load, resident_mb, rocketmq
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
    """A fresh topic, filled by Apache's client and read once, so that no side finds it cold."""
    batch_size = BATCH_SIZES[body_bytes]
    count = messages // batch_size * batch_size
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic = unique_name("load")
        client.broker.create_topic(topic, QUEUES)
        wait_until(lambda: topic in client.routes.topics(), "the topic is there", 60)
        options = {"batch_size": batch_size, "body_bytes": body_bytes}
        load(server, "batch", home, topic=topic, count=count, **options)
        # RocketMQ acknowledges a send before its consume queue shows the message.
        wait_until(lambda: sum(ends(client, topic).values()) == count, "all can be read", 60)
    filled = Filled(server, topic, count, body_bytes)
    read(filled)
    return filled


def ends(client: Client, topic: str) -> dict[MessageQueue, int]:
    return {queue: client.broker.max_offset(queue) for queue in client.routes.readable(topic)}


def read(filled: Filled) -> float:
    """Read every queue to its end, one after the other; returns messages per second."""
    with Client(filled.server.name_server, request_timeout_ms=15_000) as client:
        reader = QueueReader(client)
        features = client.routes.features(filled.topic)
        lengths = ends(client, filled.topic)
        begin = time.perf_counter()
        rows = sum(
            batch.num_rows
            for queue, end in lengths.items()
            for batch in reader.read(ReadPlan(QueueRange(queue, 0, end), features=features))
        )
        seconds = time.perf_counter() - begin
    if rows != filled.count:
        raise SystemExit(f"{filled.name}: expected {filled.count} messages, read {rows}")
    return rows / seconds


def compare(filled: Filled, rounds: int, home: Path) -> tuple[float, float]:
    """The best rates of Java's consumer and of the reader, taken in turns."""
    java = ours = 0.0
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}: {filled.name}")
        arguments = {"topic": filled.topic, "group": unique_name("group"), "count": filled.count}
        java = max(java, load(filled.server, "pull", home, **arguments))
        ours = max(ours, read(filled))
    return java, ours


def show(results: dict[str, tuple[float, float]]) -> bool:
    """Print the table; whether every ratio reaches the goal."""
    table = Table(title="Four queues, read to their end")
    for column in ("broker, body", "Java lite pull /s", "QueueReader /s", "ratio"):
        table.add_column(column, justify="left" if column.startswith("broker") else "right")
    for name, (java, ours) in results.items():
        table.add_row(name, f"{java:,.0f}", f"{ours:,.0f}", f"{ours / java:.2f}x")
    console.print(table)
    return all(ours >= GOAL * java for java, ours in results.values())


def soak(filled: Filled, total: int) -> None:
    """Read the same messages until there were ``total``; memory should not grow."""
    table = Table(title=f"{filled.name}: memory of the reading process")
    for column in ("messages", "messages/s", "resident MB", "since the first row MB"):
        table.add_column(column, justify="right")
    seen, first_mb, next_report = 0, 0.0, 0
    while seen < total:
        rate = read(filled)
        seen += filled.count
        if seen >= next_report or seen >= total:
            now_mb = own_resident_mb()
            first_mb = first_mb or now_mb
            table.add_row(
                f"{seen:,}", f"{rate:,.0f}", f"{now_mb:,.1f}", f"{now_mb - first_mb:+,.1f}"
            )
            next_report += total // SOAK_REPORTS
    console.print(table)


def own_resident_mb() -> float:
    return resident_mb("self")


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
        results: dict[str, tuple[float, float]] = {}
        for body_bytes in BODIES:
            # A fifth of them in kilobytes: as many bytes, and in reach of the page cache.
            count = arguments.messages if body_bytes == BODIES[0] else arguments.messages // 5
            for server in servers:
                filled = fill(server, count, body_bytes, home)
                results[filled.name] = compare(filled, arguments.rounds, home)
    has_reached_goal = show(results)
    if arguments.check and not has_reached_goal:
        raise SystemExit(f"a ratio is below {GOAL}x")


if __name__ == "__main__":
    main()
