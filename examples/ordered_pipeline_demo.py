"""The whole product on one machine: produce, process, kill -9 in the middle, restart, audit.

Starts an embedded broker, sends order events of several thousand keys to the ordered topic
``orders``, runs ``ordered_pipeline.py`` (which writes ``invoices``), ends it as a machine failure
would, starts it again, and then checks the result: per key the sequence rises, nothing is lost,
nothing was written twice by the replay, and who owned which queue when. The exit status is 0 only
if the audit holds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rmq_ordered import Client, EmbeddedBroker, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.model import MessageQueue, OutgoingMessage, QueueRange

PIPELINE = Path(__file__).with_name("ordered_pipeline.py")
EVENTS = ("created", "paid", "packed", "shipped", "delivered")
QUEUES = 4
KILL_AT = 0.4
DEADLINE_S = 300

console = Console()


@dataclass
class Audit:
    """What was found in the output topic."""

    messages: int = 0
    duplicates: int = 0
    out_of_order: list[str] = field(default_factory=list)
    lost: int = 0

    @property
    def holds(self) -> bool:
        """Whether the promises were kept."""
        return not self.out_of_order and self.lost == 0 and self.duplicates == 0


def main() -> int:
    """Run the demo; returns the exit status."""
    arguments = _arguments()
    total = arguments.keys * arguments.events
    with (
        tempfile.TemporaryDirectory(prefix="rmq-ordered-demo-") as folder,
        EmbeddedBroker() as broker,
        Client(broker.name_server) as client,
    ):
        console.print(f"Embedded broker at [bold]{broker.name_server}[/]")
        for topic in ("orders", "invoices"):
            client.broker.create_topic(topic, QUEUES)
        produce(client, arguments.keys, arguments.events)
        job = Job(broker.name_server, Path(folder), batch=max(1, total // 10))
        with Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        ) as bar:
            task = bar.add_task("Pipeline, first run", total=total)
            job.start()
            for written in watch(client, job, until=int(total * KILL_AT)):
                bar.update(task, completed=min(written, total))
            job.kill()
            bar.update(task, description="[red]killed with -9[/], second run")
            job.start()
            for written in watch(client, job, until=None):
                bar.update(task, completed=min(written, total))
            bar.update(task, completed=total, description="Pipeline, done")
        report = audit(client, arguments.keys, arguments.events)
        show(report, total)
        show_owners(client)
    return 0 if report.holds else 1


def produce(client: Client, keys: int, events: int) -> None:
    """Send every order's events in order; all orders interleaved, as in real life."""
    producer = OrderedProducer(client, "orders")
    with console.status(f"Producing {keys * events:,} events of {keys:,} orders ..."):
        for sequence in range(events):
            routed: dict[MessageQueue, list[OutgoingMessage]] = defaultdict(list)
            for number in range(keys):
                key = f"order-{number}"
                event = {
                    "order_id": key,
                    "sequence": sequence,
                    "event": EVENTS[sequence % len(EVENTS)],
                    "amount_cents": 100 * (number + 1),
                }
                message = producer.message(json.dumps(event).encode(), key=key)
                routed[producer.queue_of(key)].append(message)
            producer.send_all(routed)
    console.print(f"Produced [bold]{keys * events:,}[/] events of {keys:,} orders, {QUEUES} queues")


