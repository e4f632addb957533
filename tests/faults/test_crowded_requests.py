"""Requests that many connections hold open at once: their memory is bounded, and others go on."""

import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.faults.sockets import connect
from tests.support.processes import anonymous_memory_mib
from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.protocol.command import RemotingCommand, encode_command

TOPIC = "crowded"
LARGE = 15 * 1024 * 1024
# More than the heap and the buffers of the broker's JVM have, which is half a gigabyte each.
POLLERS = 12
POLLS_OF_EACH = 3
HALF_SENDERS = 70
MAX_MIB = 800


@pytest.fixture
def bystander(fresh_embedded: EmbeddedBroker) -> Iterator[OrderedProducer]:
    """Somebody who was connected before and wants to go on."""
    with Client(fresh_embedded.name_server, request_timeout_ms=15_000) as client:
        client.broker.create_topic(TOPIC, 2)
        producer = OrderedProducer(client, TOPIC)
        producer.send("k", b"before")
        yield producer


def ensure_unharmed(broker: EmbeddedBroker, bystander: OrderedProducer) -> None:
    """Whoever was there goes on, whoever comes is served, and the memory is bounded."""
    for size in (10, 1_000, 100_000):
        bystander.send("k", b"x" * size)
        with Client(broker.name_server, request_timeout_ms=15_000) as client:
            OrderedProducer(client, TOPIC).send("k", b"x" * size)
    assert anonymous_memory_mib(broker.pid or 0) < MAX_MIB


def long_poll(opaque: int, body: bytes) -> bytes:
    fields = {
        "consumerGroup": "g", "topic": "idle", "queueId": "0", "queueOffset": "0",
        "maxMsgNums": "1", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "60000",
        "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    return encode_command(RemotingCommand(11, opaque=opaque, ext_fields=fields, body=body))


@proves("crowded-requests-bounded")
def test_long_polls_with_large_bodies_cost_bounded_memory_and_nobody_else_waits(
    fresh_embedded: EmbeddedBroker, bystander: OrderedProducer
) -> None:
    with Client(fresh_embedded.name_server) as client:
        client.broker.create_topic("idle", 1)
    polls = [long_poll(opaque, bytes(LARGE)) for opaque in range(POLLS_OF_EACH)]
    with ExitStack() as open_sockets:
        for _ in range(POLLERS):
            poller = open_sockets.enter_context(connect(fresh_embedded))
            for poll in polls:
                poller.sendall(poll)
        ensure_unharmed(fresh_embedded, bystander)


@proves("crowded-requests-bounded")
def test_large_frames_that_never_end_cost_bounded_memory_and_nobody_else_waits(
    fresh_embedded: EmbeddedBroker, bystander: OrderedProducer
) -> None:
    # Half of it, as far as the broker and the system's buffers take it.
    beginning = memoryview(struct.pack(">ii", LARGE, 100) + bytes(LARGE // 2))
    with ExitStack() as open_sockets:
        for _ in range(HALF_SENDERS):
            sender = open_sockets.enter_context(connect(fresh_embedded))
            sender.setblocking(False)
            try:
                rest = beginning
                while rest:
                    rest = rest[sender.send(rest) :]
            except BlockingIOError:
                continue
        ensure_unharmed(fresh_embedded, bystander)


@proves("crowded-requests-bounded")
def test_a_large_message_gets_through_when_those_before_it_never_end(
    fresh_embedded: EmbeddedBroker, bystander: OrderedProducer
) -> None:
    with ExitStack() as open_sockets:
        for _ in range(HALF_SENDERS // 14):
            sender = open_sockets.enter_context(connect(fresh_embedded))
            sender.sendall(struct.pack(">ii", LARGE, 100))
        # Whoever takes longest is given up, so that this comes in within its time.
        with Client(fresh_embedded.name_server, request_timeout_ms=60_000) as client:
            producer = OrderedProducer(client, TOPIC)
            assert producer.send("large", bytes(3_000_000)).first_offset >= 0
