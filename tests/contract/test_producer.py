"""The ordered producer on both brokers: lost answers, replays, compression, selectors."""

import hashlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.promises import proves

from rmq_ordered.client import (
    Client,
    Compression,
    OrderedProducer,
    QueueReader,
    ReadPlan,
    SendSettings,
)
from rmq_ordered.client.readback import end_of_queue, read_back
from rmq_ordered.client.requests import StreamRequests
from rmq_ordered.errors import BatchSuperseded, ConnectionLost, ReplayDiverged
from rmq_ordered.model import MessageQueue, OutgoingMessage, QueueRange, SendStream
from rmq_ordered.net.transport import STALL_TIMEOUT_MS, Transport, connect_tcp
from rmq_ordered.ordering.stream import Recovery
from rmq_ordered.protocol.codes import FEATURE_STAMPED_REQUEST, RequestCode
from rmq_ordered.protocol.command import decode_command
from rmq_ordered.protocol.frame import FrameDecoder

STREAM = SendStream("contract", 5, 2)
SENDS = {RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2}


class LostAnswers:
    """Real connections on which the answer to the n-th send, and all after it, never arrive."""

    def __init__(self, positions: set[int], *, is_silent: bool) -> None:
        self.positions = positions
        self.is_silent = is_silent
        self.sends = 0

    def connect(self, address: str) -> Transport:
        return _DeafTransport(connect_tcp(address), self)


class _DeafTransport:
    def __init__(self, inner: Transport, plan: LostAnswers) -> None:
        self._inner = inner
        self._plan = plan
        self._decoder = FrameDecoder()
        self._is_deaf = False

    def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        commands = [decode_command(frame) for frame in self._decoder.receive_data(data)]
        for command in commands:
            if command.code in SENDS:
                self._plan.sends += 1
                self._is_deaf = self._is_deaf or self._plan.sends in self._plan.positions
        self._inner.send_all(data, timeout_ms)

    def try_send(self, data: memoryview) -> int:
        return self._inner.try_send(data)

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        # The broker has answered, so it has stored; nobody hears it.
        while (count := self._inner.receive_into(buffer, timeout_ms)) > 0 and self._is_deaf:
            if not self._plan.is_silent:
                raise ConnectionLost("cut", "the answer was lost on the way")
        return count

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("produced", 4)


@pytest.fixture(params=["cut", "silent"])
def deaf_client(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Client]:
    """Loses the answers to its second, fifth and sixth send."""
    plan = LostAnswers({2, 5, 6}, is_silent=request.param == "silent")
    with Client(broker.name_server, request_timeout_ms=2_000, connect=plan.connect) as client:
        yield client
    assert plan.sends >= 6


def rows(count: int, *, salt: str = "") -> pa.RecordBatch:
    values = [f"{number}{salt}".encode() for number in range(count)]
    keys = [f"key-{number % 7}" for number in range(count)]
    return pa.record_batch({"key": keys, "value": pa.array(values, pa.binary())})


def landed(client: Client, queue: MessageQueue) -> list[bytes]:
    plan = ReadPlan(QueueRange(queue, 0, end_of_queue(client, queue)))
    batches = QueueReader(client).read(plan)
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def expected(producer: OrderedProducer, batch: pa.RecordBatch) -> dict[MessageQueue, list[bytes]]:
    placed: dict[MessageQueue, list[bytes]] = {queue: [] for queue in producer.queues}
    for key, value in zip(
        *(batch.column(name).to_pylist() for name in ("key", "value")), strict=True
    ):
        placed[producer.queue_of(key)].append(value)
    return placed


def everything(client: Client, producer: OrderedProducer) -> dict[MessageQueue, list[bytes]]:
    return {queue: landed(client, queue) for queue in producer.queues}


def small(client: Client, topic: str, batch_rows: int = 10) -> OrderedProducer:
    return OrderedProducer(client, topic, settings=SendSettings(batch_rows=batch_rows))


@proves("refused-send-repeated-in-place")
@pytest.mark.parametrize("stream", [STREAM, None], ids=["stamped", "plain"])
def test_a_send_without_an_answer_is_found_out_and_nothing_is_stored_twice(
    deaf_client: Client, client: Client, topic: str, stream: SendStream | None
) -> None:
    producer = small(deaf_client, topic)
    with producer.writer(stream) as writer:
        writer.write(rows(200))
        receipts = writer.finish()
    found = everything(client, producer)
    assert found == expected(producer, rows(200))
    for queue, receipt in receipts.items():
        assert (receipt.count, receipt.duplicates) == (len(found[queue]), 0)
        assert receipt.last_offset == len(found[queue]) - 1


