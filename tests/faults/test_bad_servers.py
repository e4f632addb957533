"""A client whose address leads to something else than RocketMQ: told so, in time, and no rows.

Real sockets and the real clock: what is tested is that nothing hangs.
"""

import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from tests.support.promises import proves
from tests.support.servers import BadServer, Behave, hang_up, say, stay_silent
from tests.support.waiting import Deadline

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan, SendSettings
from rmq_ordered.errors import (
    ConnectFailed,
    ConnectionLost,
    ProtocolError,
    QueueGap,
    RequestTimedOut,
    RmqOrderedError,
)
from rmq_ordered.model import QueueRange
from rmq_ordered.net.tls import TlsSettings
from rmq_ordered.net.transport import CONNECT_TIMEOUT_MS
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import (
    FLAG_RESPONSE,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rmq_ordered.protocol.frame import FrameDecoder
from rmq_ordered.testing import ClusterDouble, ScriptedTransport
from rmq_ordered.testing.faults import Serve, reply_to

# For those who say nothing; the others get ample time, so that a busy machine is not to blame.
TIMEOUT_MS, PATIENCE_MS = 500, 10_000
GRACE_S = 15.0

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
ANSWER = encode_command(RemotingCommand(0, opaque=1, flag=FLAG_RESPONSE, body=b"x" * 1_000))
OTHER = encode_command(RemotingCommand(0, opaque=77, flag=FLAG_RESPONSE))
# Starts with a byte that makes its first word no length; the rest is chance.
NOISE = b"\xff" + random.Random(5).randbytes(4_096)


def nested(depth: int) -> bytes:
    """An answer whose header holds lists in lists."""
    header = b'{"flag":0,"extFields":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    return struct.pack(">iI", 4 + len(header), len(header)) + header


CASES: dict[str, tuple[Behave, type[RmqOrderedError], str]] = {
    "an HTTP server": (say(HTTP, and_close=True), ProtocolError, "HTTP port"),
    "an SSH server": (say(b"SSH-2.0-OpenSSH_9.6\r\n", first=True), ProtocolError, "remoting"),
    "noise": (say(NOISE), ProtocolError, "remoting"),
    "a server that hangs up": (hang_up, ConnectionLost, "closed by the peer|reset|Broken pipe"),
    "a server that never answers": (stay_silent, RequestTimedOut, r"no answer.* within \d+ ms"),
    "half an answer": (say(ANSWER[:500]), RequestTimedOut, r"no answer.* within \d+ ms"),
    "half an answer and the end": (
        say(ANSWER[:500], and_close=True),
        ConnectionLost,
        "mid-frame|reset",
    ),
    "half a length": (say(b"\0\0"), RequestTimedOut, r"no answer.* within \d+ ms"),
    "an answer to another request": (say(OTHER), ProtocolError, "request 77, which was never sent"),
    "a huge length": (say(struct.pack(">i", 2**31 - 1)), ProtocolError, "2147483647 bytes"),
    "a negative length": (say(struct.pack(">i", -5)), ProtocolError, "-5 bytes"),
    "a header longer than its frame": (
        say(struct.pack(">iI", 6, 0xFF_FFFF) + b"ab"),
        ProtocolError,
        "header of 16777215 bytes",
    ),
    "a frame shorter than it says": (
        say(struct.pack(">iI", 8, 2) + b"ab"),
        RequestTimedOut,
        r"no answer.* within \d+ ms",
    ),
    "a header nested without end": (say(nested(100_000)), ProtocolError, "nested too deeply"),
    "a header that is no JSON": (say(struct.pack(">iI", 6, 2) + b"ab"), ProtocolError, "header"),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[Behave, type[RmqOrderedError], str]:
    return CASES[request.param]


@pytest.fixture
def bad_server(case: tuple[Behave, type[RmqOrderedError], str]) -> Iterator[BadServer]:
    with BadServer(case[0]) as server:
        yield server


def patience(case: tuple[Behave, type[RmqOrderedError], str]) -> int:
    return TIMEOUT_MS if case[1] is RequestTimedOut else PATIENCE_MS


@proves("bad-server-named-in-time")
def test_a_name_server_that_is_none_is_told_in_time_with_its_address_and_the_topic(
    bad_server: BadServer, case: tuple[Behave, type[RmqOrderedError], str]
) -> None:
    _, kind, words = case
    deadline = Deadline(GRACE_S)
    with (
        Client(bad_server.address, request_timeout_ms=patience(case)) as client,
        pytest.raises(kind, match=words) as raised,
    ):
        client.routes.route("orders")
    assert not deadline.has_passed
    assert bad_server.address in str(raised.value)
    assert "the route of topic orders" in str(raised.value)


def test_a_good_name_server_makes_up_for_a_bad_one(
    bad_server: BadServer, case: tuple[Behave, type[RmqOrderedError], str]
) -> None:
    cluster = ClusterDouble()
    cluster.brokers[0].add_topic("orders", 3)
    timeout_ms = max(1_500, patience(case))
    with BadServer(name_server(cluster)) as good:
        both = f"{bad_server.address};{good.address}"
        with Client(both, request_timeout_ms=timeout_ms) as client:
            assert len(client.routes.readable("orders")) == 3
    assert bad_server.accepted == 1


def test_a_broker_that_is_none_is_told_in_time_with_its_address_and_the_queue(
    bad_server: BadServer, case: tuple[Behave, type[RmqOrderedError], str]
) -> None:
    _, kind, words = case
    cluster = ClusterDouble()
    (queue,) = cluster.brokers[0].add_topic("orders", 1)
    cluster.brokers[0].address = bad_server.address
    deadline = Deadline(GRACE_S)
    with (
        BadServer(name_server(cluster)) as names,
        Client(names.address, request_timeout_ms=TIMEOUT_MS) as client,
    ):
        with pytest.raises(kind, match=words) as raised:
            client.broker.commit_offset("billing", queue, 5)
        producer = OrderedProducer(client, "orders", send_timeout_ms=TIMEOUT_MS)
        with pytest.raises(RmqOrderedError):
            producer.send("order-1", b"created")
    assert bad_server.address in str(raised.value)
    assert str(queue) in str(raised.value)
    assert not deadline.has_passed


@proves("stuck-send-ends")
def test_a_broker_that_never_reads_ends_sends_in_time() -> None:
    cluster = ClusterDouble()
    queues = cluster.brokers[0].add_topic("orders", 4)
    is_over = threading.Event()
    deadline = Deadline(10)
    with (
        BadServer(lambda peer: is_over.wait(GRACE_S) and None) as deaf,
        BadServer(name_server(cluster)) as names,
        Client(names.address, request_timeout_ms=TIMEOUT_MS) as client,
    ):
        cluster.brokers[0].address = deaf.address
        settings = SendSettings(send_timeout_ms=TIMEOUT_MS, idempotent=False)
        producer = OrderedProducer(client, "orders", settings=settings)
        # Together more than the buffers between the two can hold.
        large = [producer.message(bytes(4_000_000))]
        with pytest.raises((ConnectionLost, RequestTimedOut), match=deaf.address):
            producer.send_all(dict.fromkeys(queues, large))
        is_over.set()
    assert not deadline.has_passed


def name_server(cluster: ClusterDouble) -> Behave:
    """The double's name server behind a real socket."""

    def behave(peer: socket.socket) -> None:
        decoder = FrameDecoder()
        while data := peer.recv(65_536):
            for frame in decoder.receive_data(data):
                request = decode_command(frame)
                answer = reply_to(request, cluster.name_server.serve(request))
                peer.sendall(encode_command(answer))

    return behave


def test_tls_to_a_server_that_never_shakes_hands_ends_in_time(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    deadline = Deadline(CONNECT_TIMEOUT_MS / 1000 + GRACE_S)
    with (
        BadServer(stay_silent) as server,
        Client(server.address, tls=TlsSettings(str(authority))) as client,
        pytest.raises(ConnectFailed, match="TLS was refused"),
    ):
        client.routes.route("orders")
    assert not deadline.has_passed


class CrossAnswers:
    """Two pulls get each other's answer."""

    def __init__(self) -> None:
        self._first: RemotingCommand | None = None

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        if self._first is None:
            self._first = request
            return
        transport.answer(reply_to(self._first, serve(request)))
        transport.answer(reply_to(request, serve(self._first)))


def test_answers_under_each_others_name_are_an_error_and_never_other_rows() -> None:
    cluster = ClusterDouble()
    (queue,) = cluster.brokers[0].add_topic("orders", 1)
    cluster.brokers[0].fill(queue, 64)
    cluster.network.arm(CrossAnswers(), RequestCode.PULL_MESSAGE, times=2)
    with cluster.client() as client, pytest.raises(QueueGap, match="expected queue offset 0"):
        list(QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 64))))
