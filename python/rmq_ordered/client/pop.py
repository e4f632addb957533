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
from functools import partial
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OptionError, RmqOrderedError, TransportError
from rmq_ordered.model import MessageQueue
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.protocol.answers import accepted, ensure_success
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import Subscription
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

    >>> from rmq_ordered.client import OrderedProducer, Subscription
    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("parcels-to-weigh", 1)
    ...     producer = OrderedProducer(client, "parcels-to-weigh")
    ...     sent = [producer.send("p1", b"%d" % n, tags="ab"[n % 2]) for n in range(4)]
    ...     consumer = PopConsumer(client, "scales", Subscription("parcels-to-weigh", "b"))
    ...     with consumer.hold(consumer.pop(wait_ms=10_000)) as held:
    ...         [popped.message.body for popped in held.messages]
    ...         held.ack()
    ...     consumer.pop()
    [b'1', b'3']
    ()

    Args:
        client: the cluster.
        group: for whom; the broker creates it when it may.
        topic: what; by name, or with a filter by tags or an SQL92 condition. The whole group must
            filter alike: what does not match is passed over for the group.
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
        topic: str | Subscription,
        *,
        invisible_ms: int = _INVISIBLE_MS,
        init_mode: InitMode = InitMode.FIRST,
        is_orderly: bool = False,
    ) -> None:
        if invisible_ms < 1:
            raise OptionError("invisible_ms", invisible_ms, "at least 1")
        self._wanted = topic if isinstance(topic, Subscription) else Subscription(topic)
        self.group = group
        self.topic = self._wanted.topic
        self._client = client
        self._invisible_ms = invisible_ms
        self._init_mode = init_mode
        self._is_orderly = is_orderly
        self._turn = itertools.count()
        self._guard = threading.Lock()
        self._holds: WeakSet[PopHold] = WeakSet()

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
            BrokerError: the broker refused; it may be that it cannot read the filter.
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
        address, read = answer.channel.address, partial(parse_pop, queue=queue)
        return self._matching(accepted(read, response, address, what))

    def ack(self, popped: PoppedMessage) -> None:
        """The message is done with; after its time was over this may come too late.

        One that is held goes with the handle that counts now, and is not held any longer.
        """
        hold = self._hold_of(popped)
        if hold is not None:
            hold.ack(popped)
            return
        request = ack_request(self.group, self.topic, popped.handle)
        self._ask(popped, request, f"the acknowledgement of {popped.handle}")

    def ack_all(self, popped: Iterable[PoppedMessage]) -> None:
        """All these messages are done with: one request per broker and thousand messages.

        Raises:
            RmqOrderedError: the first failure, after all requests were tried.
        """
        held: dict[PopHold, list[PoppedMessage]] = {}
        free: list[PoppedMessage] = []
        for each in popped:
            hold = self._hold_of(each)
            (free if hold is None else held.setdefault(hold, [])).append(each)
        failures = list(self.try_ack(free).values())
        for hold, some in held.items():
            try:
                hold.ack(*some)
            except RmqOrderedError as error:
                failures.append(error)
        for failure in failures:
            raise failure

    def hold(self, popped: Iterable[PoppedMessage]) -> PopHold:
        """Keep messages hidden during a ``with`` block, as long as their brokers answer."""
        hold = PopHold(self, popped, self._invisible_ms)
        with self._guard:
            self._holds.add(hold)
        return hold

    def change_invisible_time(self, popped: PoppedMessage, invisible_ms: int) -> PoppedMessage:
        """Hide the message that long from now on; returns it with the handle that counts then."""
        (outcome,) = self.try_hide([popped], invisible_ms)
        if isinstance(outcome, RmqOrderedError):
            raise outcome
        return outcome

    def try_ack(self, popped: Iterable[PoppedMessage]) -> dict[str, RmqOrderedError]:
        """Acknowledge with these very handles, one request per broker and thousand messages.

        Returns:
            By broker name what failed; the messages of the other brokers are done with.
            Acknowledging again does no harm.
        """
        by_broker: dict[str, list[PoppedMessage]] = {}
        for each in popped:
            by_broker.setdefault(each.handle.broker_name, []).append(each)
        failures: dict[str, RmqOrderedError] = {}
        for name, some in by_broker.items():
            try:
                for first in range(0, len(some), _MOST_ACKS):
                    self._ack_some(name, some[first : first + _MOST_ACKS])
            except RmqOrderedError as error:
                failures[name] = error
        return failures

    def try_hide(
        self, popped: Sequence[PoppedMessage], invisible_ms: int
    ) -> list[PoppedMessage | RmqOrderedError]:
        """Hide messages anew, many requests in flight; failures stand in their places."""
        outcomes: list[PoppedMessage | RmqOrderedError] = []
        # A broker that is away is asked once: each of many messages would wait for it in vain.
        away: dict[str, RmqOrderedError] = {}
        for first in range(0, len(popped), _IN_FLIGHT):
            some = popped[first : first + _IN_FLIGHT]
            started = [self._start_change(each, invisible_ms, away) for each in some]
            outcomes += [
                self._changed(each, pending, away)
                for each, pending in zip(some, started, strict=True)
            ]
        return outcomes

    def _ack_some(self, broker_name: str, some: Sequence[PoppedMessage]) -> None:
        handles = [each.handle for each in some]
        request = batch_ack_request(self.group, self.topic, broker_name, handles)
        what = f"the acknowledgement of {len(some)} messages of topic {self.topic}"
        self._ask(some[0], request, what)

    def _matching(self, popped: Sequence[PoppedMessage]) -> tuple[PoppedMessage, ...]:
        """Brokers compare tags by their hash: what only looked right is done with, as in Java."""
        tags = self._wanted.tags
        if not tags:
            return tuple(popped)
        matching = [one for one in popped if one.message.properties.get(PROPERTY_TAGS) in tags]
        others = [one for one in popped if one not in matching]
        for failure in self.try_ack(others).values():
            # They come again when their time is over, and are passed over again.
            _LOG.warning("messages that do not match were not acknowledged: %s", failure)
        return tuple(matching)

    def _start_change(
        self, popped: PoppedMessage, invisible_ms: int, away: dict[str, RmqOrderedError]
    ) -> PendingAnswer | RmqOrderedError:
        name = popped.handle.broker_name
        if name in away:
            return away[name]
        request = change_invisible_request(self.group, self.topic, popped.handle, invisible_ms)
        try:
            return self._start(popped, request, f"another invisible time of {popped.handle}")
        except RmqOrderedError as error:
            if isinstance(error, TransportError):
                away[name] = error
            return error

    def _changed(
        self,
        popped: PoppedMessage,
        pending: PendingAnswer | RmqOrderedError,
        away: dict[str, RmqOrderedError],
    ) -> PoppedMessage | RmqOrderedError:
        if isinstance(pending, RmqOrderedError):
            return pending
        try:
            address, read = pending.channel.address, partial(parse_changed, handle=popped.handle)
            handle = accepted(read, pending.result(), address, pending.what)
            return replace(popped, handle=handle)
        except RmqOrderedError as error:
            if isinstance(error, TransportError):
                away[popped.handle.broker_name] = error
            return error

    def _ask(self, popped: PoppedMessage, request: RemotingCommand, what: str) -> RemotingCommand:
        answer = self._start(popped, request, what)
        return ensure_success(answer.result(), answer.channel.address, what)

    def _start(self, popped: PoppedMessage, request: RemotingCommand, what: str) -> PendingAnswer:
        queue = MessageQueue(self.topic, popped.handle.broker_name, popped.handle.queue_id)
        return self._client.broker.start(queue, request, what, self._client.request_timeout_ms)

    def _hold_of(self, popped: PoppedMessage) -> PopHold | None:
        with self._guard:
            holds = list(self._holds)
        return next((hold for hold in holds if hold.has(popped)), None)


