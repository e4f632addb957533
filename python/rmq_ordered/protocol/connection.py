"""One remoting connection without the socket: which requests are open, which answers are whose.

Feed it the bytes that came, send the bytes it gives. It never blocks and knows no time: deadlines
are the business of those who wait. Not thread-safe: the owner serialises calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.protocol.command import (
    FLAG_ONE_WAY,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rmq_ordered.protocol.frame import MAX_FRAME_BYTES, FrameDecoder

# Opaque ids are signed 32-bit on the wire; we count upwards and wrap before the sign bit.
_MAX_OPAQUE: Final = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The answer to the request that got ``opaque``."""

    opaque: int
    response: RemotingCommand


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """The peer asks or tells us something (for example NOTIFY_CONSUMER_IDS_CHANGED)."""

    request: RemotingCommand


Event = ResponseReceived | RequestReceived


class RemotingConnection:
    """State of one connection: the in-flight table and the frame decoder.

    Invariants: an opaque is in flight at most once; an answer to an opaque that is not in flight is
    dropped (it came too late), except that an opaque that was never given out is a protocol error.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._decoder = FrameDecoder(max_frame_bytes)
        self._in_flight: set[int] = set()
        self._next_opaque = 1
        self._has_wrapped = False
        self._is_closed = False
        self._has_heard = False

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer."""
        return len(self._in_flight)

    def send_request(self, command: RemotingCommand) -> tuple[int, bytes]:
        """Register a request; returns its opaque id and the bytes to send."""
        (sent,) = self.send_requests([command])
        return sent

    def send_requests(self, commands: Iterable[RemotingCommand]) -> list[tuple[int, bytes]]:
        """The same for some requests: all are registered, or none if one cannot be encoded."""
        self._ensure_open()
        sent: list[tuple[int, bytes]] = []
        for command in commands:
            opaque = self._take_opaque()
            sent.append((opaque, encode_command(command, opaque)))
        self._in_flight.update(opaque for opaque, _ in sent)
        return sent

    def send_one_way(self, command: RemotingCommand) -> bytes:
        """The bytes of a request that gets no answer."""
        self._ensure_open()
        one_way = replace(command, opaque=self._take_opaque(), flag=command.flag | FLAG_ONE_WAY)
        return encode_command(one_way)

    def receive_data(self, data: bytes | memoryview) -> list[Event]:
        """Take bytes from the peer; returns what they mean, in order."""
        self._ensure_open()
        events: list[Event] = []
        for frame in self._decoder.receive_data(data):
            command = decode_command(frame)
            self._has_heard = True
            event = self._answer(command) if command.is_response else RequestReceived(command)
            if event is not None:
                events.append(event)
        return events

    def receive_eof(self) -> str:
        """The peer closed; returns the reason in words, for the errors of those who still wait."""
        self._is_closed = True
        if not self._decoder.is_empty:
            return "closed by the peer in mid-frame"
        if self._has_heard:
            return "closed by the peer"
        # What a server does that wants TLS, or that is no RocketMQ at all.
        return (
            "closed by the peer before it said anything; check that this is the port of a RocketMQ "
            "name server or broker, and whether it wants TLS"
        )

    def forget(self, opaque: int) -> None:
        """The caller no longer waits for this answer; it is dropped if it comes late."""
        self._in_flight.discard(opaque)

    def _answer(self, command: RemotingCommand) -> ResponseReceived | None:
        if command.opaque in self._in_flight:
            self._in_flight.remove(command.opaque)
            return ResponseReceived(command.opaque, command)
        was_given = command.opaque > 0 and (self._has_wrapped or command.opaque < self._next_opaque)
        if not was_given:
            raise RemoteProtocolError(
                f"an answer names request {command.opaque}, which was never sent on this connection"
            )
        return None

    def _take_opaque(self) -> int:
        opaque = self._next_opaque
        while opaque in self._in_flight:
            opaque = self._following(opaque)
        self._next_opaque = self._following(opaque)
        return opaque

    def _following(self, opaque: int) -> int:
        if opaque < _MAX_OPAQUE:
            return opaque + 1
        self._has_wrapped = True
        return 1

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise LocalProtocolError("this connection is closed; open a new one")
