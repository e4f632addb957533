"""A TCP connection as the channel needs it; only here and in ``tls`` is OSError translated."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Final, Protocol

from rmq_ordered.errors import ConnectFailed, ConnectionLost

# Java's client gives connecting 3 s; a send that cannot move a byte for this long has a dead peer.
CONNECT_TIMEOUT_MS: Final = 3_000
_STALL_TIMEOUT_S: Final = 15.0


class Transport(Protocol):
    """A duplex byte stream to one address."""

    def send_all(self, data: bytes) -> None:
        """Send every byte or raise ConnectionLost."""

    def receive_into(self, buffer: bytearray) -> int:
        """Wait for bytes; 0 means that the peer closed. Raises ConnectionLost."""

    def close(self) -> None:
        """End the stream; a blocked ``receive_into`` returns or raises. Idempotent."""


class Connect(Protocol):
    """How a transport is made; tests pass their own."""

    def __call__(self, address: str, /) -> Transport:
        """Open a stream to ``host:port`` or raise ConnectFailed."""


class SocketGuard:
    """Closes a socket when nobody is inside its calls any more. Thread-safe.

    Shutting down wakes those who wait for the network. Closing has to wait until they have left: a
    file descriptor that is free may be given to the next connection, and who still polls the old
    one would then wait for the new one's bytes.
    """

    def __init__(self, address: str, sock: socket.socket) -> None:
        self._address = address
        self._socket = sock
        self._lock = threading.Lock()
        self._users = 0
        self._is_closed = False

    def ensure_open(self) -> None:
        """Raise ConnectionLost after ``close``."""
        if self._is_closed:
            raise ConnectionLost(self._address, "closed by this client")

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """Around every call of the socket; raises ConnectionLost after ``close``."""
        with self._lock:
            self.ensure_open()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                self._close_if_unused()

    def close(self) -> None:
        """Wake whoever is inside a call; the last one out closes. Idempotent."""
        with self._lock:
            self._is_closed = True
            with contextlib.suppress(OSError):  # already disconnected is what we want
                # The plain socket's way: TLS has nothing to say to a peer that we give up.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_closed and self._users == 0:
            self._socket.close()


class TcpTransport:
    """A blocking socket. One thread may receive while another sends."""

    def __init__(self, address: str, sock: socket.socket) -> None:
        self._address = address
        self._socket = sock
        self._guard = SocketGuard(address, sock)

    def send_all(self, data: bytes) -> None:
        """Send every byte or raise ConnectionLost."""
        with self._guard.use():
            try:
                self._socket.sendall(data)
            except OSError as error:
                raise ConnectionLost(self._address, f"send failed: {words(error)}") from error

    def receive_into(self, buffer: bytearray) -> int:
        """Wait for bytes; an idle connection is not an error."""
        with self._guard.use():
            while True:
                try:
                    return self._socket.recv_into(buffer)
                except TimeoutError:
                    self._guard.ensure_open()
                except OSError as error:
                    reason = f"receive failed: {words(error)}"
                    raise ConnectionLost(self._address, reason) from error

    def close(self) -> None:
        """Wake whoever waits for the network, then close."""
        self._guard.close()


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` in its two parts; ``[v6]:port`` as well."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ConnectFailed(address, "an address should read host:port")
    return host.strip("[]"), int(port)


def connect_tcp(address: str, /) -> Transport:
    """Open a plain connection."""
    return TcpTransport(address, open_socket(address))


def open_socket(address: str) -> socket.socket:
    """A connected socket with RocketMQ's options; raises ConnectFailed."""
    host, port = split_address(address)
    try:
        sock = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_MS / 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(_STALL_TIMEOUT_S)
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that IDNA cannot encode
        raise ConnectFailed(address, words(error)) from error
    return sock


def words(error: OSError | UnicodeError) -> str:
    """What went wrong, without Python's decoration."""
    known = error.strerror if isinstance(error, OSError) else None
    return known or str(error) or type(error).__name__
