"""One connection with its reader thread: requests in, futures out.

All protocol state lives in ``RemotingConnection`` under one lock; this class only moves bytes and
wakes waiters. A channel that failed stays failed: whoever wants to go on opens a new one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from rmq_ordered.clock import Clock
from rmq_ordered.errors import (
    ConnectionLost,
    ProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
    RmqOrderedError,
    TransportError,
)
from rmq_ordered.net.transport import STALL_TIMEOUT_MS, Transport
from rmq_ordered.protocol.answers import not_rocketmq
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import FLAG_RESPONSE, RemotingCommand, encode_command
from rmq_ordered.protocol.connection import (
    SERVER_STOPS,
    RemotingConnection,
    RequestReceived,
)

_LOG: Final = logging.getLogger("rmq_ordered.net")
# Large enough that a full pull answer needs few system calls, small enough to have one per
# connection.
_RECEIVE_BYTES: Final = 512 * 1024

# Called on the reader thread, so it must not wait; what it returns is the answer, if one is wanted.
OnRequest = Callable[[str, RemotingCommand], RemotingCommand | None]
# How to send a request again on another connection, given the milliseconds that are left.
Repeat = Callable[[int], "PendingAnswer"]


def ignore_request(address: str, request: RemotingCommand) -> RemotingCommand | None:
    """For clients to whom the broker has nothing to say."""
    _LOG.debug("< request code=%s from=%s ignored", request.code, address)
    return None


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """A request that is on its way."""

    channel: Channel
    opaque: int
    what: str
    timeout_ms: int
    deadline_ms: int
    future: Future[RemotingCommand]
    repeat: Repeat | None = None

    def result(self) -> RemotingCommand:
        """Wait for the answer until the deadline.

        A server that is about to stop answers GO_AWAY and has not looked at the request: it is sent
        once more, on a new connection, whatever it asks for (RocketMQ's NettyRemotingClient).

        Raises:
            TransportError: the network failed, or nothing came in time.
            RemoteProtocolError: what came is not RocketMQ's protocol.
        """
        response = self._own_result()
        if response.code != ResponseCode.GO_AWAY:
            return response
        if self.repeat is None:
            raise ConnectionLost(
                self.channel.address,
                f"asked to go away instead of answering {self.what}: {SERVER_STOPS}",
            )
        return self.repeat(self._remaining_ms()).result()

    def _own_result(self) -> RemotingCommand:
        try:
            return self.future.result(self._remaining_ms() / 1000)
        except FutureTimeout:
            self.channel.retire()
            self.abandon()
            raise RequestTimedOut(self.channel.address, self.what, self.timeout_ms) from None
        except ConnectionLost as error:
            # One error ends everybody's wait; each waiter says what it waited for.
            reason = f"{error.reason}; it had not answered {self.what}"
            raise ConnectionLost(error.address, reason) from error
        except RemoteProtocolError as error:
            raise not_rocketmq(self.channel.address, self.what, error) from error

    def _remaining_ms(self) -> int:
        return max(0, self.deadline_ms - self.channel.clock.monotonic_ms())

    def abandon(self) -> None:
        """Nobody waits for this answer any more."""
        self.channel.forget(self.opaque)


class Channel:
    """Thread-safe. The reader thread is a daemon and ends with the connection."""

    def __init__(
        self,
        address: str,
        transport: Transport,
        clock: Clock,
        on_request: OnRequest = ignore_request,
    ) -> None:
        self.address = address
        self.clock = clock
        self._transport = transport
        self._on_request = on_request
        self._connection = RemotingConnection()
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._waiting: dict[int, Future[RemotingCommand]] = {}
        self._failure: RmqOrderedError | None = None
        self._is_retired = False
        self._reader = threading.Thread(
            target=self._read, name=f"rmq-ordered {address}", daemon=True
        )
        self._reader.start()

    @property
    def is_open(self) -> bool:
        """Whether new requests should be sent here."""
        return self._failure is None and not self._is_retired

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody still waits for an answer on this channel."""
        with self._lock:
            return bool(self._waiting)

    def retire(self) -> None:
        """Send nothing new here (somebody waited in vain); the others may go on waiting."""
        self._is_retired = True
        self._close_if_unused()

    def start(
        self, command: RemotingCommand, what: str, timeout_ms: int, repeat: Repeat | None = None
    ) -> PendingAnswer:
        """Send a request and return at once; `repeat` sends it again, should it be told to."""
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        with self._turn(what, timeout_ms):
            with self._lock:
                self._ensure_open(what)
                opaque, data = self._connection.send_request(command)
                future = self._waiting[opaque] = Future()
                _LOG.debug("> %s opaque=%s to=%s", what, opaque, self.address)
            left_ms = max(1, deadline_ms - self.clock.monotonic_ms())
            self._send(data, what, left_ms)
        return PendingAnswer(self, opaque, what, timeout_ms, deadline_ms, future, repeat)

    def call(self, command: RemotingCommand, what: str, timeout_ms: int) -> RemotingCommand:
        """Send a request and wait for its answer."""
        return self.start(command, what, timeout_ms).result()

    def send_one_way(self, command: RemotingCommand) -> None:
        """Send a request that gets no answer."""
        what = "a one-way request"
        with self._turn(what):
            with self._lock:
                self._ensure_open(what)
                data = self._connection.send_one_way(command)
            self._send(data, what)

    def forget(self, opaque: int) -> None:
        """Drop a waiter."""
        with self._lock:
            self._connection.forget(opaque)
            self._waiting.pop(opaque, None)
        self._close_if_unused()

    def close(self) -> None:
        """End the connection; those who still wait get ConnectionLost."""
        self._fail(ConnectionLost(self.address, "closed by this client"))
        if threading.current_thread() is not self._reader:
            self._reader.join()

    @contextmanager
    def _turn(self, what: str, timeout_ms: int = STALL_TIMEOUT_MS) -> Iterator[None]:
        """One sender at a time; who waits for a peer that takes nothing makes the others wait."""
        if not self._send_lock.acquire(timeout=timeout_ms / 1000):
            raise RequestTimedOut(self.address, what, timeout_ms)
        try:
            yield
        finally:
            self._send_lock.release()

    def _send(self, data: bytes, what: str, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        try:
            self._transport.send_all(data, timeout_ms)
        except TransportError as error:
            self._fail(error)
            # The reader may have learnt the reason before, and closed the stream because of it.
            self._ensure_open(what)
        except BaseException:
            # Interrupted in the middle of a frame: what follows would be read as part of it.
            self._fail(ConnectionLost(self.address, "a send was interrupted"))
            raise

    def _read(self) -> None:
        buffer = bytearray(_RECEIVE_BYTES)
        try:
            with memoryview(buffer) as view:
                while (count := self._transport.receive_into(buffer)) > 0:
                    self._deliver(view[:count])
            with self._lock:
                reason = self._connection.receive_eof()
            self._fail(ConnectionLost(self.address, reason))
        except (TransportError, ProtocolError) as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 (a thread ends here, and others wait for it)
            _LOG.exception("the reader of address=%s has failed", self.address)
            reason = f"its answers cannot be read any more, {type(error).__name__}: {error}"
            self._fail(ConnectionLost(self.address, reason))

    def _deliver(self, data: memoryview) -> None:
        with self._lock:
            events = self._connection.receive_data(data)
            waiters = [
                (self._waiting.pop(event.opaque, None), event.response)
                for event in events
                if not isinstance(event, RequestReceived)
            ]
            if any(response.code == ResponseCode.GO_AWAY for _, response in waiters):
                self._is_retired = True
        for future, response in waiters:
            if future is not None:
                future.set_result(response)
        for event in events:
            if isinstance(event, RequestReceived):
                self._serve(event.request)
        self._close_if_unused()

    def _serve(self, request: RemotingCommand) -> None:
        answer = self._on_request(self.address, request)
        if answer is None or request.is_one_way:
            return
        reply = replace(answer, opaque=request.opaque, flag=answer.flag | FLAG_RESPONSE)
        what = "an answer of ours"
        with self._turn(what):
            self._send(encode_command(reply), what)

    def _close_if_unused(self) -> None:
        with self._lock:
            is_unused = self._is_retired and not self._waiting
        if is_unused:
            self._fail(ConnectionLost(self.address, "given up by this client"))

    def _fail(self, error: RmqOrderedError) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = error
            waiting, self._waiting = self._waiting, {}
        self._transport.close()
        for future in waiting.values():
            future.set_exception(error)

    def _ensure_open(self, what: str) -> None:
        """Raise the first failure, if there was one, to somebody who wants to send."""
        failure = self._failure
        if isinstance(failure, RemoteProtocolError):
            raise not_rocketmq(self.address, what, failure) from failure
        if failure is not None:
            reason = failure.reason if isinstance(failure, TransportError) else str(failure)
            raise ConnectionLost(self.address, f"{reason}, for {what}") from failure
