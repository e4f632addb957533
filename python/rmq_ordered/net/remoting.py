"""All connections of one client: one per address, opened when needed, again after a failure."""

from __future__ import annotations

import logging
import threading
from typing import Final

from rmq_ordered.clock import Clock
from rmq_ordered.errors import ConnectionLost
from rmq_ordered.net.channel import Channel, OnRequest, PendingAnswer, ignore_request
from rmq_ordered.net.transport import Connect, connect_tcp
from rmq_ordered.protocol.command import RemotingCommand

_LOG: Final = logging.getLogger("rmq_ordered.net")


class Remoting:
    """Thread-safe. Holds sockets and threads, so it never crosses a process boundary."""

    def __init__(
        self,
        clock: Clock,
        connect: Connect = connect_tcp,
        on_request: OnRequest = ignore_request,
    ) -> None:
        self._clock = clock
        self._connect = connect
        self._on_request = on_request
        self._lock = threading.Lock()
        self._channels: dict[str, Channel] = {}
        self._is_closed = False

    def start(
        self, address: str, command: RemotingCommand, what: str, timeout_ms: int
    ) -> PendingAnswer:
        """Send a request and return at once."""
        return self._channel(address).start(command, what, timeout_ms)

    def call(
        self, address: str, command: RemotingCommand, what: str, timeout_ms: int
    ) -> RemotingCommand:
        """Send a request and wait for its answer."""
        return self._channel(address).call(command, what, timeout_ms)

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self._is_closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def _channel(self, address: str) -> Channel:
        """The open channel to an address; connecting under the lock makes only one."""
        with self._lock:
            if self._is_closed:
                raise ConnectionLost(address, "this client is closed")
            channel = self._channels.get(address)
            if channel is None or not channel.is_open:
                transport = self._connect(address)
                channel = Channel(address, transport, self._clock, self._on_request)
                self._channels[address] = channel
                _LOG.debug("= connected to=%s", address)
            return channel
