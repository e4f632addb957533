"""A connection for one thread: answers in any order, silence, ends, and a peer that reads late."""

import gc
import socket
import threading
from dataclasses import dataclass, replace

import pytest
from tests.support.promises import proves

from rmq_ordered.errors import (
    ClientClosed,
    ConnectionLost,
    RemoteProtocolError,
    RequestTimedOut,
)
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.net.stream import AnswerStream
from rmq_ordered.net.system import SystemClock
from rmq_ordered.net.transport import connect_tcp
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import FLAG_RESPONSE, RemotingCommand, encode_command
from rmq_ordered.testing import ManualClock, ScriptedTransport

ADDRESS = "broker-a:10911"
PULL = RemotingCommand(11)


@dataclass
class Rig:
    stream: AnswerStream
    transport: ScriptedTransport
    clock: ManualClock

    soon_ms: int = 0

    def ask(self, count: int = 1) -> list[int]:
        opaques = self.stream.begin(count)
        frames = b"".join(encode_command(PULL, opaque) for opaque in opaques)
        self.soon_ms = self.stream.send(frames, "pulls", 3_000)
        return opaques

    def answer(self, opaque: int, body: bytes = b"", code: int = 0) -> None:
        response = RemotingCommand(code, opaque=opaque, flag=FLAG_RESPONSE, body=body)
        self.transport.answer(response)


@pytest.fixture
def rig() -> Rig:
    return rig_over(ScriptedTransport(ADDRESS))


def test_requests_go_out_as_they_are_and_answers_find_them_in_any_order(rig: Rig) -> None:
    first, second, third = rig.ask(3)
    assert [command.opaque for command in rig.transport.sent] == [first, second, third]
    assert rig.transport.send_count == 1
    for opaque in (third, first, second):
        rig.answer(opaque, b"%d" % opaque)
    for opaque in (first, second, third):
        answer = rig.stream.answer(opaque, rig.soon_ms)
        assert answer is not None
        assert (answer.header.code, bytes(answer.body)) == (0, b"%d" % opaque)


def test_an_answer_that_nobody_wants_any_more_is_dropped(rig: Rig) -> None:
    first, second = rig.ask(2)
    rig.stream.forget(first)
    rig.answer(first, b"late")
    rig.answer(second)
    assert rig.stream.answer(second, rig.soon_ms) is not None


def test_a_request_of_the_server_is_passed_over(rig: Rig) -> None:
    (opaque,) = rig.ask()
    rig.transport.answer(RemotingCommand(40, opaque=opaque))
    rig.answer(opaque, b"mine")
    answer = rig.stream.answer(opaque, rig.soon_ms)
    assert answer is not None
    assert answer.body == b"mine"


def test_an_answer_that_is_here_is_not_late(rig: Rig) -> None:
    (opaque,) = rig.ask()
    rig.answer(opaque, b"here")
    answer = rig.stream.answer(opaque, rig.soon_ms - 10_000)
    assert answer is not None
    assert answer.body == b"here"


class Records(ScriptedTransport):
    """Gives what came in parts, as TLS does."""

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        return super().receive_into(memoryview(buffer)[: 16 * 1024], timeout_ms)


class Endless(ScriptedTransport):
    """Never stops sending, but does not answer."""

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        self.answer(RemotingCommand(40))
        return super().receive_into(buffer, timeout_ms)


def rig_over(transport: ScriptedTransport) -> Rig:
    clock = ManualClock()
    return Rig(AnswerStream(ADDRESS, transport, clock), transport, clock)


@pytest.mark.parametrize(
    "transport", [ScriptedTransport(ADDRESS), Records(ADDRESS)], ids=["whole", "TLS"]
)
def test_an_answer_that_is_here_is_not_late_however_many_receives_it_takes(
    transport: ScriptedTransport,
) -> None:
    rig = rig_over(transport)
    body = bytes(3 * 1024 * 1024)
    first, second = rig.ask(2)
    rig.answer(first, body)
    rig.answer(second, body)
    answer = rig.stream.answer(second, rig.soon_ms - 10_000)
    assert answer is not None
    assert len(answer.body) == len(body)


def test_an_answer_of_which_a_part_is_here_after_the_deadline_is_late(rig: Rig) -> None:
    (opaque,) = rig.ask()
    response = RemotingCommand(0, opaque=opaque, flag=FLAG_RESPONSE, body=bytes(2 * 1024 * 1024))
    rig.transport.deliver(encode_command(response)[:-1])
    assert rig.stream.answer(opaque, rig.soon_ms - 10_000) is None
    assert rig.transport.is_closed


def test_a_peer_that_never_stops_sending_is_given_up_after_the_deadline() -> None:
    rig = rig_over(Endless(ADDRESS))
    (opaque,) = rig.ask()
    assert rig.stream.answer(opaque, rig.soon_ms - 10_000) is None
    assert rig.transport.is_closed


def test_silence_until_the_deadline_ends_the_stream(rig: Rig) -> None:
    (opaque,) = rig.ask()
    assert rig.stream.answer(opaque, rig.soon_ms - 3_000) is None
    assert rig.transport.is_closed


def test_silence_is_waited_for_in_real_time() -> None:
    stream = AnswerStream(ADDRESS, ScriptedTransport(ADDRESS), SystemClock())
    (opaque,) = stream.begin(1)
    assert stream.answer(opaque, stream.send(encode_command(PULL, opaque), "a pull", 20)) is None


