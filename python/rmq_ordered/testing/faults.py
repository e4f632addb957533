"""What can go wrong with one request, one named object each.

A fault is armed in a ``ScriptedNetwork`` and strikes once. ``is_served`` tells whether the request
took effect before the fault: after a timeout the client cannot know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from rmq_ordered.protocol.command import (
    FLAG_RESPONSE,
    RemotingCommand,
    encode_command,
)
from rmq_ordered.testing.clock import ManualClock
from rmq_ordered.testing.transport import ScriptedTransport

Serve = Callable[[RemotingCommand], RemotingCommand]


class Fault(Protocol):
    """One thing that goes wrong with one request."""

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Do it, in place of a normal answer."""


def reply_to(request: RemotingCommand, response: RemotingCommand) -> RemotingCommand:
    """The response with the request's id and the response bit."""
    return replace(response, opaque=request.opaque, flag=response.flag | FLAG_RESPONSE)


@dataclass(frozen=True, slots=True)
class Refuse:
    """The broker answers with this code and does nothing."""

    code: int
    remark: str | None = None
    ext_fields: Mapping[str, str] | None = None

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Answer with the code."""
        response = RemotingCommand(self.code, ext_fields=self.ext_fields, remark=self.remark)
        transport.answer(reply_to(request, response))


@dataclass(frozen=True, slots=True)
class DropReply:
    """The answer is lost, and ``after_ms`` pass: long enough for the caller to give up."""

    clock: ManualClock
    after_ms: int
    is_served: bool = True

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Serve or not, say nothing, let time pass."""
        if self.is_served:
            serve(request)
        self.clock.advance_ms(self.after_ms)


@dataclass(frozen=True, slots=True)
class DelayReply:
    """The request is served at once, but its answer takes ``after_ms`` to come back."""

    clock: ManualClock
    after_ms: int

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Serve, let time pass, answer."""
        response = serve(request)
        self.clock.advance_ms(self.after_ms)
        transport.answer(reply_to(request, response))


@dataclass(frozen=True, slots=True)
class HangUp:
    """The peer closes the connection instead of answering."""

    is_served: bool = False

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Serve or not, close."""
        if self.is_served:
            serve(request)
        transport.hang_up()


@dataclass(frozen=True, slots=True)
class CutMidFrame:
    """The connection ends after ``keep_bytes`` of the answer."""

    keep_bytes: int = 10

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Serve, send the beginning of the answer, close."""
        frame = encode_command(reply_to(request, serve(request)))
        transport.deliver(frame[: self.keep_bytes])
        transport.hang_up()


@dataclass(frozen=True, slots=True)
class AnswerAs:
    """The answer names another request."""

    opaque: int

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Serve, answer under the wrong id."""
        transport.answer(replace(reply_to(request, serve(request)), opaque=self.opaque))


@dataclass(frozen=True, slots=True)
class Garble:
    """The peer answers with bytes that are no frame."""

    data: bytes = b"HTTP/1.1 400 Bad Request\r\n\r\n"

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Send the bytes."""
        transport.deliver(self.data)


@dataclass(frozen=True, slots=True)
class SpoilBody:
    """One byte of the answer's body is another."""

    position: int

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        """Serve, answer with the changed body."""
        answer = serve(request)
        body = bytearray(answer.body)
        body[self.position] ^= 0xFF
        transport.answer(reply_to(request, replace(answer, body=bytes(body))))
