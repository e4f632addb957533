"""Real sockets on this machine: bytes through, errors translated, blocked readers woken."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.support.servers import slow_reader
from tests.support.waiting import Deadline, wait_until

from rmq_ordered.errors import ConnectFailed, ConnectionLost
from rmq_ordered.net import transport as transport_module
from rmq_ordered.net.transport import NOTHING_YET, TcpTransport, connect_tcp, split_address


@pytest.fixture
def pair() -> Iterator[tuple[TcpTransport, socket.socket]]:
    """A transport and the peer's raw socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        transport = connect_tcp(f"127.0.0.1:{port}")
        peer, _ = listener.accept()
    assert isinstance(transport, TcpTransport)
    with peer:
        yield transport, peer
    transport.close()


def test_bytes_go_both_ways(pair: tuple[TcpTransport, socket.socket]) -> None:
    transport, peer = pair
    transport.send_all(b"ping")
    assert peer.recv(100) == b"ping"
    peer.sendall(b"pong")
    buffer = bytearray(100)
    assert transport.receive_into(buffer) == 4
    assert buffer[:4] == b"pong"


def test_nothing_is_held_back_to_fill_packets(pair: tuple[TcpTransport, socket.socket]) -> None:
    transport, _ = pair
    assert transport._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_peer_that_hangs_up_is_the_end(pair: tuple[TcpTransport, socket.socket]) -> None:
    transport, peer = pair
    peer.close()
    assert transport.receive_into(bytearray(10)) == 0


def test_an_idle_connection_is_not_an_error(
    pair: tuple[TcpTransport, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, peer = pair
    monkeypatch.setattr(transport_module, "STALL_TIMEOUT_MS", 1)
    timer = threading.Timer(0.02, peer.sendall, [b"late"])
    timer.start()
    assert transport.receive_into(bytearray(10)) == 4
    timer.join()


def test_nothing_in_time_is_told_and_the_connection_goes_on(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, peer = pair
    assert transport.receive_into(bytearray(10), 0) == NOTHING_YET
    assert transport.receive_into(bytearray(10), 5) == NOTHING_YET
    peer.sendall(b"late")
    assert transport.receive_into(bytearray(10), 2**40) == 4, "no wait is too long to ask for"
    peer.close()
    assert transport.receive_into(bytearray(10), 10_000) == 0


def test_what_a_peer_does_not_take_at_once_is_left(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, peer = pair
    data = memoryview(bytes(64 * 1024 * 1024))
    sent = 0
    while count := transport.try_send(data[sent:]):
        sent += count
    assert 0 < sent < len(data)
    taken = 0
    while taken < sent:
        taken += len(peer.recv(1024 * 1024))
    assert taken == sent
    transport.close()
    with pytest.raises(ConnectionLost, match="closed by this client"):
        transport.try_send(data)


def test_a_reset_is_a_lost_connection(pair: tuple[TcpTransport, socket.socket]) -> None:
    transport, peer = pair
    # Linger of 0 s makes close() send RST instead of FIN.
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    peer.close()
    with pytest.raises(ConnectionLost, match=r"receive failed: .*reset") as caught:
        transport.receive_into(bytearray(10))
    assert isinstance(caught.value.__cause__, OSError)


def test_a_closed_socket_keeps_its_number_until_its_reader_has_left(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, _ = pair
    number = transport._socket.fileno()
    with transport._guard.use():
        transport.close()
        assert transport._socket.fileno() == number
        with socket.socket() as another:
            assert another.fileno() != number
    assert transport._socket.fileno() == -1
    with pytest.raises(ConnectionLost, match="closed by this client"):
        transport.receive_into(bytearray(10))


class CollectsGarbage(socket.socket):
    """Closing it brings up a read that nobody finished, which closes the same connection."""

    on_close: Callable[[], None] | None = None

    def close(self) -> None:
        again, self.on_close = self.on_close, None
        if again is not None:
            again()
        super().close()


def test_closing_may_come_from_within_closing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = CollectsGarbage()
        sock.connect(listener.getsockname())
        transport = TcpTransport("broker-a:10911", sock)
        sock.on_close = transport.close
        closing = threading.Thread(target=transport.close, daemon=True)
        closing.start()
        closing.join(timeout=5)
        assert not closing.is_alive()
        assert sock.fileno() == -1


def test_sending_after_the_end_is_a_lost_connection(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, _ = pair
    transport.close()
    with pytest.raises(ConnectionLost, match="closed by this client"):
        transport.send_all(b"x")


LARGE = bytes(64 * 1024 * 1024)


def test_a_peer_that_takes_nothing_ends_a_send_in_time(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, _ = pair
    deadline = Deadline(10)
    with pytest.raises(ConnectionLost, match=r"took only \d+ of 67108864 bytes within 100 ms"):
        transport.send_all(LARGE, 100)
    assert not deadline.has_passed


def test_a_peer_that_takes_a_byte_now_and_then_ends_a_send_in_time(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, peer = pair
    deadline = Deadline(10)
    with slow_reader(peer), pytest.raises(ConnectionLost, match="within 300 ms"):
        transport.send_all(LARGE, 300)
    assert not deadline.has_passed


def test_what_is_larger_than_all_buffers_is_sent_whole(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, peer = pair
    data = bytes(range(256)) * 65_536
    sending = threading.Thread(target=transport.send_all, args=(data,))
    sending.start()
    received = bytearray()
    while len(received) < len(data):
        received += peer.recv(1_000_000)
    sending.join(timeout=5)
    assert received == data


def test_closing_ends_a_send_that_waits(pair: tuple[TcpTransport, socket.socket]) -> None:
    transport, _ = pair
    ended: list[str] = []

    def send() -> None:
        try:
            transport.send_all(LARGE, 60_000)
        except ConnectionLost as error:
            ended.append(str(error))

    sending = threading.Thread(target=send)
    sending.start()
    wait_until(lambda: transport._guard._users, "the send has begun", 5)
    transport.close()
    sending.join(timeout=5)
    assert len(ended) == 1


def test_closing_wakes_a_blocked_reader_and_may_be_repeated(
    pair: tuple[TcpTransport, socket.socket],
) -> None:
    transport, _ = pair
    ended: list[object] = []

    def read() -> None:
        try:
            ended.append(transport.receive_into(bytearray(10)))
        except ConnectionLost as error:
            ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    transport.close()
    transport.close()
    reader.join(timeout=5)
    assert len(ended) == 1


def test_nobody_listening_is_a_failed_connection_that_says_what_to_check() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectFailed, match=r"refused.*check that") as caught:
            connect_tcp(address)
    assert caught.value.address == address


@pytest.mark.parametrize("host", ["a" * 70, "no..dots"])
def test_a_host_name_that_cannot_exist_is_a_failed_connection(host: str) -> None:
    with pytest.raises(ConnectFailed):
        connect_tcp(f"{host}:1")


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("mq1:9876", ("mq1", 9876)),
        ("[::1]:1", ("::1", 1)),
        ("10.0.0.1:65535", ("10.0.0.1", 65_535)),
    ],
)
def test_addresses_have_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "mq1", ":1", "mq1:", "mq1:x", "mq1:65536", "mq1:-1"])
def test_an_address_without_host_or_port_is_refused(address: str) -> None:
    with pytest.raises(ConnectFailed, match="should read host:port"):
        split_address(address)