class Job:
    """The pipeline as a process of its own."""

    def __init__(self, name_server: str, folder: Path, batch: int) -> None:
        self._command = [
            sys.executable, str(PIPELINE), "--name-server", name_server,
            "--checkpoint", str(folder / "checkpoint"), "--batch", str(batch),
        ]  # fmt: skip
        self.log = folder / "pipeline.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in a session of its own, so that all of its processes can be found."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """End driver, JVM and Python workers at once with SIGKILL: nobody gets to say goodbye."""
        if self._process is None:
            return
        for pid in _session_members(self._process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    @property
    def status(self) -> int | None:
        """The exit status, or None while it runs."""
        return None if self._process is None else self._process.poll()


def watch(client: Client, job: Job, until: int | None) -> Iterator[int]:
    """Yield how many messages the output topic holds, until it has so many or the job has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        spans = client.broker.topic_stats("invoices").values()
        written = sum(span.maximum for span in spans)
        yield written
        if until is not None and written >= until:
            return
        if job.status is not None:
            if job.status == 0 and until is None:
                return
            tail = "\n".join(job.log.read_text(errors="replace").splitlines()[-30:])
            raise SystemExit(f"the pipeline ended with status {job.status}:\n{tail}")
        time.sleep(0.2)
    raise SystemExit(f"the pipeline made no end within {DEADLINE_S} s; see {job.log}")


def audit(client: Client, keys: int, events: int) -> Audit:
    """Read the output topic queue by queue and follow every key through it."""
    report = Audit()
    last_seen: dict[str, int] = {}
    reader = QueueReader(client)
    for queue, span in client.broker.topic_stats("invoices").items():
        for batch in reader.read(ReadPlan(QueueRange(queue, span.minimum, span.maximum))):
            keys_and_values = zip(
                batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
            )
            for key, value in keys_and_values:
                follow(report, last_seen, key, json.loads(value)["sequence"])
    report.lost = keys * events - sum(last + 1 for last in last_seen.values())
    return report


def follow(report: Audit, last_seen: dict[str, int], key: str, sequence: int) -> None:
    """One message: the next of its key, a repetition of an earlier one, or a broken promise."""
    report.messages += 1
    expected = last_seen.get(key, -1) + 1
    if sequence == expected:
        last_seen[key] = sequence
    elif sequence < expected:
        report.duplicates += 1
    else:
        report.out_of_order.append(f"{key}: expected {expected}, found {sequence}")


def show(report: Audit, total: int) -> None:
    """The verdict."""
    verdict = Table(title="Audit of topic invoices", title_justify="left")
    verdict.add_column("check")
    verdict.add_column("found", justify="right")
    verdict.add_column("verdict")
    good, bad = "[green]holds[/]", "[red]BROKEN[/]"
    inversions = len(report.out_of_order)
    verdict.add_row("events produced", f"{total:,}", "")
    verdict.add_row("messages written", f"{report.messages:,}", "")
    verdict.add_row("per key strictly rising", f"{inversions} breaks", bad if inversions else good)
    verdict.add_row("lost", f"{report.lost:,}", bad if report.lost else good)
    twice = report.duplicates
    verdict.add_row("written twice by the replay", f"{twice:,}", bad if twice else good)
    console.print(verdict)
    for line in report.out_of_order[:5]:
        console.print(f"  [red]{line}[/]")


def show_owners(client: Client) -> None:
    """Who held which queue when, from the broker's own history."""
    _, history = client.broker.leases(group="billing")
    owners = Table(title="Owners of the queues of topic orders", title_justify="left")
    for column in ("at", "what", "queues", "owner", "epoch"):
        owners.add_column(column)
    rows: Counter[tuple[str, str, str, int]] = Counter()
    queues: dict[tuple[str, str, str, int], list[str]] = defaultdict(list)
    for event in history:
        at = datetime.fromtimestamp(event.at_ms / 1000, UTC).strftime("%H:%M:%S")
        row = (at, event.reason, event.owner or event.previous_owner or "", event.epoch)
        rows[row] += 1
        queues[row].append(str(event.queue.queue_id))
    for row in rows:
        at, reason, owner, epoch = row
        owners.add_row(at, reason, ", ".join(queues[row]), owner, str(epoch))
    console.print(owners)


def _session_members(session: int) -> list[int]:
    """Every process of a session, from /proc; the leader alone where there is no /proc."""
    members = [session]
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if int(fields[3]) == session:
            members.append(int(entry.parent.name))
    return members


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ordered pipeline with a crash in the middle")
    parser.add_argument("--keys", type=int, default=4_000, help="how many orders")
    parser.add_argument("--events", type=int, default=20, help="how many events per order")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
