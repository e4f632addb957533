"""All connections of one client: one per address, opened when needed, again after a failure."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from rmq_ordered.clock import Clock
from rmq_ordered.errors import ConnectFailed, ConnectionLost
from rmq_ordered.net.channel import Channel, OnRequest, Outgoing, PendingAnswer, ignore_request
from rmq_ordered.net.transport import Connect, connect_tcp
from rmq_ordered.protocol.command import RemotingCommand

_LOG: Final = logging.getLogger("rmq_ordered.net")
_CLOSED: Final = "this client is closed"

Prepare = Callable[[RemotingCommand], RemotingCommand]


def unchanged(command: RemotingCommand) -> RemotingCommand:
    """For clients without credentials."""
    return command


class Remoting:
    """Thread-safe. Holds sockets and threads, so it never crosses a process boundary."""

    def __init__(
        self,
        clock: Clock,
        connect: Connect = connect_tcp,
        on_request: OnRequest = ignore_request,
        prepare: Prepare = unchanged,
    ) -> None:
        self._clock = clock
        self._connect = connect
        self._prepare = prepare
        self._on_request = on_request
        self._lock = threading.Lock()
        self._connecting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._channels: dict[str, Channel] = {}
        self._retired: list[Channel] = []
        self._is_closed = False

    def start(
        self, address: str, command: RemotingCommand, what: str, timeout_ms: int
    ) -> PendingAnswer:
        """Send a request and return at once."""
        (pending,) = self.start_many(address, [(command, what)], timeout_ms)
        return pending

    def start_many(
        self, address: str, requests: Sequence[tuple[RemotingCommand, str]], timeout_ms: int
    ) -> list[PendingAnswer]:
        """Send some requests, each with its name in errors, in one go; returns at once."""
        outgoing = [self._outgoing(address, command, what) for command, what in requests]
        return self._channel(address, outgoing[0].what).start_many(outgoing, timeout_ms)

    def call(
        self, address: str, command: RemotingCommand, what: str, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and wait for its answer."""
        return self.start(address, command, what, timeout_ms).result()

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self._is_closed = True
            channels = [*self._channels.values(), *self._retired]
            self._channels, self._retired = {}, []
        for channel in channels:
            channel.close()

    def _outgoing(self, address: str, command: RemotingCommand, what: str) -> Outgoing:
        prepared = self._prepare(command)

        def repeat(left_ms: int) -> PendingAnswer:
            _LOG.debug("= told to go away by=%s, sending %s again", address, what)
            return self._channel(address, what).start(prepared, what, left_ms)

        return Outgoing(prepared, what, repeat)

    def _channel(self, address: str, what: str) -> Channel:
        """The open channel to an address; a lock per address makes only one, and others go on."""
        with self._lock:
            connecting = self._connecting[address]
        with connecting:
            known = self._known(address)
            if known is not None:
                return known
            try:
                transport = self._connect(address)
            except ConnectFailed as error:
                raise ConnectFailed(address, f"{error.reason}, for {what}") from error
            return self._admit(Channel(address, transport, self._clock, self._on_request))

    def _known(self, address: str) -> Channel | None:
        with self._lock:
            self._ensure_open(address)
            channel = self._channels.get(address)
            if channel is None or channel.is_open:
                return channel
            del self._channels[address]
            self._retired = [old for old in (*self._retired, channel) if old.is_waited_for]
            return None

    def _admit(self, channel: Channel) -> Channel:
        with self._lock:
            if not self._is_closed:
                self._channels[channel.address] = channel
                _LOG.debug("= connected to=%s", channel.address)
                return channel
        channel.close()
        raise ConnectionLost(channel.address, _CLOSED)

    def _ensure_open(self, address: str) -> None:
        if self._is_closed:
            raise ConnectionLost(address, _CLOSED)
