"""SIGKILL of the embedded broker under load, again and again: acknowledged means stored, in order.

Each round several producers send to several queues while the broker is killed at a random moment.
What a producer was told is stored must be there after the restart, at the offset it was told, in
the order it was sent, and once. Only the one batch per queue without an answer may be there twice.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import MessageQueue, QueueRange

PRODUCERS = 4
QUEUES = 3
# A longer run: RMQ_ORDERED_CRASH_ROUNDS=50
ROUNDS = int(os.environ.get("RMQ_ORDERED_CRASH_ROUNDS", "3"))
SEED = int(os.environ.get("RMQ_ORDERED_CRASH_SEED", "20240607"))
# After a kill under load an answer may take its time.
PATIENCE_MS = 15_000

Place = tuple[MessageQueue, int]


class LoadedProducer(threading.Thread):
    """Sends numbered batches until the broker is gone, and keeps what it was told."""

    def __init__(self, name_server: str, number: int, enough: threading.Semaphore) -> None:
        super().__init__(name=f"producer-{number}")
        self._name_server = name_server
        self._number = number
        self._enough = enough
        self.acknowledged: dict[Place, bytes] = {}
        self.unanswered: list[bytes] = []
        self.unexpected: Exception | None = None

    def run(self) -> None:
        try:
            with Client(self._name_server) as client:
                # A short patience: nobody restarts the broker within the round.
                producer = OrderedProducer(client, "orders", send_timeout_ms=1_000)
                self._send_until_refused(producer)
        except Exception as error:  # a thread's entry point: the test looks at it
            self.unexpected = error

    def _send_until_refused(self, producer: OrderedProducer) -> None:
        count = 0
        while True:
            key = f"key-{self._number}-{count % 5}"
            bodies = [b"%s-%d-%d" % (key.encode(), count, i) for i in range(1 + count % 4)]
            queue = producer.queue_of(key)
            messages = [producer.message(body, key=key) for body in bodies]
            self.unanswered = bodies
            try:
                results = producer.send_all({queue: messages})[queue]
            except RmqOrderedError:
                return
            places = [
                (queue, offset)
                for result in results
                for offset in range(result.first_offset, result.first_offset + result.count)
            ]
            self.acknowledged.update(zip(places, bodies, strict=True))
            self.unanswered = []
            count += 1
            self._enough.release()


def stored(client: Client) -> Iterator[tuple[Place, bytes]]:
    """Everything in the topic, queue by queue, in offset order."""
    for queue, span in client.broker.topic_stats("orders").items():
        for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, span.maximum))):
            offsets = batch.column("offset").to_pylist()
            values = batch.column("value").to_pylist()
            for offset, value in zip(offsets, values, strict=True):
                yield (queue, offset), value


def kill_under_load(broker: EmbeddedBroker, round_number: int, moment: int) -> list[LoadedProducer]:
    """Let producers send, kill the broker once `moment` batches were acknowledged."""
    enough = threading.Semaphore(0)
    producers = [
        LoadedProducer(broker.name_server, round_number * PRODUCERS + n, enough)
        for n in range(PRODUCERS)
    ]
    for producer in producers:
        producer.start()
    for _ in range(moment):
        assert enough.acquire(timeout=30), "the producers got no answers"
    broker.kill()
    for producer in producers:
        producer.join(timeout=30)
        assert not producer.is_alive(), f"{producer.name} hangs"
        assert producer.unexpected is None, f"{producer.name}: {producer.unexpected!r}"
    return producers


@proves("acked-survives-kills-under-load")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_what_was_acknowledged_survives_kills_under_load(tmp_path: Path, flush: str) -> None:
    moments = random.Random(SEED)
    # Small files and frequent checkpoints, so that kills meet rolls and checkpoints too.
    settings = {
        "flushDiskType": flush,
        "maxMessageSize": "65536",
        "mappedFileSizeCommitLog": "262144",
        "mappedFileSizeConsumeQueue": "2000",
        "checkpointIntervalMs": "100",
    }
    acknowledged: dict[Place, bytes] = {}
    unanswered: set[bytes] = set()
    with EmbeddedBroker(tmp_path / "broker", settings=settings) as broker:
        with Client(broker.name_server, request_timeout_ms=PATIENCE_MS) as client:
            client.broker.create_topic("orders", QUEUES)
        for round_number in range(ROUNDS):
            producers = kill_under_load(broker, round_number, moments.randrange(20, 250))
            for producer in producers:
                acknowledged.update(producer.acknowledged)
                unanswered.update(producer.unanswered)
            broker.start()
            with Client(broker.name_server, request_timeout_ms=PATIENCE_MS) as client:
                found = dict(stored(client))
            check(found, acknowledged, unanswered)


def check(
    found: dict[Place, bytes], acknowledged: dict[Place, bytes], unanswered: set[bytes]
) -> None:
    """Acknowledged is stored where it was said, in order, once; the rest is somebody's last try."""
    assert acknowledged, "nothing was acknowledged; the round proves nothing"
    lost = {place: body for place, body in acknowledged.items() if found.get(place) != body}
    assert not lost, (
        f"seed {SEED}: {len(lost)} acknowledged messages are gone, as {min(lost.items())}"
    )
    times = Counter(found.values())
    doubled = {body for body, count in times.items() if count > 1} - unanswered
    assert not doubled, f"seed {SEED}: stored more than once: {sorted(doubled)[:5]}"
    strangers = set(found.values()) - set(acknowledged.values()) - unanswered
    assert not strangers, f"seed {SEED}: nobody sent {sorted(strangers)[:5]}"
    for queue in {queue for queue, _ in found}:
        offsets = sorted(offset for q, offset in found if q == queue)
        assert offsets == list(range(len(offsets))), f"seed {SEED}: {queue} has holes"
        check_order([found[queue, offset] for offset in offsets])


def check_order(bodies: list[bytes]) -> None:
    """First copies of a key's messages come in the order they were sent."""
    last: dict[bytes, tuple[int, int]] = {}
    seen: set[bytes] = set()
    for body in bodies:
        if body in seen:
            continue
        seen.add(body)
        key, count, position = body.rsplit(b"-", 2)
        number = (int(count), int(position))
        assert number > last.get(key, (-1, -1)), f"seed {SEED}: {body!r} after {last[key]}"
        last[key] = number
