"""Brokers of the tests' own, where locks and messages do not live long."""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.spark.drivers import Driver, assert_whole_and_in_order, committed
from tests.spark.harness import (
    Source,
    collect_available,
    failure_of,
    produce,
    start_collecting,
)
from tests.support.brokers import Broker
from tests.support.jvm import SMALL_JVM
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.protocol.command import RemotingCommand

# RocketMQ's own is a minute. Shorter than the time between two renewals is no harm while nobody
# else asks, and harder on the sleeper than it will ever be: it trusts its lock for 30 s.
LOCK_MS = 5_000
LOG_FILE_BYTES = 256 * 1024
DELETE_EXPIRED_COMMIT_LOG = 329
CLEAN_UP_TIMEOUT_S = 90


@pytest.fixture(scope="module")
def rocketmq() -> Iterator[RocketMq]:
    """Locks end after seconds, and log files may be deleted as soon as the next one is begun."""
    heap = (*SMALL_JVM, "-Xmx256m", "-XX:MaxDirectMemorySize=256m")
    lock = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LOCK_MS}"
    files = {"fileReservedTime": "0", "mappedFileSizeCommitLog": str(LOG_FILE_BYTES)}
    cluster = RocketMq(files, broker_java_options=(*heap, lock))
    try:
        cluster.start()
    except ToolUnavailable as missing:
        give_up(missing)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Keeps four log files."""
    settings = {
        "maxMessageSize": str(LOG_FILE_BYTES // 2),
        "mappedFileSizeCommitLog": str(LOG_FILE_BYTES),
        "maxCommitLogBytes": str(4 * LOG_FILE_BYTES),
    }
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), settings=settings) as broker:
        yield broker


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    """Either of them."""
    if request.param == "embedded":
        ours: EmbeddedBroker = request.getfixturevalue("embedded")
        return Broker(ours.name_server, ours.name_server, "embedded")
    theirs: RocketMq = request.getfixturevalue("rocketmq")
    return Broker(theirs.name_server, theirs.broker_address, "rocketmq")


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("short-lived", 2)


@pytest.mark.parametrize("broker", ["rocketmq"], indirect=True)
def test_a_driver_that_slept_while_another_took_its_queues_over_does_no_harm_on_rocketmq(
    broker: Broker, client: Client, topic: str, group: str, tmp_path: Path
) -> None:
    options = {
        "nameServer": broker.name_server,
        "subscribe": topic,
        "group": group,
        "requestTimeout": "15s",
    }

    def is_all_committed() -> bool:
        return sum(committed(client, topic, group).values()) == total

    total = produce(client, topic, keys=10, sequences=range(5))
    with Driver(options, tmp_path / "sleeper", tmp_path / "first") as sleeper:
        sleeper.wait_for_rows(total)
        wait_until(is_all_committed, "the first has committed", 60)
        sleeper.send(signal.SIGSTOP)
        total += produce(client, topic, keys=10, sequences=range(5, 8))
        # With a checkpoint of its own: begins where the group stands.
        with Driver(options, tmp_path / "other", tmp_path / "second") as successor:
            successor.wait_for_rows(30)
            wait_until(is_all_committed, "the second has committed", 60)
            before = committed(client, topic, group)
            sleeper.send(signal.SIGCONT)
            assert sleeper.wait_for_end() == 3
            assert "QueueLeaseLost" in str(sleeper.failure)
            assert committed(client, topic, group) == before
            total += produce(client, topic, keys=10, sequences=range(8, 9))
            wait_until(is_all_committed, "the second goes on", 60)
    assert_whole_and_in_order(sleeper.rows + successor.rows, total)


def spans(client: Client, topic: str) -> Mapping[MessageQueue, OffsetSpan]:
    return client.broker.topic_stats(topic)


def expire(broker: Broker, client: Client, topic: str, positions: Mapping[int, int]) -> None:
    """Send until the broker has deleted messages beyond the positions of every queue."""
    producer = OrderedProducer(client, topic)

    def has_deleted() -> bool:
        for queue in client.routes.readable(topic):
            producer.send_all({queue: [producer.message(b"x" * 60_000) for _ in range(5)]})
        if broker.kind == "rocketmq":
            # Looks for files to delete the next time it is due, every 10 s, not at four at night.
            request = RemotingCommand(DELETE_EXPIRED_COMMIT_LOG)
            client.remoting.call(broker.broker_address, request, "a clean-up", 15_000)
        found = spans(client, topic)
        return all(span.minimum > positions[queue.queue_id] for queue, span in found.items())

    wait_until(has_deleted, "the broker has deleted what was not read", CLEAN_UP_TIMEOUT_S)


def offset_log(checkpoint: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (checkpoint / "offsets").iterdir()}


@pytest.mark.parametrize("broker", ["embedded", "rocketmq"], indirect=True)
def test_a_restart_after_messages_expired_fails_or_counts_what_is_gone(
    broker: Broker, client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "cp"
    total = produce(client, topic, keys=10, sequences=range(3))
    assert len(collect_available(source.stream(), checkpoint).rows) == total
    positions = {queue.queue_id: span.maximum for queue, span in spans(client, topic).items()}
    written = offset_log(checkpoint)
    expire(broker, client, topic, positions)
    text = failure_of(start_collecting(source.stream(), checkpoint)[0])
    assert "OffsetOutOfRange" in text
    assert f"{topic}@" in text
    assert "failOnDataLoss" in text
    assert offset_log(checkpoint) == written
    found = {queue.queue_id: span for queue, span in spans(client, topic).items()}
    query, collected = start_collecting(source.stream(failOnDataLoss="false"), checkpoint)
    assert query.awaitTermination(180)
    for number, span in found.items():
        offsets = [row.offset for row in collected.rows if row.queue == number]
        assert offsets == list(range(span.minimum, span.maximum))
    skipped = sum(span.minimum - positions[number] for number, span in found.items())
    (*_, last) = [one for one in query.recentProgress if one.numInputRows]
    assert f'"skipped":{skipped}' in last.sources[0].endOffset.replace(" ", "")
