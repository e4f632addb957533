"""What no read-back can find out, provoked on purpose: the embedded broker recognises it.

On Apache RocketMQ these are the exceptions that ``docs/guarantees.md`` states: there the rows are
stored twice, and in no other way.
"""

from collections import Counter

import pyarrow as pa
import pytest
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan, SendSettings
from rmq_ordered.client.ledger import SinkLedger, WriteAttempt
from rmq_ordered.model import QueueRange, SendStream
from rmq_ordered.net.transport import STALL_TIMEOUT_MS, Transport, connect_tcp
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import decode_command
from rmq_ordered.protocol.frame import FrameDecoder

ROWS = 20


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("limits", 1)


def rows(first: int = 0, count: int = ROWS) -> pa.RecordBatch:
    values = [str(number) for number in range(first, first + count)]
    return pa.record_batch({"key": ["k"] * count, "value": values})


def attempt(sink: str, *, is_first: bool = True) -> WriteAttempt:
    return WriteAttempt(SendStream(sink, 0, 0), "run", is_first=is_first)


def stored(client: Client, topic: str) -> list[int]:
    (queue,) = client.routes.readable(topic)
    plan = ReadPlan(QueueRange(queue, 0, client.broker.max_offset(queue)))
    batches = QueueReader(client).read(plan)
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


class LateNetwork:
    """The first send of a batch is held back on its way, and arrives when everybody gave it up."""

    def __init__(self) -> None:
        self.held: list[tuple[str, bytes]] = []

    def connect(self, address: str) -> Transport:
        return _LateTransport(connect_tcp(address), address, self)

    def deliver(self) -> None:
        """What was held back arrives at last; returns when the broker has answered it."""
        ((address, data),) = self.held
        transport = connect_tcp(address)
        transport.send_all(data)
        assert transport.receive_into(bytearray(65_536)) > 0
        transport.close()


class _LateTransport:
    def __init__(self, inner: Transport, address: str, network: LateNetwork) -> None:
        self._inner = inner
        self._address = address
        self._network = network
        self._decoder = FrameDecoder()

    def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        commands = [decode_command(frame) for frame in self._decoder.receive_data(data)]
        is_send = any(command.code == RequestCode.SEND_BATCH_MESSAGE for command in commands)
        if is_send and not self._network.held:
            self._network.held.append((self._address, data))
        else:
            self._inner.send_all(data, timeout_ms)

    def try_send(self, data: memoryview) -> int:
        return self._inner.try_send(data)

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        return self._inner.receive_into(buffer, timeout_ms)

    def close(self) -> None:
        self._inner.close()


@proves("limit-late-request-on-rocketmq")
def test_a_request_that_arrives_after_the_read_back_is_stored_twice_on_rocketmq_only(
    broker: Broker, client: Client, topic: str
) -> None:
    network = LateNetwork()
    settings = SendSettings(wait_out_ms=50)
    with Client(broker.name_server, request_timeout_ms=1_500, connect=network.connect) as late:
        with SinkLedger(late, "late").writer(topic, settings, attempt("late")) as writer:
            writer.write(rows())
            writer.finish()
        assert stored(client, topic) == list(range(ROWS))
        network.deliver()
    expected = 1 if broker.kind == "embedded" else 2
    wait_until(
        lambda: len(stored(client, topic)) == expected * ROWS, "the late request was served", 10
    )
    assert Counter(stored(client, topic)) == dict.fromkeys(range(ROWS), expected)


@proves("limit-two-attempts-on-rocketmq")
def test_two_live_attempts_of_a_task_are_stored_twice_on_rocketmq_only(
    broker: Broker, client: Client, topic: str
) -> None:
    ledger = SinkLedger(client, "speculation")
    settings = SendSettings(buffer_bytes=64)
    with (
        ledger.writer(topic, settings, attempt("speculation")) as one,
        ledger.writer(topic, settings, attempt("speculation", is_first=False)) as other,
    ):
        # The second begins before the first has written anything, so its read-back finds nothing.
        for first in range(0, ROWS, 5):
            for writer in (one, other):
                writer.write(rows(first, 5))
                writer.flush()
        one.finish()
        other.finish()
    found = stored(client, topic)
    assert list(dict.fromkeys(found)) == list(range(ROWS))
    if broker.kind == "embedded":
        assert len(found) == ROWS
    else:
        assert ROWS < len(found) <= 2 * ROWS


def test_an_attempt_that_begins_when_the_other_one_has_ended_adds_nothing(
    client: Client, topic: str
) -> None:
    ledger = SinkLedger(client, "one-after-the-other")
    for number in range(3):
        by = attempt("one-after-the-other", is_first=number == 0)
        with ledger.writer(topic, SendSettings(), by) as writer:
            writer.write(rows())
            writer.finish()
    assert stored(client, topic) == list(range(ROWS))
