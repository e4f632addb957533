"""A byte stream whose other end is a test: no socket, no port, no waiting for a network."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rmq_ordered.errors import ConnectionLost
from rmq_ordered.net.transport import NOTHING_YET, STALL_TIMEOUT_MS
from rmq_ordered.protocol.command import RemotingCommand, decode_command, encode_command
from rmq_ordered.protocol.frame import FrameDecoder

OnCommand = Callable[["ScriptedTransport", RemotingCommand], None]


def stay_silent(transport: ScriptedTransport, command: RemotingCommand) -> None:
    """A peer that reads everything and never answers."""


class ScriptedTransport:
    """The client's end of a stream; the test or a double plays the peer. Thread-safe.

    What the client sends is cut into commands, kept in ``sent`` and handed to ``on_command`` in the
    sending thread, before ``send_all`` returns: what the peer does about a request is done when the
    request is sent. ``send_count`` tells in how many sends it came.
    """

    def __init__(self, address: str, on_command: OnCommand = stay_silent) -> None:
        self.address = address
        self.sent: list[RemotingCommand] = []
        self.send_count = 0
        self._on_command = on_command
        self._decoder = FrameDecoder()
        self._changed = threading.Condition()
        self._incoming = bytearray()
        self._has_ended = False
        self._is_closed = False
        self._failure: str | None = None

    # The client's end

    def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        """Deliver every byte to the peer, or raise ConnectionLost; takes no time.

        As on a socket, a peer that has hung up is noticed only by receiving.
        """
        with self._changed:
            self._ensure_usable("send")
            if self._has_ended:
                return
            commands = [decode_command(frame) for frame in self._decoder.receive_data(data)]
            self.sent += commands
            self.send_count += 1
        for command in commands:
            self._on_command(self, command)

    def try_send(self, data: memoryview) -> int:
        """The same: this peer takes everything."""
        self.send_all(bytes(data))
        return len(data)

    def receive_into(self, buffer: bytearray | memoryview, timeout_ms: int | None = None) -> int:
        """Wait for bytes from the peer; 0 once it has hung up."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        with self._changed:
            if not self._changed.wait_for(self._has_news, timeout_s):
                return NOTHING_YET
            if not self._incoming:
                self._ensure_usable("receive")
            count = min(len(buffer), len(self._incoming))
            buffer[:count] = self._incoming[:count]
            del self._incoming[:count]
            return count

    def close(self) -> None:
        """End the stream from the client's side."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        """Whether the client closed its end."""
        return self._is_closed

    # The peer's end

    def deliver(self, data: bytes) -> None:
        """Send bytes to the client, whatever they are; nothing more after ``hang_up``."""
        with self._changed:
            if not self._has_ended:
                self._incoming += data
            self._changed.notify_all()

    def answer(self, command: RemotingCommand) -> None:
        """Send a whole command to the client."""
        self.deliver(encode_command(command))

    def hang_up(self) -> None:
        """Close in good order: what was delivered before can still be received."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def fail(self, reason: str) -> None:
        """Break the connection, as a reset or a lost route does."""
        with self._changed:
            self._failure = reason
            self._changed.notify_all()

    def _has_news(self) -> bool:
        ended = self._has_ended or self._is_closed or self._failure is not None
        return bool(self._incoming) or ended

    def _ensure_usable(self, what: str) -> None:
        if self._is_closed:
            raise ConnectionLost(self.address, f"{what} on a closed stream")
        if self._failure is not None:
            raise ConnectionLost(self.address, f"{what} failed: {self._failure}")
