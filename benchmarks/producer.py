"""How fast are ordered sends, beside Apache's Java producer with a selector?

Each row is one broker and one size of bodies. Java sends synchronously with the hash selector, one
message after the other, on one thread, as an ordered producer has to. Ours writes Arrow batches
with a key per row, one request in flight per queue, without and with stamps. The last line is the
encoder alone. Everything runs on one machine that the brokers share; both flush asynchronously.

    python benchmarks/producer.py [--rows N] [--java N] [--rounds N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from tests.support.brokers import unique_name
from tests.support.java_programs import JavaProgram
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered import Client, EmbeddedBroker, OrderedProducer
from rmq_ordered.client import SendSettings
from rmq_ordered.columnar.digest import running_digests
from rmq_ordered.columnar.outgoing import rows_from_columns
from rmq_ordered.columnar.records import RecordIdentity, encode_records
from rmq_ordered.model import MessageQueue, SendStream

if TYPE_CHECKING:
    from collections.abc import Iterator

console = Console()
QUEUES = 8
KEYS = 10_000
# What Spark hands to a Python writer at a time.
BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Server:
    """One broker under load."""

    name: str
    name_server: str


@contextmanager
def rocketmq() -> Iterator[Server]:
    with RocketMq(broker_java_options=("-Xmx2g", "-XX:MaxDirectMemorySize=2g")) as cluster:
        yield Server("RocketMQ 5.5.0", cluster.name_server)


@contextmanager
def embedded() -> Iterator[Server]:
    with EmbeddedBroker(settings={"flushDiskType": "ASYNC_FLUSH"}) as broker:
        yield Server("embedded", broker.name_server)


def rows_of(body_bytes: int) -> pa.RecordBatch:
    """Random bodies, so that nothing is compressed by accident, and keys that repeat."""
    random = np.random.default_rng(1)
    data = pa.py_buffer(random.bytes(BATCH_ROWS * body_bytes))
    ends = pa.py_buffer(np.arange(BATCH_ROWS + 1, dtype=np.int32) * np.int32(body_bytes))
    bodies = pa.Array.from_buffers(pa.binary(), BATCH_ROWS, [None, ends, data])
    keys = pa.array([f"order-{number}" for number in random.integers(0, KEYS, BATCH_ROWS)])
    return pa.record_batch({"key": keys, "value": bodies})


def create_topic(client: Client) -> str:
    topic = unique_name("produced")
    client.broker.create_topic(topic, QUEUES)
    wait_until(lambda: topic in client.routes.topics(), "the topic is there", 60)
    return topic


def ours(server: Server, rows: pa.RecordBatch, count: int, *, stamped: bool) -> float:
    """Rows per second, a new topic each time; ``stamped`` is idempotence against replays."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        settings = SendSettings(idempotent=stamped)
        producer = OrderedProducer(client, create_topic(client), settings=settings)
        stream = SendStream("benchmark", 0, 0) if stamped else None
        with producer.writer(stream) as writer:
            begin = time.perf_counter()
            for _ in range(0, count, rows.num_rows):
                writer.write(rows)
            receipts = writer.finish()
            seconds = time.perf_counter() - begin
    return sum(receipt.count for receipt in receipts.values()) / seconds


def java(server: Server, body_bytes: int, count: int, home: Path) -> float:
    """Messages per second of Apache's ordered send."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic = create_topic(client)
    words = ["--name-server", server.name_server, "--mode", "ordered", "--topic", topic]
    words += ["--count", str(count), "--body-bytes", str(body_bytes)]
    with JavaProgram("Load", words, home) as program:
        (done,) = program.wait_for_event("done", 600)
    return float(done["count"] / (done["nanos"] / 1e9))


def encoder(rows: pa.RecordBatch, rounds: int) -> float:
    """Rows per second from columns to stamped batch bodies, without a broker."""
    identity = RecordIdentity.of("benchmark", MessageQueue("t", "b", 0), "benchmark/0/0/")
    best = 0.0
    for _ in range(5 * rounds):
        begin = time.perf_counter()
        outgoing = rows_from_columns(rows)
        digests = running_digests(outgoing.hashes, 0, 0)
        for start in range(0, len(outgoing), 2_500):
            part = outgoing.slice(start, start + 2_500)
            encode_records(part, identity, start, digests[start : start + 2_500])
        best = max(best, rows.num_rows / (time.perf_counter() - begin))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--java", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    table = Table(title="Ordered sends, messages per second (best of the rounds)")
    for name in ("broker", "body", "Java", "ours", "ratio", "idempotent", "ratio", "its cost"):
        table.add_column(name, justify="left" if name == "broker" else "right")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(rocketmq()), stack.enter_context(embedded())]
        for server in servers:
            for body_bytes in (100, 1_024):
                table.add_row(*measure(server, body_bytes, arguments, home))
    console.print(table)
    for body_bytes in (100, 1_024):
        speed = encoder(rows_of(body_bytes), arguments.rounds)
        console.print(f"encoder alone, {body_bytes} B: {speed:,.0f} rows/s")


def measure(
    server: Server, body_bytes: int, arguments: argparse.Namespace, home: Path
) -> tuple[str, ...]:
    rows = rows_of(body_bytes)
    count = arguments.rows if body_bytes < 1_000 else arguments.rows // 4
    theirs = plain = stamped = 0.0
    for number in range(arguments.rounds):
        console.print(f"{server.name}, {body_bytes} B, round {number + 1} of {arguments.rounds}")
        theirs = max(theirs, java(server, body_bytes, arguments.java, home))
        plain = max(plain, ours(server, rows, count, stamped=False))
        stamped = max(stamped, ours(server, rows, count, stamped=True))
    return (
        server.name,
        f"{body_bytes} B",
        f"{theirs:,.0f}",
        f"{plain:,.0f}",
        f"{plain / theirs:,.1f}x",
        f"{stamped:,.0f}",
        f"{stamped / theirs:,.1f}x",
        f"{100 * (1 - stamped / plain):,.0f} %",
    )


if __name__ == "__main__":
    main()
