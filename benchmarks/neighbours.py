"""A normal client beside a bad neighbour, on one embedded broker of 512 MB.

    python benchmarks/neighbours.py [--only NAME] [--check]

The normal client sends, pulls what it sent and renews its lease every 100 ms, in a process of its
own; meanwhile another process does one thing that no reasonable client does: each attack of
``attacks.py``, one after another, against the same broker. Shown are the worst latencies of the
normal client, what went wrong for it, and the broker's memory after the attack, its client gone and
a full collection done, beside what it was before the first.

``--check`` makes it an error when a latency reaches a second, when anything went wrong or the lease
was lost, or when memory is not back to within 20 %, or 32 MB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.attacks import TOPIC, Attack, all_attacks, prepare, pull_fields, send_fields
from benchmarks.raw import Raw, json_body
from rich.console import Console
from rich.table import Table

from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.embedded.launcher import find_java

console = Console()
EVERY_S = 0.1
GOAL_S = 1.0
TIMEOUT_S = 60.0
# What comes back within 20 %, but for this: the network keeps some buffers for the next answer.
SLACK_BYTES = 32 * 1024 * 1024
BACK = 1.2
ATTACK_S = 180.0
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Felt:
    """What the normal client felt."""

    worst: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    rounds: int = 0

    @property
    def worst_s(self) -> float:
        """Of all it did."""
        return max(self.worst.values(), default=0.0)


@dataclass(frozen=True)
class Row:
    """One attack."""

    name: str
    felt: Felt
    seconds: float
    memory: int
    is_back: bool

    @property
    def is_good(self) -> bool:
        """Whether nobody had to suffer."""
        return self.felt.worst_s < GOAL_S and not self.felt.errors and self.is_back


class NormalClient:
    """Sends to a queue, reads it and keeps the lease of it, one thing after another."""

    def __init__(self, address: str) -> None:
        self._client = Raw(address, TIMEOUT_S)
        self._epoch: int | None = None
        self.felt = Felt()

    def one_round(self) -> None:
        """A send, a pull and a renewal."""
        header, _ = self._timed("send", 310, send_fields(TOPIC, 0), b"an order")
        offset = int(header["extFields"]["queueOffset"])
        _, body = self._timed("pull", 11, pull_fields(TOPIC, "normal", offset))
        if b"an order" not in body:
            self.felt.errors.append("the pull did not bring what was sent")
        self._renew()
        self.felt.rounds += 1

    def _renew(self) -> None:
        queue = {"brokerName": "broker-a", "queueId": 0, "topic": TOPIC}
        body = {"clientId": "normal", "consumerGroup": "normal", "mqSet": [queue]}
        _, answer = self._timed("renew", 41, {}, json_body(body))
        (lease,) = _leases(answer)
        if not lease["granted"] or self._epoch not in {None, lease["epoch"]}:
            self.felt.errors.append(f"the lease was lost: {lease}")
        self._epoch = int(str(lease["epoch"]))

    def _timed(
        self, what: str, code: int, fields: dict[str, object], body: bytes = b""
    ) -> tuple[dict[str, dict[str, str]], bytes]:
        begun = time.perf_counter()
        header, answer = self._client.call(code, fields, body)
        taken = time.perf_counter() - begun
        self.felt.worst[what] = max(self.felt.worst.get(what, 0.0), taken)
        if header["code"] != 0:
            raise RuntimeError(f"{what} was answered {header}")
        return header, answer


def _leases(answer: bytes) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(answer)["leases"]
    return found


def live_normally(address: str, ready: Event, stop: Event, result: Connection) -> None:
    """The normal client's process."""
    client = NormalClient(address)
    try:
        client.one_round()
        client.felt = Felt()
        ready.set()
        while not stop.wait(EVERY_S):
            client.one_round()
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        client.felt.errors.append(f"{type(error).__name__}: {error}")
        ready.set()
    result.send(client.felt)


def suffer(address: str, attack_name: str) -> tuple[Felt, float]:
    """Run the normal client and one attack beside each other; what it felt, for how long."""
    ready, stop = _SPAWN.Event(), _SPAWN.Event()
    result, theirs = _SPAWN.Pipe(duplex=False)
    normal = _SPAWN.Process(target=live_normally, args=(address, ready, stop, theirs))
    normal.start()
    ready.wait(TIMEOUT_S)
    begun = time.monotonic()
    attacker = _SPAWN.Process(target=run_attack, args=(address, attack_name))
    attacker.start()
    attacker.join(ATTACK_S)
    if attacker.is_alive():
        attacker.terminate()
        attacker.join()
    seconds = time.monotonic() - begun
    # What the broker still has to do for the attacker counts as well.
    time.sleep(1)
    stop.set()
    felt = Felt(errors=["it did not end"])
    if result.poll(2 * TIMEOUT_S):
        felt = result.recv()
    normal.join(TIMEOUT_S)
    return felt, seconds


def run_attack(address: str, name: str) -> None:
    """The attacker's process. An attack that is refused has failed, which is what is wanted."""
    with contextlib.suppress(OSError):
        attack_named(name)(address)


def attack_named(name: str) -> Attack:
    """One of ``attacks.py``."""
    return dict(all_attacks())[name]


def memory_after_collection(broker: EmbeddedBroker) -> int:
    """Bytes of heap in use and of buffers, once what can be freed is freed."""
    jcmd = find_java().parent / "jcmd"
    subprocess.run([jcmd, str(broker.pid), "GC.run"], check=True, capture_output=True)
    client = Raw(broker.name_server)
    _, answer = client.call(28, {})
    client.close()
    table = json.loads(answer)["table"]
    return int(table["heapUsed"]) + int(table["directMemoryUsed"])


def rows(broker: EmbeddedBroker, only: str | None) -> Iterator[Row]:
    """One for each attack, against the same broker."""
    prepare(broker.name_server)
    # Once without an attack: what is loaded and compiled then is not blamed on anybody.
    suffer(broker.name_server, "code 106")
    before = memory_after_collection(broker)
    for name, _ in all_attacks():
        if only is None or only in name:
            felt, seconds = suffer(broker.name_server, name)
            memory = 0
            if broker.is_running:
                memory = memory_after_collection(broker)
            else:
                felt.errors.append("the broker has ended")
            is_back = 0 < memory <= max(before * BACK, before + SLACK_BYTES)
            yield Row(name, felt, seconds, memory, is_back)
            if not broker.is_running:
                return


def table_of(found: list[Row]) -> Table:
    """For people."""
    table = Table("attack", "lasted s", "send ms", "pull ms", "renew ms", "MB after", "wrong")
    for row in found:
        worst = [f"{row.felt.worst.get(what, 0) * 1000:.0f}" for what in ("send", "pull", "renew")]
        wrong = "; ".join(error[:100] for error in row.felt.errors[:2])
        if not row.is_back:
            wrong = "; ".join(filter(None, [wrong, "memory is not back"]))
        memory = f"{row.memory / 1e6:.0f}"
        table.add_row(row.name, f"{row.seconds:.1f}", *worst, memory, wrong)
    return table


def main() -> None:
    """Run all attacks, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="attacks whose names contain this")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    found: list[Row] = []
    with EmbeddedBroker() as broker:
        for row in rows(broker, arguments.only):
            found.append(row)
            console.print(f"{row.name}: {row.felt.worst_s * 1000:.0f} ms", highlight=False)
    console.print(table_of(found))
    if arguments.check and not all(row.is_good for row in found):
        console.print("an ordinary client had to suffer from a bad neighbour", style="red")
        sys.exit(1)


if __name__ == "__main__":
    main()
