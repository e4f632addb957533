"""Queries whose unread messages have expired, on brokers that really delete their old files.

Both brokers have small files and keep only the one that is being written. So a message too large
for what is left of a file ends the life of everything before it, as soon as the broker cleans up.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row
from tests.spark.drivers import ALL_AT_ONCE, Driver
from tests.spark.harness import (
    Source,
    collect_available,
    failure_of,
    finish,
    owners,
    start_collecting,
)
from tests.support.brokers import Broker
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.processes import tail
from tests.support.promises import proves
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import MessageQueue

pytestmark = pytest.mark.proof

SMALL_FILES = {
    "maxMessageSize": str(128 << 10),
    "mappedFileSizeCommitLog": str(192 << 10),
    "mappedFileSizeConsumeQueue": str(20 * 4),
}
EMBEDDED = SMALL_FILES | {"maxCommitLogBytes": "1"}
ROCKETMQ = SMALL_FILES | {
    "fileReservedTime": "0",
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "cleanResourceInterval": "200",
}
# Two of them do not fit into one file.
LARGE = 100 << 10
# RocketMQ cleans up for the first time a minute after its start, the embedded one every 10 s.
EXPIRY_TIMEOUT_S = 180
GOES_ON = {"failOnDataLoss": "false"}
# Of the topic `expired`: six of queue 0 and three of queue 1.
SKIPPED = 9


@pytest.fixture(scope="module")
def early_rocketmq() -> Iterator[RocketMq | ToolUnavailable]:
    """Started before anything else runs here, because its first clean-up takes a minute to come."""
    cluster = RocketMq(ROCKETMQ)
    try:
        cluster.start()
    except ToolUnavailable as missing:
        yield missing
        return
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module", params=["embedded", "rocketmq"])
def broker(
    request: pytest.FixtureRequest,
    early_rocketmq: RocketMq | ToolUnavailable,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Broker]:
    """A broker that keeps no file but the one being written."""
    if request.param == "embedded":
        with EmbeddedBroker(tmp_path_factory.mktemp("broker"), settings=EMBEDDED) as embedded:
            yield Broker(embedded.name_server, embedded.name_server, "embedded")
    elif isinstance(early_rocketmq, ToolUnavailable):
        give_up(early_rocketmq)
    else:
        yield Broker(early_rocketmq.name_server, early_rocketmq.broker_address, "rocketmq")


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("expired", 3)


class Topic:
    """Three queues whose messages are known by queue and offset."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._producer = OrderedProducer(client, topic)
        self.name = topic
        self.queues = self._producer.queues
        self.bodies: dict[MessageQueue, list[bytes]] = {queue: [] for queue in self.queues}

    def send(self, number: int, count: int) -> None:
        """Small messages to one queue; returns when they can be read."""
        start = len(self.bodies[self.queues[number]])
        self._send(number, [b"%d" % offset for offset in range(start, start + count)])

    def begin_file(self) -> None:
        """One message to the first queue that is the first one of a new file."""
        self._send(0, [b"x" * LARGE])

    def committed(self, group: str) -> list[int | None]:
        found = self._client.broker.committed_offsets(group, self.queues)
        return [found[queue] for queue in self.queues]

    def wait_for_expiry(self, *minimums: int) -> None:
        """Until the queues begin at these offsets."""
        ends = [len(self.bodies[queue]) for queue in self.queues]
        expected = dict(zip(self.queues, zip(minimums, ends, strict=True), strict=True))
        wait_until(lambda: self._spans() == expected, f"it holds {expected}", EXPIRY_TIMEOUT_S)

    def _spans(self) -> dict[MessageQueue, tuple[int, int]]:
        found = self._client.broker.topic_stats(self.name)
        return {queue: (span.minimum, span.maximum) for queue, span in found.items()}

    def _send(self, number: int, bodies: list[bytes]) -> None:
        queue = self.queues[number]
        self.bodies[queue] += bodies
        self._producer.send_all({queue: [self._producer.message(body) for body in bodies]})
        end = len(self.bodies[queue])
        wait_until(lambda: self._client.broker.max_offset(queue) >= end, "all is visible", 20)


