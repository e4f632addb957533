"""Clients that ask for the largest answers and read them late: everyone gets every answer."""

import socket
import struct
from contextlib import ExitStack

from tests.support.brokers import unique_name

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.protocol.command import RemotingCommand, encode_command

DEADLINE_S = 60.0
CLIENTS = 40
PULLS = 4
MESSAGE_BYTES = 1_000_000
MESSAGES = 4


def wide_pull(topic: str, opaque: int) -> bytes:
    """A request for all messages at once, which is as much as one answer may hold."""
    fields = {
        "consumerGroup": "late", "topic": topic, "queueId": "0", "queueOffset": "0",
        "maxMsgNums": str(MESSAGES), "maxMsgBytes": "4194304", "sysFlag": "4", "commitOffset": "0",
        "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    return encode_command(RemotingCommand(11, opaque=opaque, ext_fields=fields))


def receive(sock: socket.socket, length: int) -> bytearray:
    received = bytearray()
    while len(received) < length:
        chunk = sock.recv(min(length - len(received), 1 << 20))
        assert chunk, f"the connection ended {length - len(received)} bytes early"
        received += chunk
    return received


def test_many_clients_that_read_late_get_all_their_answers(fresh_embedded: EmbeddedBroker) -> None:
    topic = unique_name("late")
    host, _, port = fresh_embedded.name_server.rpartition(":")
    with Client(fresh_embedded.name_server, request_timeout_ms=15_000) as client:
        client.broker.create_topic(topic, 1)
        producer = OrderedProducer(client, topic)
        for _ in range(MESSAGES):
            producer.send("k", b"x" * MESSAGE_BYTES)
        with ExitStack() as stack:
            late = [
                stack.enter_context(socket.create_connection((host, int(port)), DEADLINE_S))
                for _ in range(CLIENTS)
            ]
            # Unread these answers are 640 MB, more than the broker has for all its buffers.
            for sock in late:
                sock.sendall(b"".join(wide_pull(topic, opaque) for opaque in range(PULLS)))
            # Served meanwhile, although nobody has read anything yet.
            assert producer.send("k", b"meanwhile").first_offset == MESSAGES
            for sock in late:
                for _ in range(PULLS):
                    (length,) = struct.unpack(">i", receive(sock, 4))
                    assert len(receive(sock, length)) > MESSAGES * MESSAGE_BYTES
