"""Popping: the broker chooses the queue, and hides what it gave until it is acknowledged.

No group membership, no locks: many consumers may share all queues. An orderly consumer gets each
queue in order, one pop at a time; who needs to own queues uses OrderedConsumer.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OptionError, RmqOrderedError, TransportError
from rmq_ordered.model import MessageQueue
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.protocol.answers import ensure_success
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import ALL_TAGS, FilterKind, Subscription
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
from rmq_ordered.protocol.properties import PROPERTY_TAGS

# Java's push consumer hides what it popped for a minute.
_INVISIBLE_MS: Final = 60_000
# Held messages are hidden anew so often within their time.
_RENEWALS: Final = 3
# What one request acknowledges, and how many messages are hidden anew at the same time.
_MOST_ACKS: Final = 1_000
_IN_FLIGHT: Final = 256

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
        expression: which messages the broker should give; the whole group must ask alike.
        expression_type: ``TAG`` or ``SQL92``. The broker compares hashes of tags: what has another
            tag after all is acknowledged and left out, as Java's clients do.

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
        expression: str = ALL_TAGS,
        expression_type: str = FilterKind.TAG.value,
    ) -> None:
        if invisible_ms < 1:
            raise OptionError("invisible_ms", invisible_ms, "at least 1")
        self.group = group
        self.topic = topic
        self._client = client
        self._invisible_ms = invisible_ms
        self._init_mode = init_mode
        self._is_orderly = is_orderly
        self._wanted = Subscription(topic, expression, FilterKind(expression_type))
        self._turn = itertools.count()

    def brokers(self) -> tuple[str, ...]:
        """The brokers that have readable queues of the topic, by name."""
        readable = self._client.routes.readable(self.topic)
        return tuple(sorted({queue.broker_name for queue in readable}))

    def pop(
        self,
        max_messages: int = MAX_POP_MESSAGES,
        *,
        wait_ms: int = 0,
        attempt_id: str | None = None,
        broker_name: str | None = None,
    ) -> tuple[PoppedMessage, ...]:
        """Take messages from one broker, each call from the next one in turn.

        Args:
            max_messages: 1 to 32.
            wait_ms: how long the broker may wait for the first one.
            attempt_id: a name for this orderly pop; asked for again under the same name, the
                broker gives the same messages at once instead of letting them time out first.
            broker_name: from this broker, instead of the next one in turn.

        Raises:
            OptionError: too many were asked for.
            BrokerError: the broker refused.
            TransportError: no answer came; what it held comes again when its time is over.
        """
        if not 1 <= max_messages <= MAX_POP_MESSAGES:
            raise OptionError("max_messages", max_messages, f"1 to {MAX_POP_MESSAGES}")
        names = self.brokers() if broker_name is None else (broker_name,)
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
            expression=self._wanted.expression,
            expression_type=self._wanted.kind.value,
            is_orderly=self._is_orderly,
            attempt_id=attempt_id,
        )
        what = f"a pop of topic {self.topic}"
        timeout_ms = wait_ms + self._client.request_timeout_ms
        answer = self._client.broker.start(queue, request, what, timeout_ms)
        response = answer.result()
        if response.code in EMPTY_POP_CODES:
            return ()
        popped = parse_pop(ensure_success(response, answer.channel.address, what), queue)
        return self._matching(popped) if self._wanted.tags else popped

    def ack(self, popped: PoppedMessage) -> None:
        """The message is done with; after its time was over this may come too late."""
        request = ack_request(self.group, self.topic, popped.handle)
        self._ask(popped, request, f"the acknowledgement of {popped.handle}")

    def ack_all(self, popped: Iterable[PoppedMessage]) -> None:
        """All these messages are done with: one request per broker and thousand messages.

        Raises:
            RmqOrderedError: the first failure, after every broker was tried. Acknowledging again
                does no harm.
        """
        by_broker: dict[str, list[PoppedMessage]] = {}
        for each in popped:
            by_broker.setdefault(each.handle.broker_name, []).append(each)
        failures: list[RmqOrderedError] = []
        for name, some in by_broker.items():
            try:
                for first in range(0, len(some), _MOST_ACKS):
                    self._ack_some(name, some[first : first + _MOST_ACKS])
            except RmqOrderedError as error:
                failures.append(error)
        for failure in failures:
            raise failure

    def hold(self, popped: Iterable[PoppedMessage]) -> PopHold:
        """Keep messages hidden for as long as the ``with`` block takes."""
        return PopHold(self, popped, self._invisible_ms)

    def change_invisible_time(self, popped: PoppedMessage, invisible_ms: int) -> PoppedMessage:
        """Hide the message that long from now on; returns it with the handle that counts then."""
        request = change_invisible_request(self.group, self.topic, popped.handle, invisible_ms)
        response = self._ask(popped, request, f"another invisible time of {popped.handle}")
        return replace(popped, handle=parse_changed(response, popped.handle))

    def change_all(
        self, popped: Sequence[PoppedMessage], invisible_ms: int
    ) -> tuple[list[PoppedMessage], list[RmqOrderedError]]:
        """The same for many at once: all of them as they are now, and what went wrong.

        A message that could not be hidden anew keeps its handle.
        """
        now, failures = list(popped), list[RmqOrderedError]()
        # A broker that is away is asked once: each of many messages would wait for it in vain.
        away: dict[str, TransportError] = {}
        for first in range(0, len(now), _IN_FLIGHT):
            some = range(first, min(first + _IN_FLIGHT, len(now)))
            started = [self._start_change(now[index], invisible_ms, away) for index in some]
            for index, pending in zip(some, started, strict=True):
                try:
                    now[index] = _changed(now[index], pending)
                except RmqOrderedError as error:
                    failures.append(error)
                    if isinstance(error, TransportError):
                        away[now[index].handle.broker_name] = error
        return now, failures

    def _start_change(
        self, popped: PoppedMessage, invisible_ms: int, away: dict[str, TransportError]
    ) -> PendingAnswer | RmqOrderedError:
        broker_name = popped.handle.broker_name
        if broker_name in away:
            return away[broker_name]
        request = change_invisible_request(self.group, self.topic, popped.handle, invisible_ms)
        what = f"another invisible time of {popped.handle}"
        timeout_ms = self._client.request_timeout_ms
        try:
            return self._client.broker.start(self._place(popped), request, what, timeout_ms)
        except TransportError as error:
            away[broker_name] = error
            return error
        except RmqOrderedError as error:
            return error

    def _ack_some(self, broker_name: str, some: Sequence[PoppedMessage]) -> None:
        handles = [each.handle for each in some]
        request = batch_ack_request(self.group, self.topic, broker_name, handles)
        what = f"the acknowledgement of {len(some)} messages of topic {self.topic}"
        self._ask(some[0], request, what)

    def _matching(self, popped: Sequence[PoppedMessage]) -> tuple[PoppedMessage, ...]:
        """Those with one of the tags; the others only had the hash of one."""
        tags = self._wanted.tags
        wanted = tuple(
            each for each in popped if each.message.properties.get(PROPERTY_TAGS) in tags
        )
        if len(wanted) < len(popped):
            try:
                self.ack_all(each for each in popped if each not in wanted)
            except RmqOrderedError as error:
                _LOG.warning("messages with other tags could not be acknowledged: %s", error)
        return wanted

    def _place(self, popped: PoppedMessage) -> MessageQueue:
        return MessageQueue(self.topic, popped.handle.broker_name, popped.handle.queue_id)

    def _ask(self, popped: PoppedMessage, request: RemotingCommand, what: str) -> RemotingCommand:
        timeout_ms = self._client.request_timeout_ms
        answer = self._client.broker.start(self._place(popped), request, what, timeout_ms)
        return ensure_success(answer.result(), answer.channel.address, what)


class PopHold:
    """Popped messages that a thread keeps hidden until the block ends. Made by `PopConsumer.hold`.

    What is not acknowledged by then comes again when its time is over. Thread-safe.
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

    def add(self, popped: Iterable[PoppedMessage]) -> None:
        """Hold these messages too."""
        with self._lock:
            self._held.extend(popped)

    def ack(self) -> None:
        """Everything held is done with; where that fails, it is still held."""
        with self._lock:
            self._consumer.ack_all(self._held)
            self._held = []

    def renew(self) -> None:
        """Hide everything held anew; the thread calls this in time.

        Raises:
            RmqOrderedError: the first failure, after everything was tried.
        """
        with self._lock:
            self._held, failures = self._consumer.change_all(self._held, self._invisible_ms)
        for failure in failures:
            raise failure

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


def _changed(popped: PoppedMessage, pending: PendingAnswer | RmqOrderedError) -> PoppedMessage:
    if isinstance(pending, RmqOrderedError):
        raise pending
    response = ensure_success(pending.result(), pending.channel.address, pending.what)
    return replace(popped, handle=parse_changed(response, popped.handle))
