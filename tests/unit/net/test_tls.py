"""TLS over real sockets on loopback: both directions at once, the right peer, a clear refusal."""

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from tests.support.promises import proves
from tests.support.servers import slow_reader
from tests.support.waiting import Deadline, wait_until

from rmq_ordered.errors import ConnectFailed, ConnectionLost
from rmq_ordered.net import tls
from rmq_ordered.net.tls import TlsSettings, tls_connector
from rmq_ordered.net.transport import NOTHING_YET


class Server:
    """Accepts TLS connections and hands out the server's ends."""

    def __init__(self, authority: trustme.CA, *, client_ca: trustme.CA | None = None) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost").configure_cert(self._context)
        if client_ca is not None:
            client_ca.configure_trust(self._context)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.address = f"localhost:{self._listener.getsockname()[1]}"
        self.connections: list[ssl.SSLSocket] = []
        self._accepted = threading.Event()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
            sock.settimeout(10)
            self.connections.append(self._context.wrap_socket(sock, server_side=True))
        except OSError:
            return
        finally:
            self._accepted.set()

    def connection(self) -> ssl.SSLSocket:
        assert self._accepted.wait(10)
        (connection,) = self.connections
        return connection

    def close(self) -> None:
        self._listener.close()
        self._thread.join(15)
        for connection in self.connections:
            connection.close()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[Server]:
    server = Server(authority)
    yield server
    server.close()


def receive(transport: tls.TlsTransport, count: int) -> bytes:
    received = b""
    buffer = bytearray(65_536)
    while len(received) < count:
        length = transport.receive_into(buffer)
        assert length > 0
        received += buffer[:length]
    return received


def test_bytes_travel_both_ways_at_once(server: Server, ca_file: str) -> None:
    transport = tls_connector(TlsSettings(ca_file))(server.address)
    peer = server.connection()
    payload = bytes(range(256)) * 8_192

    def echo() -> None:
        for _ in range(0, len(payload), 65_536):
            peer.sendall(_exactly(peer, 65_536))

    echoing = threading.Thread(target=echo)
    sending = threading.Thread(target=transport.send_all, args=(payload,))
    echoing.start()
    sending.start()
    assert receive(transport, len(payload)) == payload
    sending.join(10)
    echoing.join(10)
    transport.close()


