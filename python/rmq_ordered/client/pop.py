"""Popping: the broker chooses the queue, and hides what it gave until it is acknowledged.

No group membership, no locks, no order across messages: many consumers may share all queues. Who
needs order uses OrderedConsumer.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OptionError
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
    change_invisible_request,
    parse_changed,
    parse_pop,
    pop_request,
)

# Java's push consumer hides what it popped for a minute.
_INVISIBLE_MS: Final = 60_000


class PopConsumer:
    """At least once: what is not acknowledged while it is hidden comes again. Thread-safe.

    Args:
        client: the cluster.
        group: for whom; the broker creates it when it may.
        topic: what.
        invisible_ms: how long a popped message is hidden from others.
        init_mode: where the group begins that never popped here.

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
    ) -> None:
        if invisible_ms < 1:
            raise OptionError("invisible_ms", invisible_ms, "at least 1")
        self.group = group
        self.topic = topic
        self._client = client
        self._invisible_ms = invisible_ms
        self._init_mode = init_mode
        self._turn = itertools.count()

    def pop(
        self, max_messages: int = MAX_POP_MESSAGES, *, wait_ms: int = 0
    ) -> tuple[PoppedMessage, ...]:
        """Take messages from one broker, each call from the next one in turn.

        Args:
            max_messages: 1 to 32.
            wait_ms: how long the broker may wait for the first one.

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
