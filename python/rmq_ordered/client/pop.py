"""Popping: the broker chooses the queue, and hides what it gave until it is acknowledged.

No group membership, no locks: many consumers may share all queues. An orderly consumer gets each
queue in order, one pop at a time; who needs to own queues uses OrderedConsumer.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OptionError, RmqOrderedError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.answers import ensure_success
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.pops import (
    ANY_QUEUE,
    EMPTY_POP_CODES,
    MAX_POP_MESSAGES,
    InitMode,
    PoppedMessage,
    ack_request,
    batch_ack_request,
    change_invisible_request,
    parse_changed,
    parse_pop,
    pop_request,
)

# Java's push consumer hides what it popped for a minute.
_INVISIBLE_MS: Final = 60_000
# Held messages are hidden anew so often within their time.
_RENEWALS: Final = 3

_LOG = logging.getLogger(__name__)


class PopConsumer:
    """At least once: what is not acknowledged while it is hidden comes again. Thread-safe.

    Args:
        client: the cluster.
        group: for whom; the broker creates it when it may.
        topic: what.
        invisible_ms: how long a popped message is hidden from others.
        init_mode: where the group begins that never popped here.
        is_orderly: each queue in order: nothing more of it comes before everything popped from it
            was acknowledged or its time is over. The whole group must pop alike.

    Raises:
        OptionError: a setting cannot be used.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        topic: str,
        *,
        invisible_ms: int = _INVISIBLE_MS,
        init_mode: InitMode = InitMode.FIRST,
        is_orderly: bool = False,
    ) -> None:
        if invisible_ms < 1:
            raise OptionError("invisible_ms", invisible_ms, "at least 1")
        self.group = group
        self.topic = topic
        self._client = client
        self._invisible_ms = invisible_ms
        self._init_mode = init_mode
        self._is_orderly = is_orderly
        self._turn = itertools.count()

    def pop(
        self,
        max_messages: int = MAX_POP_MESSAGES,
        *,
        wait_ms: int = 0,
        attempt_id: str | None = None,
    ) -> tuple[PoppedMessage, ...]:
        """Take messages from one broker, each call from the next one in turn.

        Args:
            max_messages: 1 to 32.
            wait_ms: how long the broker may wait for the first one.
            attempt_id: a name for this orderly pop; asked for again under the same name, the
                broker gives the same messages at once instead of letting them time out first.

        Raises:
            OptionError: too many were asked for.
            BrokerError: the broker refused.
            TransportError: no answer came; what it held comes again when its time is over.
        """
        if not 1 <= max_messages <= MAX_POP_MESSAGES:
            raise OptionError("max_messages", max_messages, f"1 to {MAX_POP_MESSAGES}")
        names = sorted({queue.broker_name for queue in self._client.routes.readable(self.topic)})
        if not names:
            return ()
        queue = MessageQueue(self.topic, names[next(self._turn) % len(names)], ANY_QUEUE)
        request = pop_request(
            queue,
            group=self.group,
            max_messages=max_messages,
            invisible_ms=self._invisible_ms,
            wait_ms=wait_ms,
            init_mode=self._init_mode,
            is_orderly=self._is_orderly,
            attempt_id=attempt_id,
        )
        what = f"a pop of topic {self.topic}"
        timeout_ms = wait_ms + self._client.request_timeout_ms
        answer = self._client.broker.start(queue, request, what, timeout_ms)
        response = answer.result()
        if response.code in EMPTY_POP_CODES:
            return ()
        return parse_pop(ensure_success(response, answer.channel.address, what), queue)

    def ack(self, popped: PoppedMessage) -> None:
        """The message is done with; after its time was over this may come too late."""
        request = ack_request(self.group, self.topic, popped.handle)
        self._ask(popped, request, f"the acknowledgement of {popped.handle}")

    def ack_all(self, popped: Iterable[PoppedMessage]) -> None:
        """All these messages are done with: one request per broker."""
        by_broker: dict[str, list[PoppedMessage]] = {}
        for each in popped:
            by_broker.setdefault(each.handle.broker_name, []).append(each)
        for name, some in by_broker.items():
            handles = [each.handle for each in some]
            request = batch_ack_request(self.group, self.topic, name, handles)
            what = f"the acknowledgement of {len(some)} messages of topic {self.topic}"
            self._ask(some[0], request, what)

    def hold(self, popped: Iterable[PoppedMessage]) -> PopHold:
        """Keep messages hidden for as long as the ``with`` block takes."""
        return PopHold(self, popped, self._invisible_ms)

    def change_invisible_time(self, popped: PoppedMessage, invisible_ms: int) -> PoppedMessage:
        """Hide the message that long from now on; returns it with the handle that counts then."""
        request = change_invisible_request(self.group, self.topic, popped.handle, invisible_ms)
        response = self._ask(popped, request, f"another invisible time of {popped.handle}")
        return replace(popped, handle=parse_changed(response, popped.handle))

    def _ask(self, popped: PoppedMessage, request: RemotingCommand, what: str) -> RemotingCommand:
        queue = MessageQueue(self.topic, popped.handle.broker_name, popped.handle.queue_id)
        timeout_ms = self._client.request_timeout_ms
        answer = self._client.broker.start(queue, request, what, timeout_ms)
        return ensure_success(answer.result(), answer.channel.address, what)


class PopHold:
    """Popped messages that a thread keeps hidden until the block ends. Made by `PopConsumer.hold`.

    What is not acknowledged by then comes again when its time is over.
    """

    def __init__(
        self, consumer: PopConsumer, popped: Iterable[PoppedMessage], invisible_ms: int
    ) -> None:
        self._consumer = consumer
        self._held = list(popped)
        self._invisible_ms = invisible_ms
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._renew_for_ever, name="rmq-ordered pop hold", daemon=True
        )

    @property
    def messages(self) -> tuple[PoppedMessage, ...]:
        """What is held, each with the handle that counts now."""
        with self._lock:
            return tuple(self._held)

    def ack(self) -> None:
        """Everything held is done with."""
        with self._lock:
            held, self._held = self._held, []
            self._consumer.ack_all(held)

    def renew(self) -> None:
        """Hide everything held anew; the thread calls this in time."""
        with self._lock:
            for index, popped in enumerate(self._held):
                self._held[index] = self._consumer.change_invisible_time(popped, self._invisible_ms)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _renew_for_ever(self) -> None:
        while not self._stopping.wait(self._invisible_ms / _RENEWALS / 1000):
            try:
                self.renew()
            except RmqOrderedError as error:
                # Their time runs out by itself: they come again, to us or to others.
                _LOG.warning("popped messages could not be hidden anew: %s", error)
