"""All connections of one client: one per address, opened when needed, again after a failure.

And streams, each for one caller alone.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from rmq_ordered.clock import Clock
from rmq_ordered.errors import ClientClosed, ConnectFailed
from rmq_ordered.net.channel import Channel, OnRequest, PendingAnswer, ignore_request
from rmq_ordered.net.stream import AnswerStream
from rmq_ordered.net.transport import Connect, Transport, connect_tcp
from rmq_ordered.protocol.command import RemotingCommand

_LOG: Final = logging.getLogger("rmq_ordered.net")

# The command as it is sent to an address.
Prepare = Callable[[RemotingCommand, str], RemotingCommand]


def unchanged(command: RemotingCommand, address: str) -> RemotingCommand:
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
        self.prepare = prepare
        self._on_request = on_request
        self._lock = threading.Lock()
        self._connecting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._channels: dict[str, Channel] = {}
        self._retired: list[Channel] = []
        # Those that somebody still has: closing one, which may happen while garbage is collected,
        # must not need a lock.
        self._streams: WeakSet[AnswerStream] = WeakSet()
        self._is_closed = False

    def start(
        self, address: str, command: RemotingCommand, what: str, timeout_ms: int
    ) -> PendingAnswer:
        """Send a request and return at once."""

        def repeat(left_ms: int) -> PendingAnswer:
            _LOG.debug("= told to go away by=%s, sending %s again", address, what)
            return self._channel(address, what).start(self.prepare(command, address), what, left_ms)

        return self._channel(address, what).start(
            self.prepare(command, address), what, timeout_ms, repeat
        )

    def call(
        self, address: str, command: RemotingCommand, what: str, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and wait for its answer."""
        return self.start(address, command, what, timeout_ms).result()

    def open_stream(self, address: str, what: str) -> AnswerStream:
        """A connection for the caller alone, who closes it; raises TransportError."""
        with self._lock:
            self._ensure_open(address)
        stream = AnswerStream(address, self._open(address, what), self._clock)
        with self._lock:
            if not self._is_closed:
                self._streams.add(stream)
                _LOG.debug("= stream to=%s", address)
                return stream
        stream.close()
        raise ClientClosed(address)

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self._is_closed = True
            channels = [*self._channels.values(), *self._retired]
            self._channels, self._retired = {}, []
            streams = list(self._streams)
        for stream in streams:
            stream.close()
        for channel in channels:
            channel.close()

    def _channel(self, address: str, what: str) -> Channel:
        """The open channel to an address; a lock per address makes only one, and others go on."""
        with self._lock:
            connecting = self._connecting[address]
        with connecting:
            known = self._known(address)
            if known is not None:
                return known
            transport = self._open(address, what)
            return self._admit(Channel(address, transport, self._clock, self._on_request))

    def _open(self, address: str, what: str) -> Transport:
        try:
            return self._connect(address)
        except ConnectFailed as error:
            raise ConnectFailed(address, f"{error.reason}, for {what}") from error

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
        raise ClientClosed(channel.address)

    def _ensure_open(self, address: str) -> None:
        if self._is_closed:
            raise ClientClosed(address)
