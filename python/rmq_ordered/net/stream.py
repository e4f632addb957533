"""A connection for one thread that asks much and takes the answers as they lie in memory.

Beside a ``Channel`` it has no reader thread, no lock and no future for each answer: whoever waits
receives, and bodies are views of the blocks that the socket filled. For pulls of few messages that
is most of what a read costs. A stream that failed stays closed: whoever wants to go on opens
another one.

Nobody listens while the caller does something else, so that time is not held against the peer:
deadlines are in the stream's own time, which stands still meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from rmq_ordered.clock import Clock
from rmq_ordered.errors import ConnectionLost, RemoteProtocolError, RequestTimedOut, TransportError
from rmq_ordered.net.transport import NOTHING_YET, Transport
from rmq_ordered.protocol.blocks import FrameBlocks
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import Header, decode_header
from rmq_ordered.protocol.connection import SERVER_STOPS, why_closed
from rmq_ordered.protocol.inflight import InFlight

# How long a peer that takes nothing is listened to before it is offered the rest again.
_LISTEN_MS: Final = 20
# How often more is received after the deadline while there is more. What is here may come in many
# receives, with TLS of 16 KiB each: 64 MiB of them. A peer that never stops sending is given up.
_LATE_RECEIVES: Final = 4_096


class Answer(NamedTuple):
    """What came for a request."""

    header: Header
    body: bytes | memoryview


def _uninitialised(size: int) -> memoryview:
    """A block whose bytes nobody sets to 0 before the socket writes them."""
    return np.empty(size, np.uint8).data


class AnswerStream:
    """Not thread-safe, but ``close`` may come from anywhere."""

    def __init__(self, address: str, transport: Transport, clock: Clock) -> None:
        self.address = address
        self._transport = transport
        self._clock = clock
        self._blocks = FrameBlocks(_uninitialised)
        self._in_flight = InFlight()
        self._arrived: dict[int, Answer] = {}
        self._has_heard = False
        self._is_closed = False
        self._unattended_ms = 0
        self._left_at_ms = clock.monotonic_ms()

    def begin(self, count: int) -> list[int]:
        """The ids of so many requests that are about to be sent."""
        opaques = [self._in_flight.take() for _ in range(count)]
        for opaque in opaques:
            self._in_flight.add(opaque)
        return opaques

    def send(self, data: bytes, what: str, timeout_ms: int) -> int:
        """Send requests; returns until when they should be answered.

        A peer whose answers nobody takes may stop reading: while it takes nothing, its answers are
        received.

        Raises:
            TransportError: the network failed, or the peer took nothing in time.
            RemoteProtocolError: what came is not RocketMQ's protocol.
        """
        deadline_ms = self._return() + timeout_ms
        rest = memoryview(data)
        is_sent = False
        try:
            while rest := rest[self._transport.try_send(rest) :]:
                if self._now_ms() >= deadline_ms:
                    break
                self._receive(_LISTEN_MS)
            is_sent = not rest
        finally:
            if not is_sent:  # in the middle of a frame, perhaps: nothing may follow
                self.close()
        if not is_sent:
            raise RequestTimedOut(self.address, what, timeout_ms)
        self._leave()
        return deadline_ms

    def answer(self, opaque: int, deadline_ms: int) -> Answer | None:
        """The answer to a request; nothing if it does not come by the time that ``send`` told.

        Raises:
            ConnectionLost: the network failed, or the server is about to stop and says so.
            RemoteProtocolError: what came is not RocketMQ's protocol.
        """
        found = self._arrived.pop(opaque, None)
        if found is None:
            found = self._wait_for(opaque, deadline_ms)
        if found is None:
            self.close()
            return None
        if found.header.code == ResponseCode.GO_AWAY:
            self.close()
            raise ConnectionLost(self.address, f"asked to go away: {SERVER_STOPS}")
        return found

    def forget(self, opaque: int) -> None:
        """Nobody wants this answer any more."""
        self._in_flight.forget(opaque)
        self._arrived.pop(opaque, None)

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._is_closed = True
        self._transport.close()

    def _wait_for(self, opaque: int, deadline_ms: int) -> Answer | None:
        left_ms = deadline_ms - self._return()
        late_receives = 0
        try:
            # Also when the time is over: it may be here already.
            while late_receives < _LATE_RECEIVES and self._receive(max(0, left_ms)):
                found = self._arrived.pop(opaque, None)
                if found is not None:
                    self._leave()
                    return found
                left_ms = deadline_ms - self._now_ms()
                if left_ms <= 0:
                    late_receives += 1
        except (TransportError, RemoteProtocolError):
            self.close()
            raise
        return None

    def _now_ms(self) -> int:
        """The stream's own time."""
        return self._clock.monotonic_ms() - self._unattended_ms

    def _leave(self) -> None:
        """Nobody listens from now on: the stream's time stands still."""
        self._left_at_ms = self._now_ms()

    def _return(self) -> int:
        """Somebody listens again; returns the stream's own time."""
        self._unattended_ms += self._now_ms() - self._left_at_ms
        return self._left_at_ms

    def _receive(self, timeout_ms: int) -> bool:
        """Take what comes; whether anything came in time."""
        count = self._transport.receive_into(self._blocks.space(), timeout_ms)
        if count == NOTHING_YET:
            return False
        if count == 0:
            reason = why_closed(is_mid_frame=not self._blocks.is_empty, has_heard=self._has_heard)
            raise ConnectionLost(self.address, reason)
        for codec, data, body in self._blocks.received(count):
            header = decode_header(codec, data)
            self._has_heard = True
            # Requests of a server are for members of groups, and they have channels.
            if header.is_response and self._in_flight.settle(header.opaque):
                self._arrived[header.opaque] = Answer(header, body)
        return True
