"""Bytes that no client should send: the connection ends, the broker serves everyone else."""

import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.faults.sockets import DEADLINE_S, connect, large_pull
from tests.support.brokers import unique_name
from tests.support.frames import read_frame
from tests.support.processes import anonymous_memory_mib
from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.protocol.command import RemotingCommand, encode_command

DEAF_CLIENTS = 200
# Unsent answers may be 256 MiB; pooled buffers round that up, and the heap comes on top.
MAX_UNREAD_MIB = 600
VALID = encode_command(RemotingCommand(106, opaque=1, ext_fields={}))

HOSTILE = {
    "a length that is negative": struct.pack(">ii", -1, 0),
    "a length that is too small": struct.pack(">ii", 3, 0),
    "a frame over the limit": struct.pack(">ii", 16 * 1024 * 1024, 10) + b"{}",
    "a length of two gigabytes": struct.pack(">ii", 2**31 - 1, 10) + b"{}",
    "a header longer than its frame": struct.pack(">ii", 10, 2**24 - 1) + b"{" * 6,
    "an unknown header codec": struct.pack(">iI", 6, 7 << 24 | 2) + b"{}",
    "a header that is not JSON": struct.pack(">ii", 8, 4) + b"oops",
    "a binary header that lies": struct.pack(">iI", 25, 1 << 24 | 21)
    + b"\x00\x0b\x00"
    + b"\x7f" * 18,
    "another protocol": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
    "text": b"hello, is anybody there?\n",
}


def drain(sock: socket.socket) -> bytes:
    """Everything until the peer closes; a timeout is a failure of the test."""
    received = b""
    try:
        while chunk := sock.recv(65_536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


@pytest.fixture
def bystander(embedded_broker: EmbeddedBroker) -> Iterator[OrderedProducer]:
    """Somebody who was connected before and wants to go on."""
    topic = unique_name("bystander")
    with Client(embedded_broker.name_server, request_timeout_ms=15_000) as client:
        client.broker.create_topic(topic, 1)
        producer = OrderedProducer(client, topic)
        producer.send("k", b"before")
        yield producer


@proves("hostile-frames")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_frame_closes_its_connection_and_nobody_elses(
    embedded_broker: EmbeddedBroker, bystander: OrderedProducer, name: str
) -> None:
    with connect(embedded_broker) as sock:
        sock.sendall(HOSTILE[name])
        assert drain(sock) == b""
    assert bystander.send("k", b"after").first_offset == 1


def test_a_connection_closed_in_mid_frame_disturbs_nobody(
    embedded_broker: EmbeddedBroker, bystander: OrderedProducer
) -> None:
    for length in range(1, len(VALID)):
        with connect(embedded_broker) as sock:
            sock.sendall(VALID[:length])
    assert bystander.send("k", b"after").first_offset == 1


def test_a_frame_that_comes_byte_by_byte_is_answered(embedded_broker: EmbeddedBroker) -> None:
    with connect(embedded_broker) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for value in VALID:
            sock.sendall(bytes([value]))
        assert b"brokerAddrTable" in sock.recv(65_536)


def test_an_unknown_request_code_is_answered_with_a_sentence(
    embedded_broker: EmbeddedBroker,
) -> None:
    with Client(embedded_broker.name_server, request_timeout_ms=15_000) as client:
        answer = client.remoting.call(
            embedded_broker.name_server, RemotingCommand(31_999, ext_fields={}), "a riddle", 15_000
        )
    assert answer.code == 3
    assert "31999" in (answer.remark or "")


@pytest.mark.parametrize("code", [10, 11, 14, 15, 17, 29, 34, 41, 42, 105, 202, 310, 320, 19001])
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, b""),
        ({"queueId": "x", "topic": "../../etc"}, b"{"),
        (None, b"\xff\xfe"),
        ({"b": ""}, b"[]"),
    ],
)
def test_a_request_with_missing_or_wrong_fields_is_refused_not_dropped(
    embedded_broker: EmbeddedBroker, code: int, fields: dict[str, str] | None, body: bytes
) -> None:
    with Client(embedded_broker.name_server, request_timeout_ms=15_000) as client:
        answer = client.remoting.call(
            embedded_broker.name_server,
            RemotingCommand(code, ext_fields=fields, body=body),
            f"a broken request {code}",
            15_000,
        )
    assert answer.code != 0 or code in (34, 41, 42, 19001)


@proves("unread-answers-bounded")
def test_a_client_that_never_reads_costs_bounded_memory_and_nobody_else_waits(
    fresh_embedded: EmbeddedBroker,
) -> None:
    topic = unique_name("unread")
    with Client(fresh_embedded.name_server) as client:
        client.broker.create_topic(topic, 1)
        producer = OrderedProducer(client, topic)
        for _ in range(4):
            producer.send("k", b"x" * 1_000_000)
        before = anonymous_memory_mib(fresh_embedded.pid or 0)
        with connect(fresh_embedded) as deaf:
            # Answered in full this would be 8 GB.
            pulls = memoryview(large_pull(topic) * 2_000)
            deaf.setblocking(False)
            while pulls and select.select([], [deaf], [], 1.0)[1]:
                pulls = pulls[deaf.send(pulls) :]
            offsets = [producer.send("k", b"after").first_offset for _ in range(20)]
            assert offsets == list(range(4, 24))
            assert anonymous_memory_mib(fresh_embedded.pid or 0) - before < 128
            # It reads after all, and gets what it asked for.
            deaf.settimeout(DEADLINE_S)
            assert len(deaf.recv(65_536)) > 0


@proves("unread-answers-bounded")
def test_many_clients_that_never_read_cost_bounded_memory_and_nobody_else_waits(
    fresh_embedded: EmbeddedBroker,
) -> None:
    topic = unique_name("unread")
    patient = Client(fresh_embedded.name_server, request_timeout_ms=15_000)
    with patient as client, ExitStack() as open_sockets:
        client.broker.create_topic(topic, 1)
        producer = OrderedProducer(client, topic)
        for _ in range(4):
            producer.send("k", b"x" * 1_000_000)
        before = anonymous_memory_mib(fresh_embedded.pid or 0)
        pulls = large_pull(topic) * 20
        for _ in range(DEAF_CLIENTS):
            deaf = open_sockets.enter_context(connect(fresh_embedded))
            # Answered in full this would be 80 MB each, 16 GB in all.
            deaf.sendall(pulls)
        offsets = [producer.send("k", b"after").first_offset for _ in range(20)]
        assert offsets == list(range(4, 24))
        assert anonymous_memory_mib(fresh_embedded.pid or 0) - before < MAX_UNREAD_MIB
        with connect(fresh_embedded) as reader:
            reader.sendall(large_pull(topic))
            assert len(read_frame(reader)) > 4_000_000
