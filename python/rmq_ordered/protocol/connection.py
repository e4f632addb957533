"""One remoting connection without the socket: which requests are open, which answers are whose.

Feed it the bytes that came, send the bytes it gives. It never blocks and knows no time: deadlines
are the business of those who wait. Not thread-safe: the owner serialises calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.protocol.command import (
    FLAG_ONE_WAY,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rmq_ordered.protocol.frame import MAX_FRAME_BYTES, FrameDecoder
from rmq_ordered.protocol.inflight import InFlight

# What GO_AWAY means, and what to do about it, in words for errors.
SERVER_STOPS: Final = (
    "the server is stopping; try again when it runs, or at the address that its name server gives "
    "then"
)


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
    """State of one connection: the in-flight table and the frame decoder."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._decoder = FrameDecoder(max_frame_bytes)
        self._in_flight = InFlight()
        self._is_closed = False
        self._has_heard = False

    @property
    def in_flight(self) -> int:
        """How many requests wait for an answer."""
        return len(self._in_flight)

    def send_request(self, command: RemotingCommand) -> tuple[int, bytes]:
        """Register a request; returns its opaque id and the bytes to send."""
        self._ensure_open()
        opaque = self._in_flight.take()
        data = encode_command(command, opaque)
        self._in_flight.add(opaque)
        return opaque, data

    def send_one_way(self, command: RemotingCommand) -> bytes:
        """The bytes of a request that gets no answer."""
        self._ensure_open()
        one_way = replace(command, opaque=self._in_flight.take(), flag=command.flag | FLAG_ONE_WAY)
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
        return why_closed(is_mid_frame=not self._decoder.is_empty, has_heard=self._has_heard)

    def forget(self, opaque: int) -> None:
        """The caller no longer waits for this answer; it is dropped if it comes late."""
        self._in_flight.forget(opaque)

    def _answer(self, command: RemotingCommand) -> ResponseReceived | None:
        if self._in_flight.settle(command.opaque):
            return ResponseReceived(command.opaque, command)
        return None

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise LocalProtocolError("this connection is closed; open a new one")


def why_closed(*, is_mid_frame: bool, has_heard: bool) -> str:
    """What it means that a peer closed the stream, in words for errors."""
    if is_mid_frame:
        return "closed by the peer in mid-frame"
    if has_heard:
        return "closed by the peer"
    # What a server does that wants TLS, or that is no RocketMQ at all.
    return (
        "closed by the peer before it said anything; check that this is the port of a RocketMQ "
        "name server or broker, and whether it wants TLS"
    )