def _exactly(sock: ssl.SSLSocket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        received += sock.recv(count - len(received))
    return bytes(received)


def test_who_will_not_wait_is_told_what_went_through(server: Server, ca_file: str) -> None:
    transport = tls_connector(TlsSettings(ca_file))(server.address)
    peer = server.connection()
    assert transport.receive_into(bytearray(16), 0) == NOTHING_YET
    assert transport.receive_into(bytearray(16), 5) == NOTHING_YET
    data = memoryview(bytes(64 * 1024 * 1024))
    # OpenSSL has begun with it and wants the same bytes again; it tells only when all are through.
    assert transport.try_send(data) == 0
    taking = threading.Thread(target=_exactly, args=(peer, len(data)))
    taking.start()
    wait_until(lambda: transport.try_send(data) == len(data), "all was taken", 60)
    taking.join(60)
    peer.sendall(b"late")
    assert transport.receive_into(bytearray(16), 10_000) == 4
    transport.close()


def test_the_peers_end_is_the_end(server: Server, ca_file: str) -> None:
    transport = tls_connector(TlsSettings(ca_file))(server.address)
    peer = server.connection()
    peer.sendall(b"bye")
    peer.close()
    assert transport.receive_into(bytearray(16)) == 3
    assert transport.receive_into(bytearray(16)) == 0
    transport.close()


def test_a_peer_that_ends_without_a_word_may_want_our_certificate(
    server: Server, ca_file: str
) -> None:
    transport = tls_connector(TlsSettings(ca_file))(server.address)
    server.connection().close()
    with pytest.raises(ConnectionLost, match="want a client certificate"):
        transport.receive_into(bytearray(16))
    transport.close()


def test_a_client_without_the_certificate_that_is_wanted_is_told(
    authority: trustme.CA, ca_file: str
) -> None:
    server = Server(authority, client_ca=authority)
    try:
        transport = tls_connector(TlsSettings(ca_file))(server.address)
        with pytest.raises(ConnectionLost, match="certificate"):
            transport.receive_into(bytearray(16))
        transport.close()
    finally:
        server.close()


def test_closing_wakes_the_receiver(server: Server, ca_file: str) -> None:
    transport = tls_connector(TlsSettings(ca_file))(server.address)
    server.connection()
    outcome: list[object] = []

    def wait() -> None:
        try:
            outcome.append(transport.receive_into(bytearray(16)))
        except ConnectionLost as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    transport.close()
    waiting.join(10)
    assert not waiting.is_alive()
    assert outcome
    with pytest.raises(ConnectionLost, match="closed by this client"):
        transport.send_all(b"x")


def test_an_unknown_authority_is_refused(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    with pytest.raises(ConnectFailed, match="TLS was refused") as raised:
        tls_connector(TlsSettings(str(other)))(server.address)
    assert server.address in str(raised.value)


def test_another_host_name_is_refused(server: Server, ca_file: str) -> None:
    address = server.address.replace("localhost", "127.0.0.1")
    with pytest.raises(ConnectFailed, match="IP address mismatch"):
        tls_connector(TlsSettings(ca_file))(address)


def test_another_host_name_is_accepted_when_the_check_is_switched_off(
    server: Server, ca_file: str
) -> None:
    address = server.address.replace("localhost", "127.0.0.1")
    tls_connector(TlsSettings(ca_file, check_host=False))(address).close()


def test_a_plain_server_is_refused_in_time(ca_file: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            peer.sendall(b"this is not TLS at all")
            peer.close()

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(ConnectFailed, match="TLS was refused"):
            tls_connector(TlsSettings(ca_file))(f"127.0.0.1:{listener.getsockname()[1]}")
        answering.join(10)


def test_a_client_certificate_proves_who_we_are(
    authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    ours = authority.issue_cert("client@example.org")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    ours.cert_chain_pems[0].write_to_path(str(certificate))
    ours.private_key_pem.write_to_path(str(key))
    server = Server(authority, client_ca=authority)
    try:
        settings = TlsSettings(ca_file, str(certificate), str(key))
        transport = tls_connector(settings)(server.address)
        transport.send_all(b"hello")
        assert _exactly(server.connection(), 5) == b"hello"
        transport.close()
    finally:
        server.close()


def test_a_file_that_is_no_certificate_is_refused_at_once(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    for settings in (TlsSettings(str(nonsense)), TlsSettings(None, str(nonsense))):
        with pytest.raises(ConnectFailed, match="cannot be used"):
            tls_connector(settings)


def test_a_peer_that_takes_nothing_ends_a_send_in_time(server: Server, ca_file: str) -> None:
    transport = tls_connector(TlsSettings(ca_file))(server.address)
    server.connection()
    deadline = Deadline(10)
    with pytest.raises(ConnectionLost, match=r"took only \d+ of 67108864 bytes within 100 ms"):
        transport.send_all(bytes(64 * 1024 * 1024), 100)
    assert not deadline.has_passed
    transport.close()


@proves("stuck-send-ends")
def test_a_peer_that_takes_a_byte_now_and_then_ends_a_send_in_time(
    server: Server, ca_file: str
) -> None:
    transport = tls_connector(TlsSettings(ca_file))(server.address)
    deadline = Deadline(10)
    with slow_reader(server.connection()), pytest.raises(ConnectionLost, match="within 300 ms"):
        transport.send_all(bytes(64 * 1024 * 1024), 300)
    assert not deadline.has_passed
    transport.close()