@pytest.fixture
def expired(client: Client, topic: str, source: Source, checkpoint: Path) -> Topic:
    """A topic that a query has read up to offset 10 of every queue; since then:

    - queue 0 got ten messages, of which the first six have expired;
    - queue 1 got three messages, and all have expired;
    - queue 2 got none.
    """
    messages = Topic(client, topic)
    messages.begin_file()
    messages.send(0, 9)
    messages.send(1, 10)
    messages.send(2, 10)
    before = collect_available(source.stream(), checkpoint)
    assert len(before.rows) == 30
    messages.begin_file()
    messages.send(0, 5)
    messages.send(1, 3)
    messages.begin_file()
    messages.send(0, 3)
    messages.wait_for_expiry(16, 13, 10)
    return messages


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "cp"


def logged(checkpoint: Path) -> dict[str, bytes]:
    """The planned and the finished batches of a checkpoint, as Spark wrote them."""
    files = [*(checkpoint / "offsets").iterdir(), *(checkpoint / "commits").iterdir()]
    return {str(path.relative_to(checkpoint)): path.read_bytes() for path in files}


def read(rows: list[Row]) -> list[tuple[int, int, bytes]]:
    return [(row.queue, row.offset, bytes(row.value)) for row in rows]


def left(topic: Topic, first: int) -> list[tuple[int, int, bytes]]:
    """The messages of queue 0 from an offset on, in order."""
    bodies = topic.bodies[topic.queues[0]]
    return [(0, offset, bodies[offset]) for offset in range(first, len(bodies))]


def end_of(query: Any) -> dict[str, Any]:
    """Where a finished query stands, by its progress."""
    loaded: dict[str, Any] = json.loads(query.lastProgress.sources[0].endOffset)
    return loaded


@proves("lost-range-fails")
def test_expired_messages_fail_the_query_and_everything_stays_as_it_was(
    client: Client, expired: Topic, group: str, source: Source, checkpoint: Path
) -> None:
    before = logged(checkpoint)
    for _ in range(2):
        query, collected = start_collecting(source.stream(), checkpoint)
        text = failure_of(query)
        assert "OffsetOutOfRange" in text
        assert f"{expired.queues[0]}: queue offset 10 was asked for, but " in text
        assert " holds [16, 20): " in text
        assert "failOnDataLoss=false" in text
        assert collected.batches == []
        assert logged(checkpoint) == before
        assert expired.committed(group) == [10, 10, 10]
        wait_until(lambda: owners(client, group, expired.name) == {True}, "queues are free", 20)
    query, collected = start_collecting(source.stream(**GOES_ON), checkpoint)
    finish(query)
    assert read(collected.rows) == left(expired, 16)
    assert end_of(query)["skipped"] == SKIPPED
    after = logged(checkpoint)
    assert {name: after[name] for name in before} == before


@proves("lost-range-fails")
def test_a_query_that_may_lose_data_goes_on_with_the_first_message_left_and_counts_the_rest(
    expired: Topic, group: str, source: Source, checkpoint: Path, tmp_path: Path
) -> None:
    options = source.options | GOES_ON
    with Driver(options, checkpoint, tmp_path / "driver", ALL_AT_ONCE) as driver:
        assert driver.wait_for_end() == 0, tail(driver.log)
        rows = [(queue, offset, value.encode()) for _, queue, offset, _, value in driver.rows]
        log = driver.log.read_text()
    assert rows == left(expired, 16)
    first, second, _ = expired.queues
    assert f"skipped count=6 queue={first} from=10 to=16: expired" in log
    assert f"skipped count=3 queue={second} from=10 to=13: expired" in log
    assert log.count("skipped count=") == 2
    assert expired.committed(group) == [20, 13, 10]
    # The loss is settled: the next run need not allow one, and still tells how much it was.
    for number in range(3):
        expired.send(number, 1)
    query, collected = start_collecting(source.stream(), checkpoint)
    finish(query)
    assert sorted(read(collected.rows)) == [(0, 20, b"20"), (1, 13, b"13"), (2, 10, b"10")]
    assert end_of(query)["skipped"] == SKIPPED
