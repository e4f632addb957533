"""A network that fails: TCP proxies in front of servers, cut at will and at random.

What a cut has swallowed is gone for ever, as it is when packets are dropped until somebody gives
up; nothing is delivered late.
"""

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536
CONNECT_S = 5.0
JOIN_S = 20.0


class Network:
    """Proxies to servers by their addresses; all share one fate. Thread-safe.

    Args:
        addresses: of the servers.
        seed: of the accidents.
        losses_per_thousand: of the pieces of answers, each with its connection.

    Attributes:
        accepted: connections so far.
        swallowed: pieces that never arrived.
    """

    def __init__(self, addresses: list[str], seed: int, losses_per_thousand: int = 0) -> None:
        self._random = random.Random(seed)
        self._losses = losses_per_thousand
        self._lock = threading.Lock()
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listeners = {address: socket.create_server(("127.0.0.1", 0)) for address in addresses}
        self.accepted = 0
        self.swallowed = 0

    @property
    def detours(self) -> dict[str, str]:
        """Where to connect instead of to the servers."""
        return {
            address: f"127.0.0.1:{listener.getsockname()[1]}"
            for address, listener in self._listeners.items()
        }

    def __enter__(self) -> Self:
        for address, listener in self._listeners.items():
            self._start(self._accept, address, listener)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for listener in self._listeners.values():
            _close(listener)
        self.heal()
        for thread in self._threads:
            thread.join(JOIN_S)

    def cut(self) -> None:
        """From now on every byte is swallowed, and connections are accepted but go nowhere."""
        with self._lock:
            self._is_cut = True

    def heal(self) -> None:
        """What was open during the cut is reset, in mid-frame or not; what comes now arrives."""
        with self._lock:
            self._is_cut = False
            found, self._open = self._open, set()
        for sock in found:
            _close(sock)

    def _accept(self, address: str, listener: socket.socket) -> None:
        host, _, port = address.rpartition(":")
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.accepted += 1
                try:
                    server = socket.create_connection((host, int(port)), CONNECT_S)
                except OSError:
                    _close(client)
                    continue
                server.settimeout(None)
                with self._lock:
                    self._open |= {client, server}
                self._start(self._pump, client, server, False)
                self._start(self._pump, server, client, True)

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                with self._lock:
                    is_cut = self._is_cut
                    is_lost = is_answer and self._random.randrange(1_000) < self._losses
                    self.swallowed += is_cut or is_lost
                if is_cut:
                    continue
                if is_lost:
                    break
                target.sendall(data)
        with self._lock:
            self._open -= {source, target}
        _close(source)
        _close(target)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def _close(sock: socket.socket) -> None:
    with suppress(OSError):  # closing alone does not wake a thread that is blocked
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
