"""The stream without a socket behaves as one."""

import threading

import pytest

from rmq_ordered.errors import ConnectionLost
from rmq_ordered.protocol.command import RemotingCommand, encode_command
from rmq_ordered.testing import ScriptedTransport

PULL = RemotingCommand(11, opaque=7)


def receive(transport: ScriptedTransport, size: int = 1_000) -> bytes:
    buffer = bytearray(size)
    return bytes(buffer[: transport.receive_into(buffer)])


def test_what_the_client_sends_is_cut_into_commands_and_handed_on() -> None:
    seen: list[tuple[str, int]] = []
    transport = ScriptedTransport(
        "b:1", lambda t, command: seen.append((t.address, command.opaque))
    )
    data = encode_command(PULL)
    transport.send_all(data[:5])
    assert transport.sent == []
    transport.send_all(data[5:] + data)
    assert transport.sent == [PULL, PULL]
    assert seen == [("b:1", 7), ("b:1", 7)]


def test_bytes_of_the_peer_are_received_in_pieces_of_the_buffer_s_size() -> None:
    transport = ScriptedTransport("b:1")
    transport.deliver(b"abcde")
    assert [receive(transport, 2) for _ in range(3)] == [b"ab", b"cd", b"e"]


def test_receiving_waits_for_bytes() -> None:
    transport = ScriptedTransport("b:1")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(receive(transport)))
    reader.start()
    transport.answer(PULL)
    reader.join(timeout=5)
    assert received == [encode_command(PULL)]


def test_a_peer_that_hung_up_gives_what_it_sent_before_then_the_end() -> None:
    transport = ScriptedTransport("b:1")
    transport.deliver(b"last")
    transport.hang_up()
    transport.deliver(b"too late")
    assert [receive(transport), receive(transport)] == [b"last", b""]
    transport.send_all(encode_command(PULL))
    assert transport.sent == [], "nobody reads any more"


def test_a_broken_stream_raises_on_both_ways() -> None:
    transport = ScriptedTransport("b:1")
    transport.fail("reset")
    with pytest.raises(ConnectionLost, match="receive failed: reset"):
        receive(transport)
    with pytest.raises(ConnectionLost, match="send failed: reset"):
        transport.send_all(b"")


def test_closing_wakes_a_blocked_reader_and_may_be_repeated() -> None:
    transport = ScriptedTransport("b:1")
    errors: list[ConnectionLost] = []

    def read() -> None:
        try:
            receive(transport)
        except ConnectionLost as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    transport.close()
    transport.close()
    reader.join(timeout=5)
    assert "closed stream" in str(errors[0])
    assert transport.is_closed
    with pytest.raises(ConnectionLost):
        transport.send_all(b"")
