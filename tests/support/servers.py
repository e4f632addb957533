"""Servers that are not what a client hopes for: each accepts TCP connections and misbehaves."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

DEADLINE_S = 20.0

Behave = Callable[[socket.socket], None]


class BadServer:
    """Hands every connection to a function, on a thread each; closes what is left on exit."""

    def __init__(self, behave: Behave) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.accepted = 0

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for sock in (self._listener, *self._open):
            with suppress(OSError):  # closing alone does not wake a thread that is blocked
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                peer.settimeout(DEADLINE_S)
                self.accepted += 1
                self._open.append(peer)
                thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError):
            self._behave(peer)


@contextmanager
def slow_reader(peer: socket.socket) -> Iterator[None]:
    """Takes one byte after the other, so that a sender never stands still for long."""

    def read() -> None:
        with suppress(OSError):
            while peer.recv(1):
                pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield
    with suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)
    thread.join(DEADLINE_S)


def hang_up(peer: socket.socket) -> None:
    """Closes at once."""
    peer.close()


def stay_silent(peer: socket.socket) -> None:
    """Reads for ever and says nothing."""
    while peer.recv(65_536):
        pass


def say(data: bytes, *, first: bool = False, and_close: bool = False) -> Behave:
    """Answers the first bytes (or greets, with ``first``) with these, then falls silent."""

    def behave(peer: socket.socket) -> None:
        if not first:
            peer.recv(65_536)
        peer.sendall(data)
        if and_close:
            peer.close()
        else:
            stay_silent(peer)

    return behave
