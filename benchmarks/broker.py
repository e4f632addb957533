"""The embedded broker beside Apache RocketMQ 5.5.0, under the same Apache Java client, in one run.

    python benchmarks/broker.py [--messages 1000000] [--rounds 6]

Measured per broker: time from start to ready (alone, the middle of three starts), Java batch sends,
resident memory after the first round of them, Java lite pull (32 messages a pull, not its default
of 10, so that the broker has something to do), Java sends one by one, and for each
of these the broker's processor time per message (user and system), which depends less than the
speeds on what else the machine does. The brokers take turns, in turn also who begins. Only the
ratios mean anything: of the best rounds, and round by round (middle, lowest, highest).

Resident memory is what the kernel counts for the process (VmRSS): heap, code and the pages of
mapped files. Both brokers flush asynchronously, which is RocketMQ's default and not the embedded
broker's; both have files of their own default sizes. RocketMQ may have a heap of up to 2 GB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from tests.support.brokers import unique_name
from tests.support.java_programs import JavaProgram, java_command
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered import Client, EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

console = Console()
QUEUES = 4
STARTS = 3
# What Java's consumer asks for in one pull: the most that RocketMQ gives. By itself it asks for 10.
LARGEST_PULL = 32
# What RocketMQ comes with; the tests give it smaller ones.
ROCKETMQ_FILES = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(20 * 300_000),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "timerFlushIntervalMs": "1000",
}
SPEED, CPU = " /s", " CPU us"
Measured = dict[str, float]


@dataclass
class Server:
    """One broker under load."""

    name: str
    name_server: str
    pid: Callable[[], int | None]
    ready_s: float


@contextmanager
def rocketmq() -> Iterator[Server]:
    begin = time.perf_counter()
    java_options = ("-Xmx2g", "-XX:MaxDirectMemorySize=2g")
    with RocketMq(ROCKETMQ_FILES, broker_java_options=java_options) as cluster:
        ready_s = time.perf_counter() - begin
        yield Server("RocketMQ 5.5.0", cluster.name_server, lambda: cluster.broker_pid, ready_s)


@contextmanager
def embedded() -> Iterator[Server]:
    begin = time.perf_counter()
    with EmbeddedBroker(settings={"flushDiskType": "ASYNC_FLUSH"}) as broker:
        ready_s = time.perf_counter() - begin
        yield Server("embedded", broker.name_server, lambda: broker.pid, ready_s)


def load(server: Server, mode: str, home: Path, **arguments: object) -> float:
    """Run Apache's client; returns messages per second."""
    done = run_load(server, mode, home, **arguments)
    return float(done["count"] / (done["nanos"] / 1e9))


def measured(server: Server, what: str, mode: str, home: Path, **arguments: object) -> Measured:
    """Run Apache's client; returns messages per second and the broker's time for each."""
    before = cpu_seconds(server.pid())
    done = run_load(server, mode, home, **arguments)
    spent = cpu_seconds(server.pid()) - before
    return {
        what + SPEED: done["count"] / (done["nanos"] / 1e9),
        what + CPU: 1e6 * spent / done["count"],
    }


def run_load(server: Server, mode: str, home: Path, **arguments: object) -> dict[str, Any]:
    """Run Apache's client in a JVM as it comes; returns what it says: count, nanos, cpuNanos."""
    flags = {"name-server": server.name_server, "mode": mode} | {
        name.replace("_", "-"): value for name, value in arguments.items()
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    with JavaProgram("Load", [], home, command=java_command("Load", words, home)) as program:
        (done,) = program.wait_for_event("done", 600)
    return dict(done)


def resident_mb(pid: int | str | None) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def anonymous_mb(pid: int | None) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) / 1024


def cpu_seconds(pid: int | None) -> float:
    """User and system time of a process so far, its compilers included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def one_round(server: Server, messages: int, home: Path) -> Measured:
    """A fresh topic, filled and read by Apache's client."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic = unique_name("load")
        client.broker.create_topic(topic, QUEUES)
        wait_until(lambda: topic in client.routes.topics(), "the topic is there", 60)
        sent = measured(server, "batch send", "batch", home, topic=topic, count=messages)
        filled = {
            "resident MB": resident_mb(server.pid()),
            "of it not mapped files MB": anonymous_mb(server.pid()),
        }
        reading = {"topic": topic, "group": unique_name("group"), "count": messages}
        pulled = measured(
            server, "lite pull", "pull", home, pull_batch_size=LARGEST_PULL, **reading
        )
        # Enough of them that both brokers' compilers have come to an end with this path.
        singles = max(2_000, messages // 50)
        ordered = measured(server, "ordered send", "ordered", home, topic=topic, count=singles)
    return sent | pulled | ordered | filled


def starts() -> dict[str, float]:
    """Seconds until each broker is ready, one after the other, alone: the middle of three."""
    found: dict[str, list[float]] = {}
    for number in range(STARTS):
        console.print(f"start {number + 1} of {STARTS}")
        for start in (rocketmq, embedded):
            with start() as server:
                found.setdefault(server.name, []).append(server.ready_s)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    ready = starts()
    rounds: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as folder, rocketmq() as theirs, embedded() as ours:
        for number in range(arguments.rounds):
            # Who comes second finds the disk busy with what the first one wrote.
            for server in (theirs, ours) if number % 2 == 0 else (ours, theirs):
                console.print(f"round {number + 1} of {arguments.rounds}: {server.name}")
                found = one_round(server, arguments.messages, Path(folder))
                rounds.setdefault(server.name, []).append(found)
                speeds = [f"{what} {speed:,.0f}" for what, speed in found.items() if SPEED in what]
                console.print("  " + ", ".join(speeds))
    show(ready, rounds["RocketMQ 5.5.0"], rounds["embedded"])


def show(ready: dict[str, float], theirs: list[Measured], ours: list[Measured]) -> None:
    table = Table(title="Same Java client, both brokers, both with ASYNC_FLUSH")
    table.add_column("what")
    for column in ("RocketMQ 5.5.0", "embedded", "ratio", "by round", "lowest", "highest"):
        table.add_column(column, justify="right")
    starting = (ready["RocketMQ 5.5.0"], ready["embedded"])
    table.add_row("ready s", *compared(*starting), *[""] * 3)
    for what in theirs[0]:
        if what.endswith((SPEED, CPU)):
            best = max if what.endswith(SPEED) else min
            of_best = compared(best(r[what] for r in theirs), best(r[what] for r in ours))
            ratios = [b[what] / a[what] for a, b in zip(theirs, ours, strict=True)]
            spread = (statistics.median(ratios), min(ratios), max(ratios))
            table.add_row(what, *of_best, *(f"{ratio:.2f}x" for ratio in spread))
        else:
            table.add_row(what, *compared(theirs[0][what], ours[0][what]), *[""] * 3)
    console.print(table)


def compared(theirs: float, ours: float) -> tuple[str, str, str]:
    return f"{theirs:,.1f}", f"{ours:,.1f}", f"{ours / theirs:.2f}x"


if __name__ == "__main__":
    main()
