"""Addresses without sockets: servers a client can reach, and what goes wrong on the way."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial

from rmq_ordered.errors import ConnectFailed
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing.faults import Fault, Serve, reply_to
from rmq_ordered.testing.transport import ScriptedTransport


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it arrived somewhere."""

    address: str
    command: RemotingCommand


@dataclass(frozen=True, slots=True)
class _Armed:
    """What happens to one request: a fault, or None to let it pass."""

    code: int | None
    fault: Fault | None


class ScriptedNetwork:
    """Give ``network.connect`` to a client in place of ``connect_tcp``. Thread-safe.

    Requests are served one at a time. An armed fault strikes the next request of its code.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._servers: dict[str, Serve] = {}
        self._down: set[str] = set()
        self._frozen: set[str] = set()
        self._faults: list[_Armed] = []
        self.seen: list[SeenRequest] = []
        self.transports: list[ScriptedTransport] = []

    def listen(self, address: str, serve: Serve) -> None:
        """Let a server answer at an address."""
        self._servers[address] = serve

    def connect(self, address: str, /) -> ScriptedTransport:
        """Open a stream to a server, or raise ConnectFailed."""
        with self._lock:
            if address not in self._servers or address in self._down:
                raise ConnectFailed(address, "nobody listens there")
            transport = ScriptedTransport(address, partial(self._arrive, address))
            self.transports.append(transport)
            return transport

    def arm(self, fault: Fault, code: int | None = None, *, times: int = 1, after: int = 0) -> None:
        """Let a fault strike the next request (of this code).

        Args:
            fault: what goes wrong.
            code: which requests it strikes; any if not given.
            times: how many in a row.
            after: how many pass unharmed first.
        """
        with self._lock:
            self._faults += [_Armed(code, None)] * after + [_Armed(code, fault)] * times

    def disarm(self) -> None:
        """Take back every fault that has not struck."""
        with self._lock:
            self._faults.clear()

    def refuse(self, address: str) -> None:
        """Refuse new connections to an address; the open ones go on."""
        with self._lock:
            self._down.add(address)

    def take_down(self, address: str) -> None:
        """Refuse new connections to an address and break the open ones."""
        self.refuse(address)
        with self._lock:
            open_streams = [stream for stream in self.transports if stream.address == address]
        for stream in open_streams:
            stream.fail("the server is down")

    def bring_up(self, address: str) -> None:
        """Accept connections again."""
        with self._lock:
            self._down.discard(address)

    def freeze(self, address: str) -> None:
        """Take requests at an address and never answer them, as a stopped process would."""
        with self._lock:
            self._frozen.add(address)

    def requests(self, code: int) -> list[RemotingCommand]:
        """Every request of a code that arrived so far, in order."""
        with self._lock:
            return [seen.command for seen in self.seen if seen.command.code == code]

    def _arrive(self, address: str, transport: ScriptedTransport, request: RemotingCommand) -> None:
        with self._lock:
            self.seen.append(SeenRequest(address, request))
            if address in self._frozen:
                return
            fault = self._take_fault(request.code)
            serve = self._servers[address]
            if fault is not None:
                fault.strike(transport, request, serve)
                return
            response = serve(request)
            if not request.is_one_way:
                transport.answer(reply_to(request, response))

    def _take_fault(self, code: int) -> Fault | None:
        for index, armed in enumerate(self._faults):
            if armed.code is None or armed.code == code:
                del self._faults[index]
                return armed.fault
        return None
