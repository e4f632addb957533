"""TLS connections: the same byte stream as ``transport``, encrypted from the first byte.

OpenSSL's connection objects may not be used by two threads at once, but one of our threads sends
while another receives. So the socket never blocks inside OpenSSL: both take a lock for the call
itself and wait for the network outside of it.
"""

from __future__ import annotations

import select
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rmq_ordered.errors import ConnectFailed, ConnectionLost
from rmq_ordered.net.transport import (
    CONNECT_TIMEOUT_MS,
    NOTHING_YET,
    STALL_TIMEOUT_MS,
    Connect,
    SendBudget,
    SocketGuard,
    TimeLeft,
    Transport,
    open_socket,
    split_address,
    wait_for,
    words,
)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Whom to trust, and how to prove who we are. Paths of PEM files; plain and picklable.

    Without ``ca_file`` the machine's own certificate authorities are trusted.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    check_host: bool = True


def tls_connector(settings: TlsSettings) -> Connect:
    """How to open TLS connections; raises ConnectFailed at once when a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        context.check_hostname = settings.check_host
        if settings.certificate_file is not None:
            context.load_cert_chain(settings.certificate_file, settings.key_file)
    except OSError as error:
        raise ConnectFailed("(TLS)", f"a certificate or key cannot be used: {error}") from error

    def connect(address: str, /) -> Transport:
        sock = open_socket(address)
        try:
            host, _ = split_address(address)
            # One deadline for the whole handshake: a server that expects no TLS may stay silent.
            sock.settimeout(CONNECT_TIMEOUT_MS / 1000)
            secure = context.wrap_socket(sock, server_hostname=host)
        except OSError as error:
            sock.close()
            raise ConnectFailed(
                address,
                f"TLS was refused: {words(error)} (whom we trust, the host name in the server's "
                "certificate, or a server that speaks no TLS)",
            ) from error
        return TlsTransport(address, secure)

    return connect


class TlsTransport:
    """One thread may receive while another sends."""

    def __init__(self, address: str, sock: ssl.SSLSocket) -> None:
        self._address = address
        self._socket = sock
        self._socket.setblocking(False)
        self._lock = threading.Lock()
        self._guard = SocketGuard(address, sock)
        self._has_received = False

    def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        """Send every byte within the time, or raise ConnectionLost."""
        budget = SendBudget(self._address, len(data), timeout_ms)
        rest = memoryview(data)
        while rest:
            left_ms = partial(budget.left_ms, len(rest))
            with self._guard.use():
                sent = self._attempt(partial(self._socket.send, rest), "send", left_ms)
            rest = rest[sent:]

    def try_send(self, data: memoryview) -> int:
        """Send what can be sent without waiting."""
        try:
            with self._guard.use():
                return self._attempt(partial(self._socket.send, data), "send", _within(0))
        except _TimeIsOverError:
            return 0

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        """Wait for bytes; 0 means that the peer closed."""
        left_ms = _idle_ms if timeout_ms is None else _within(timeout_ms)
        try:
            with self._guard.use():
                count = self._attempt(partial(self._socket.recv_into, buffer), "receive", left_ms)
        except _TimeIsOverError:
            return NOTHING_YET
        if count == 0 and not self._has_received:
            raise self._lost("closed by the peer before it said anything")
        self._has_received = True
        return count

    def close(self) -> None:
        """Wake whoever waits for the network, then close."""
        self._guard.close()

    def _attempt(self, call: Callable[[], int], what: str, left_ms: Callable[[], int]) -> int:
        """Call until the socket is ready for it; ``left_ms`` raises when that took too long."""
        while True:
            try:
                with self._lock:
                    self._guard.ensure_open()
                    return call()
            except ssl.SSLWantReadError:
                event = select.POLLIN
            except ssl.SSLWantWriteError:
                event = select.POLLOUT
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return self._ended(what)
            except OSError as error:
                raise self._lost(f"{what} failed: {words(error)}") from error
            wait_for(self._socket, event, left_ms())

    def _ended(self, what: str) -> int:
        if what == "receive":
            return 0
        raise self._lost(f"{what} failed: closed by the peer")

    def _lost(self, reason: str) -> ConnectionLost:
        # With TLS 1.3 a server looks at our certificate when for us everything is settled.
        hint = "" if self._has_received else "; does the server want a client certificate of ours?"
        return ConnectionLost(self._address, reason + hint)


def _idle_ms() -> int:
    """An idle connection is no error."""
    return STALL_TIMEOUT_MS


class _TimeIsOverError(Exception):
    """Nothing could be sent or received in time."""


def _within(timeout_ms: int) -> Callable[[], int]:
    """How long to wait; raises _TimeIsOverError after that time."""
    left = TimeLeft(timeout_ms)

    def left_ms() -> int:
        if (now_left_ms := left.ms()) <= 0:
            raise _TimeIsOverError
        return now_left_ms

    return left_ms