@proves("stream-adds-missing-only")
def test_a_replay_adds_only_what_is_missing(client: Client, topic: str) -> None:
    producer = small(client, topic)
    floors = {queue: client.broker.max_offset(queue) for queue in producer.queues}
    with producer.writer(STREAM) as writer:
        writer.write(rows(90))
        writer.finish()
    with small(client, topic, batch_rows=7).writer(STREAM, floors=floors) as writer:
        writer.write(rows(200))
        receipts = writer.finish()
    assert everything(client, producer) == expected(producer, rows(200))
    assert sum(receipt.duplicates for receipt in receipts.values()) == 90
    assert sum(receipt.count for receipt in receipts.values()) == 110


def test_a_replay_with_other_rows_fails_and_adds_nothing(client: Client, topic: str) -> None:
    producer = small(client, topic)
    floors = dict.fromkeys(producer.queues, 0)
    with producer.writer(STREAM) as writer:
        writer.write(rows(40))
        writer.finish()
    with producer.writer(STREAM, floors=floors) as writer:
        writer.write(rows(40, salt="!"))
        with pytest.raises(ReplayDiverged):
            writer.finish()
    assert everything(client, producer) == expected(producer, rows(40))


def test_an_old_attempt_is_refused_when_a_later_batch_has_landed(
    client: Client, topic: str
) -> None:
    producer = small(client, topic)
    floors = dict.fromkeys(producer.queues, 0)
    with producer.writer(SendStream("contract", 6, 2)) as writer:
        writer.write(rows(5))
        writer.finish()
    with producer.writer(STREAM, floors=floors) as writer:
        writer.write(rows(5))
        with pytest.raises(BatchSuperseded):
            writer.finish()


def test_a_queue_can_be_read_back_for_the_last_row_of_a_stream(client: Client, topic: str) -> None:
    producer = small(client, topic)
    queue = producer.queue_of("key-0")
    producer.send_all({queue: [OutgoingMessage(b"before")]})
    with producer.writer(STREAM) as writer:
        writer.write(rows(70).filter(pa.array([n % 7 == 0 for n in range(70)])))
        writer.finish()
    producer.send_all({queue: [OutgoingMessage(b"after")]})
    is_told = FEATURE_STAMPED_REQUEST in client.routes.features(topic)
    recovery = Recovery.BROKER if is_told else Recovery.READ_BACK
    trace = StreamRequests.of(queue, STREAM, recovery, is_stamped=True).trace
    found = read_back(client, queue, 0, trace)
    assert found is not None
    assert (found.last.batch, found.last.sequence, found.last.queue_offset) == (5, 9, 10)
    assert found.first_offset == 1


@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.LZ4, Compression.ZSTD])
def test_compressed_batches_are_read_back_as_they_were(
    client: Client, topic: str, compression: Compression
) -> None:
    settings = SendSettings(compression=compression, compress_over_bytes=1_000)
    producer = OrderedProducer(client, topic, settings=settings)
    values = [b"x" * 5_000, b"small", b"", b"y" * 2_000]
    batch = pa.record_batch({"key": ["k"] * 4, "value": pa.array(values, pa.binary())})
    with producer.writer(STREAM) as writer:
        writer.write(batch)
        writer.finish()
    assert landed(client, producer.queue_of("k")) == values


@pytest.mark.parametrize("compression", list(Compression))
def test_java_reads_what_was_sent_in_batches_compressed_or_not(
    broker: Broker, client: Client, topic: str, javaclients: JavaClients, compression: Compression
) -> None:
    settings = SendSettings(compression=compression, compress_over_bytes=100)
    producer = OrderedProducer(client, topic, settings=settings)
    texts = [f"{number}-" + "x" * (number % 5 * 100) for number in range(50)]
    keys = [f"key-{number % 7}" for number in range(50)]
    with producer.writer(STREAM) as writer:
        writer.write(pa.record_batch({"key": keys, "value": texts}))
        writer.finish()
    with javaclients.lite_pull_consumer(
        broker.name_server, topic, broker.unique("reader"), max_messages=50
    ) as consumer:
        received = consumer.wait_for_messages(50, 60)
    by_key: dict[str | None, list[str]] = {}
    for message in sorted(received, key=lambda m: (m.queue_id, m.queue_offset)):
        by_key.setdefault(message.key, []).append(message.body)
    assert by_key == {f"key-{key}": texts[key::7] for key in range(7)}


def test_the_largest_message_of_rocketmq_can_be_sent(client: Client, topic: str) -> None:
    noise = b"".join(hashlib.sha256(n.to_bytes(4, "big")).digest() for n in range(131_072))
    settings = SendSettings(compression=Compression.ZLIB)
    producer = OrderedProducer(client, topic, settings=settings)
    assert len(noise) == 4 * 1024 * 1024
    producer.send("k", noise)
    with producer.writer(STREAM) as writer:
        writer.write(pa.record_batch({"key": ["k"], "value": pa.array([noise], pa.binary())}))
        writer.finish()
    assert landed(client, producer.queue_of("k")) == [noise, noise]
