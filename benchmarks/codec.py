"""How fast do pulled bytes become messages? Reference decoder against columnar decoder, one core.

    python benchmarks/codec.py [--quick] [--messages N] [--body-bytes N] [--check]

The columnar decoder is timed on the bodies of single stock pulls (32 messages) and of many pulls
joined; bodies are checksummed and the four properties that are columns are selected, unless a row
says otherwise. Processor time is counted, so other programs on the machine disturb little.
``--check`` makes a ratio below the goal an error.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from rmq_ordered.columnar import MESSAGE_COLUMNS, DecodeOptions, decode_pull_body
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.message import decode_messages, encode_message

QUEUE = MessageQueue("orders", "broker-a", 3)
STOCK_PULL = 32
REPEATS = 5
PROPERTY_COLUMNS = frozenset({"key", "tags", "index_keys", "message_id"})
NO_PROPERTIES = "columnar, no properties"
SELECTED = "columnar, 4 properties"
# How many times the reference's speed.
GOALS = {NO_PROPERTIES: 15.0, SELECTED: 5.0}


def main() -> None:
    arguments = parse_arguments()
    count = 2_048 if arguments.quick else arguments.messages
    records = [encode_message(make_message(i, arguments.body_bytes)) for i in range(count)]
    joined = chunked(records, 4_096)
    single = chunked(records, STOCK_PULL)
    fixed = DecodeOptions(columns=frozenset(MESSAGE_COLUMNS) - PROPERTY_COLUMNS)
    unchecked = DecodeOptions(verify_crc=False)
    checked = DecodeOptions()
    mapped = DecodeOptions(include_properties=True)
    runs: list[tuple[str, Callable[[], None]]] = [
        ("reference, one by one", lambda: decode_by_reference(joined)),
        (NO_PROPERTIES, lambda: decode_columnar(joined, fixed)),
        ("columnar, no checksums", lambda: decode_columnar(joined, unchecked)),
        (SELECTED, lambda: decode_columnar(joined, checked)),
        ("columnar, map of all properties", lambda: decode_columnar(joined, mapped)),
        ("columnar, 4 properties, 32 a call", lambda: decode_columnar(single, checked)),
    ]
    table = Table("decoder", "messages/s", "MB/s", "against the reference", box=None)
    total_mb = sum(map(len, records)) / 1e6
    # Arrow loads its kernels on first use; that is not decoding.
    decode_columnar(joined[:1], mapped)
    baseline = 0.0
    missed: list[str] = []
    for name, run in runs:
        seconds = best_of(run, 1 if arguments.quick else REPEATS)
        baseline = baseline or seconds
        rate, ratio = count / seconds, baseline / seconds
        if ratio < GOALS.get(name, 0.0):
            missed.append(f"{name}: {ratio:.1f}x where {GOALS[name]:.0f}x is the goal")
        table.add_row(name, f"{rate:,.0f}", f"{total_mb / seconds:,.0f}", f"{ratio:.1f}x")
    Console().print(
        f"{count:,} messages, bodies of {arguments.body_bytes} bytes, 8 properties each"
    )
    Console().print(table)
    if arguments.check and missed:
        raise SystemExit("; ".join(missed))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=65_536)
    parser.add_argument("--body-bytes", type=int, default=100)
    parser.add_argument("--check", action="store_true", help="fail below the goals")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few messages, once")
    return parser.parse_args()


def make_message(number: int, body_bytes: int) -> Message:
    """A message with the properties that a Java producer and an Apache broker leave on it."""
    return Message(
        queue=QUEUE,
        queue_offset=number,
        commit_log_offset=number * 400,
        body=(number.to_bytes(8, "big") * (body_bytes // 8 + 1))[:body_bytes],
        properties={
            "KEYS": f"order-{number}",
            "UNIQ_KEY": f"7F0000012A9F18B4AAC2{number:012X}",
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "WAIT": "true",
            "TAGS": "TagA",
            "__SHARDINGKEY": f"customer-{number % 1000}",
        },
        born_timestamp_ms=1_700_000_000_000 + number,
        store_timestamp_ms=1_700_000_000_001 + number,
        born_host="10.0.0.1:5555",
        store_host="10.0.0.2:10911",
    )


def chunked(records: list[bytes], size: int) -> list[bytes]:
    return [b"".join(records[at : at + size]) for at in range(0, len(records), size)]


def decode_by_reference(bodies: list[bytes]) -> None:
    for body in bodies:
        for _ in decode_messages(body, broker_name=QUEUE.broker_name):
            pass


def decode_columnar(bodies: list[bytes], options: DecodeOptions) -> None:
    for body in bodies:
        decode_pull_body(body, QUEUE, options)


def best_of(run: Callable[[], None], repeats: int) -> float:
    """Processor seconds of the shortest of several runs."""
    seconds = []
    for _ in range(repeats):
        gc.collect()
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
