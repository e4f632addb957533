"""How fast are ordered sends, beside Apache's Java producer with a selector?

Each row is one broker and one size of bodies. Java sends synchronously with the hash selector, one
message after the other, on one thread, as an ordered producer has to. Ours writes Arrow batches
with a key per row, one request in flight per queue, without and with stamps, in turns: the cost of
stamps is the middle one of the pairs' ratios, of time and of processor time (client and broker
together). The last line is the encoder alone. Everything runs on one machine that the brokers
share; both flush asynchronously.

    python benchmarks/producer.py [--rows N] [--java N] [--pairs N] [--broker NAME]
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from benchmarks.broker import Server, embedded, load, rocketmq
from benchmarks.paired import Spent, in_turns, spending
from rich.console import Console
from rich.table import Table
from tests.support.brokers import unique_name
from tests.support.waiting import wait_until

from rmq_ordered import Client, OrderedProducer
from rmq_ordered.client import SendSettings
from rmq_ordered.columnar.digest import running_digests
from rmq_ordered.columnar.outgoing import rows_from_columns
from rmq_ordered.columnar.records import RecordIdentity, encode_records
from rmq_ordered.model import MessageQueue, SendStream

console = Console()
QUEUES = 8
KEYS = 10_000
# What Spark hands to a Python writer at a time.
BATCH_ROWS = 10_000
BODIES = (100, 1_024)
BROKERS = {"rocketmq": rocketmq, "embedded": embedded}


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


def ours(server: Server, rows: pa.RecordBatch, count: int, *, stamped: bool) -> Spent:
    """What so many rows cost, a new topic each time; ``stamped`` is idempotence against replays."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        settings = SendSettings(idempotent=stamped)
        producer = OrderedProducer(client, create_topic(client), settings=settings)
        stream = SendStream(f"w-{secrets.token_urlsafe(16)}", 0, 0) if stamped else None
        with producer.writer(stream) as writer, spending(taking_part(server)) as spent:
            for _ in range(0, count, rows.num_rows):
                writer.write(rows)
            receipts = writer.finish()
    if sum(receipt.count for receipt in receipts.values()) != count:
        raise SystemExit(f"{count} rows were written, but the receipts are {receipts}")
    return spent


def taking_part(server: Server) -> list[int]:
    """The processes whose time counts: this one, its children, and the broker."""
    broker = server.pid()
    return [os.getpid()] if broker is None else [os.getpid(), broker]


def java(server: Server, body_bytes: int, count: int, home: Path) -> float:
    """Messages per second of Apache's ordered send."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic = create_topic(client)
    return load(server, "ordered", home, topic=topic, count=count, body_bytes=body_bytes)


def encoder(rows: pa.RecordBatch, rounds: int) -> float:
    """Rows per second from columns to stamped batch bodies, without a broker."""
    identity = RecordIdentity.of("benchmark", MessageQueue("t", "b", 0), "benchmark/0/0/")
    best = 0.0
    for _ in range(5 * rounds):
        begin = time.perf_counter()
        outgoing = rows_from_columns(rows)
        digests = running_digests(outgoing.hashes(), 0, 0)
        for start in range(0, len(outgoing), 2_500):
            part = outgoing.slice(start, start + 2_500)
            encode_records(part, identity, start, digests[start : start + 2_500])
        best = max(best, rows.num_rows / (time.perf_counter() - begin))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--java", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--broker", choices=BROKERS, action="append")
    arguments = parser.parse_args()
    table = Table(title="Ordered sends, messages per second (the middle of the rounds)")
    for name in (
        "broker",
        "body",
        "Java",
        "ours",
        "ratio",
        "stamped",
        "ratio",
        "cost",
        "best",
        "cpu",
    ):
        table.add_column(name, justify="left" if name == "broker" else "right")
    with tempfile.TemporaryDirectory() as home:
        for name in arguments.broker or BROKERS:
            with BROKERS[name]() as server:
                for body_bytes in BODIES:
                    table.add_row(*measure(server, body_bytes, arguments, Path(home)))
    console.print(table)
    for body_bytes in BODIES:
        speed = encoder(rows_of(body_bytes), arguments.pairs)
        console.print(f"encoder alone, {body_bytes} B: {speed:,.0f} rows/s")


def measure(
    server: Server, body_bytes: int, arguments: argparse.Namespace, home: Path
) -> tuple[str, ...]:
    console.print(f"{server.name}, {body_bytes} B")
    rows = rows_of(body_bytes)
    count = arguments.rows if body_bytes < 1_000 else arguments.rows // 4
    count -= count % BATCH_ROWS
    theirs = max(java(server, body_bytes, arguments.java, home) for _ in range(2))
    pairs = in_turns(
        lambda: ours(server, rows, count, stamped=False),
        lambda: ours(server, rows, count, stamped=True),
        arguments.pairs,
    )
    plain, stamped = count / pairs.plain_s, count / pairs.dearer_s
    return (
        server.name,
        f"{body_bytes} B",
        f"{theirs:,.0f}",
        f"{plain:,.0f}",
        f"{plain / theirs:,.1f}x",
        f"{stamped:,.0f}",
        f"{stamped / theirs:,.1f}x",
        f"{100 * pairs.cost:+,.0f} %",
        f"{100 * pairs.best_cost:+,.0f} %",
        f"{100 * pairs.cpu_cost:+,.0f} %",
    )


if __name__ == "__main__":
    main()