class PopHold:
    """Popped messages that a thread keeps hidden until the block ends. Made by `PopConsumer.hold`.

    One that cannot be hidden anew (its broker is away, or its time was over before) costs no other
    one its time. What is not acknowledged when the block ends comes again when its time is over.
    """

    def __init__(
        self, consumer: PopConsumer, popped: Iterable[PoppedMessage], invisible_ms: int
    ) -> None:
        self._consumer = consumer
        # By place: handles change, where a message lies does not.
        self._held = {_place(one): one for one in popped}
        self._invisible_ms = invisible_ms
        # For who changes handles or uses them up; what is held has a guard that is held briefly.
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._renew_for_ever, name="rmq-ordered pop hold", daemon=True
        )

    @property
    def messages(self) -> tuple[PoppedMessage, ...]:
        """What is held, each with the handle that counts now."""
        with self._guard:
            return tuple(self._held.values())

    def add(self, popped: Iterable[PoppedMessage]) -> None:
        """Hold these messages too."""
        with self._guard:
            self._held |= {_place(one): one for one in popped}

    def has(self, popped: PoppedMessage) -> bool:
        """Whether this message is held now; not if it was popped again since."""
        with self._guard:
            held = self._held.get(_place(popped))
            is_here = held is not None and popped.handle.pop_time_ms <= held.handle.pop_time_ms
            return is_here and not self._stopping.is_set()

    def ack(self, *popped: PoppedMessage) -> None:
        """Everything held, or only these of it, is done with and not held any longer.

        Raises:
            RmqOrderedError: a broker could not be told; its messages are still held.
        """
        with self._turn:
            with self._guard:
                places = [_place(one) for one in popped] if popped else list(self._held)
                told = [self._held[place] for place in places if place in self._held]
            failures = self._consumer.try_ack(told)
            with self._guard:
                for one in told:
                    if one.handle.broker_name not in failures:
                        self._held.pop(_place(one), None)
        for failure in failures.values():
            raise failure

    def renew(self) -> None:
        """Hide everything held anew; the thread calls this in time.

        Raises:
            RmqOrderedError: the first failure, after all were tried.
        """
        for failure in self._renew():
            raise failure

    def _renew(self) -> list[RmqOrderedError]:
        with self._turn:
            held = self.messages
            outcomes = self._consumer.try_hide(held, self._invisible_ms)
            renewed = [one for one in outcomes if not isinstance(one, RmqOrderedError)]
            with self._guard:
                self._held |= {_place(one): one for one in renewed}
        return [one for one in outcomes if isinstance(one, RmqOrderedError)]

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
            for failure in self._renew():
                # Its time runs out by itself: it comes again, to us or to others.
                _LOG.warning("a popped message could not be hidden anew: %s", failure)


def _place(popped: PoppedMessage) -> tuple[str, str, int, int]:
    """Where a message lies, whatever its handle says of times."""
    handle = popped.handle
    return handle.topic_kind, handle.broker_name, handle.queue_id, handle.queue_offset
