"""A TCP connection for channels and streams; only here and in ``tls`` is OSError translated."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from typing import Final, Protocol

from rmq_ordered.errors import ConnectFailed, ConnectionLost
from rmq_ordered.net.system import SystemClock

# Java's client gives connecting 3 s.
CONNECT_TIMEOUT_MS: Final = 3_000
# For what has no deadline of its own: a peer that takes no bytes for this long is dead.
STALL_TIMEOUT_MS: Final = 15_000
# What ``receive_into`` returns when nothing came in time.
NOTHING_YET: Final = -1
# The system takes no longer waits: 24 days.
_LONGEST_POLL_MS: Final = 2**31 - 1
_CLOCK: Final = SystemClock()


class Transport(Protocol):
    """A duplex byte stream to one address."""

    def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        """Send every byte within the time, or raise ConnectionLost."""

    def try_send(self, data: memoryview) -> int:
        """Send what can be sent without waiting; returns how much, or raises ConnectionLost.

        What was not taken has to be offered again as it is: TLS may have begun with it.
        """

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        """Wait for bytes, for ever or so long; 0 means that the peer closed.

        Returns NOTHING_YET when the time is over. Raises ConnectionLost.
        """

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
        # Reentrant: garbage may be collected while this thread has the lock, and with it a read
        # that nobody finished, which closes its connection: perhaps this one.
        self._lock = threading.RLock()
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
            # First, so that nothing closes the socket between the two, not even this thread.
            self._users += 1
        try:
            self.ensure_open()
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


class TimeLeft:
    """How long the network may still let us wait: whatever moves in between, it ends in time.

    The clock is read when we first have to wait, so that most calls cost nothing.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._end_ms: int | None = None

    def ms(self) -> int:
        """Not above 0 when the time is over."""
        now_ms = _CLOCK.monotonic_ms()
        if self._end_ms is None:
            self._end_ms = now_ms + self._timeout_ms
        return self._end_ms - now_ms


class SendBudget:
    """How much time is left for one send."""

    def __init__(self, address: str, size: int, timeout_ms: int) -> None:
        self._address = address
        self._size = size
        self._timeout_ms = timeout_ms
        self._left = TimeLeft(timeout_ms)

    def left_ms(self, rest: int) -> int:
        """Above 0, or raises ConnectionLost while ``rest`` bytes have not been taken."""
        left_ms = self._left.ms()
        if left_ms <= 0:
            taken = f"{self._size - rest} of {self._size} bytes"
            raise ConnectionLost(
                self._address, f"the peer took only {taken} within {self._timeout_ms} ms"
            )
        return left_ms


class TcpTransport:
    """A socket that never blocks by itself: receiving may wait for ever, sending may not.

    One thread may receive while another sends.
    """

    def __init__(self, address: str, sock: socket.socket) -> None:
        self._address = address
        self._socket = sock
        self._socket.setblocking(False)
        self._guard = SocketGuard(address, sock)
        self._incoming = select.poll()
        self._incoming.register(sock, select.POLLIN)

    def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        """Send every byte within the time, or raise ConnectionLost."""
        budget = SendBudget(self._address, len(data), timeout_ms)
        rest = memoryview(data)
        with self._guard.use():
            while rest:
                try:
                    rest = rest[self._socket.send(rest) :]
                except BlockingIOError:
                    wait_for(self._socket, select.POLLOUT, budget.left_ms(len(rest)))
                    self._guard.ensure_open()
                except OSError as error:
                    raise ConnectionLost(self._address, f"send failed: {words(error)}") from error

    def try_send(self, data: memoryview) -> int:
        """Send what can be sent without waiting."""
        with self._guard.use():
            try:
                return self._socket.send(data)
            except BlockingIOError:
                return 0
            except OSError as error:
                raise ConnectionLost(self._address, f"send failed: {words(error)}") from error

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        """Wait for bytes; an idle connection is not an error."""
        with self._guard.use():
            while True:
                wait_ms = STALL_TIMEOUT_MS if timeout_ms is None else timeout_ms
                ready = self._incoming.poll(min(wait_ms, _LONGEST_POLL_MS))
                self._guard.ensure_open()
                if not ready and timeout_ms is not None:
                    return NOTHING_YET
                try:
                    return self._socket.recv_into(buffer)
                except BlockingIOError:
                    continue
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
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that IDNA cannot encode
        raise ConnectFailed(address, words(error)) from error
    return sock


def wait_for(sock: socket.socket, event: int, timeout_ms: int) -> None:
    """Until the socket is ready for the event of ``select.poll``, or the time is over."""
    poll = select.poll()
    poll.register(sock, event)
    poll.poll(min(timeout_ms, _LONGEST_POLL_MS))


def words(error: OSError | UnicodeError) -> str:
    """What went wrong, without Python's decoration."""
    known = error.strerror if isinstance(error, OSError) else None
    return known or str(error) or type(error).__name__
