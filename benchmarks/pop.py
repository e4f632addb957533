"""Pop and acknowledge: the embedded broker beside Apache RocketMQ 5.5.0, same Java client, one run.

    python benchmarks/pop.py [--messages 100000] [--rounds 3]

Apache's push consumer in a group that the broker switched to POP takes everything of a topic and
acknowledges each message by itself; a round is over when the last acknowledgement is answered. The
brokers take turns, in turn also who begins, the best of the rounds counts, and only the ratio means
anything. Both flush asynchronously.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.broker import QUEUES, Server, embedded, load, rocketmq
from rich.console import Console
from tests.support.brokers import unique_name
from tests.support.waiting import wait_until

from rmq_ordered import Client
from rmq_ordered.protocol.answers import ensure_success
from rmq_ordered.protocol.pops import RequestMode, request_mode_request

console = Console()


def one_round(server: Server, messages: int, home: Path) -> float:
    """Fill a fresh topic and pop it empty; returns messages per second."""
    with Client(server.name_server, request_timeout_ms=15_000) as client:
        topic, group = unique_name("pops"), unique_name("poppers")
        client.broker.create_topic(topic, QUEUES)
        wait_until(lambda: topic in client.routes.topics(), "the topic is there", 60)
        load(server, "batch", home, topic=topic, count=messages)
        switch_to_pop(client, topic, group)
        return load(server, "pop", home, topic=topic, group=group, count=messages)


def switch_to_pop(client: Client, topic: str, group: str) -> None:
    """Create the group and let its members pop."""
    client.broker.heartbeat("benchmark", group, [topic])
    queue = client.routes.readable(topic)[0]
    request = request_mode_request(group, topic, RequestMode.POP)
    answer = client.broker.start(queue, request, "the mode", 15_000)
    ensure_success(answer.result(), answer.channel.address, "the mode")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, rocketmq() as theirs, embedded() as ours:
        for number in range(arguments.rounds):
            for server in (theirs, ours) if number % 2 == 0 else (ours, theirs):
                rate = one_round(server, arguments.messages, Path(folder))
                rates.setdefault(server.name, []).append(rate)
                console.print(f"round {number + 1}: {server.name:<16} {rate:>12,.0f} /s")
    for name, of_rounds in rates.items():
        console.print(f"{name:<16} {max(of_rounds):>12,.0f} popped and acknowledged /s")
    show_ratios(rates[ours.name], rates[theirs.name])


def show_ratios(ours: list[float], theirs: list[float]) -> None:
    by_round = sorted(mine / other for mine, other in zip(ours, theirs, strict=True))
    console.print(
        f"embedded / RocketMQ: {max(ours) / max(theirs):.2f}x "
        f"(by round {by_round[0]:.2f}x to {by_round[-1]:.2f}x)"
    )


if __name__ == "__main__":
    main()