def test_while_nobody_listens_no_time_passes(rig: Rig) -> None:
    first, second = rig.ask(2)
    rig.answer(first)
    rig.clock.advance_ms(60_000)
    assert rig.stream.answer(first, rig.soon_ms) is not None
    rig.answer(second)
    rig.clock.advance_ms(60_000)
    assert rig.stream.answer(second, rig.soon_ms) is not None
    (third,) = rig.ask()
    rig.clock.advance_ms(60_000)
    rig.answer(third)
    assert rig.stream.answer(third, rig.soon_ms) is not None


def test_what_was_never_asked_for_ends_the_stream(rig: Rig) -> None:
    (opaque,) = rig.ask()
    rig.answer(4_711)
    with pytest.raises(RemoteProtocolError, match="request 4711"):
        rig.stream.answer(opaque, rig.soon_ms)
    assert rig.transport.is_closed


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "before it said anything"),
        (b"\0\0\0\x09", "in mid-frame"),
        (
            encode_command(replace(PULL, flag=FLAG_RESPONSE, opaque=1)),
            "lost: closed by the peer(?! )",
        ),
    ],
)
def test_a_peer_that_hangs_up_says_how_far_it_came(rig: Rig, said: bytes, reason: str) -> None:
    rig.ask()
    (opaque,) = rig.ask()
    rig.transport.deliver(said)
    rig.transport.hang_up()
    with pytest.raises(ConnectionLost, match=reason):
        rig.stream.answer(opaque, rig.soon_ms)
    assert rig.transport.is_closed


def test_a_server_that_is_about_to_stop_ends_the_stream(rig: Rig) -> None:
    (opaque,) = rig.ask()
    rig.answer(opaque, code=ResponseCode.GO_AWAY)
    with pytest.raises(ConnectionLost, match="go away"):
        rig.stream.answer(opaque, rig.soon_ms)
    assert rig.transport.is_closed


def test_a_send_that_fails_ends_the_stream(rig: Rig) -> None:
    rig.transport.fail("reset")
    with pytest.raises(ConnectionLost, match="reset"):
        rig.ask()
    assert rig.transport.is_closed


@proves("peer-reads-while-read")
def test_a_peer_that_reads_only_when_it_is_read_is_listened_to_while_sending() -> None:
    answers = 400
    body = bytes(64 * 1024)

    def answer_before_reading(peer: socket.socket) -> None:
        for opaque in range(1, answers + 1):
            response = RemotingCommand(0, opaque=opaque, flag=FLAG_RESPONSE, body=body)
            peer.sendall(encode_command(response))
        while peer.recv(1024 * 1024):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        stream = AnswerStream(address, connect_tcp(address), SystemClock())
        peer, _ = listener.accept()
    with peer:
        server = threading.Thread(target=answer_before_reading, args=(peer,))
        server.start()
        opaques = stream.begin(answers)
        # Much more than the buffers of both sides hold.
        deadline_ms = stream.send(bytes(16 * 1024 * 1024), "pulls", 30_000)
        for opaque in opaques:
            answer = stream.answer(opaque, deadline_ms)
            assert answer is not None
            assert len(answer.body) == len(body)
        stream.close()
        server.join()


def test_a_peer_that_takes_nothing_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        transport = connect_tcp(address)
        stream = AnswerStream(address, transport, SystemClock())
        with pytest.raises(RequestTimedOut, match="the pulls"):
            stream.send(bytes(64 * 1024 * 1024), "the pulls", 50)
        with pytest.raises(ConnectionLost, match="closed by this client"):
            transport.try_send(memoryview(b"x"))


class Network:
    """Streams over scripted transports."""

    def __init__(self) -> None:
        self.transports: list[ScriptedTransport] = []
        self.remoting = Remoting(ManualClock(), self._connect)

    def _connect(self, address: str, /) -> ScriptedTransport:
        self.transports.append(ScriptedTransport(address))
        return self.transports[-1]


def test_everybody_has_a_stream_of_his_own() -> None:
    network = Network()
    first = network.remoting.open_stream(ADDRESS, "a read")
    second = network.remoting.open_stream(ADDRESS, "a read")
    first.close()
    assert [transport.is_closed for transport in network.transports] == [True, False]
    second.close()


def test_closing_ends_every_stream_and_opens_no_more() -> None:
    network = Network()
    lent = [network.remoting.open_stream(ADDRESS, "a read") for _ in range(2)]
    network.remoting.close()
    assert [transport.is_closed for transport in network.transports] == [True] * len(lent)
    with pytest.raises(ClientClosed):
        network.remoting.open_stream(ADDRESS, "a read")
    assert len(network.transports) == len(lent)


def test_a_stream_that_is_opened_while_the_client_is_closed_ends() -> None:
    transport = ScriptedTransport(ADDRESS)

    def connect_late(address: str, /) -> ScriptedTransport:
        remoting.close()
        return transport

    remoting = Remoting(ManualClock(), connect_late)
    with pytest.raises(ClientClosed):
        remoting.open_stream(ADDRESS, "a read")
    assert transport.is_closed


def test_a_client_does_not_remember_streams_that_nobody_has() -> None:
    network = Network()
    for _ in range(3):
        network.remoting.open_stream(ADDRESS, "a read").close()
    gc.collect()
    assert len(network.remoting._streams) == 0
