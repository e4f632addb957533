"""Ordered sends: a key always goes to the same queue, and a queue has one request in flight."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import LocalProtocolError, RmqOrderedError
from rmq_ordered.model import MessageQueue, OutgoingMessage, SendResult
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.net.system import UniqueIds
from rmq_ordered.ordering.batching import message_bytes, split_batches
from rmq_ordered.ordering.selector import select_by_hash
from rmq_ordered.ordering.sequencer import QueueSequencer
from rmq_ordered.protocol import properties as names
from rmq_ordered.protocol.answers import refusal
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import encode_batch
from rmq_ordered.protocol.sends import (
    STORED_CODES,
    parse_send,
    send_batch_request,
    send_request,
)

_LOG: Final = logging.getLogger("rmq_ordered.client")

# RocketMQ's maxMessageSize; a batch as a whole must stay below it.
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
_BATCH_BYTES: Final = 1024 * 1024
_BATCH_MESSAGES: Final = 2_000
_PRODUCER_GROUP: Final = "rmq-ordered"


@dataclass(slots=True)
class _Lane:
    """One queue: what is still to be sent, what is under way, what has landed."""

    queue: MessageQueue
    sequencer: QueueSequencer[list[OutgoingMessage]]
    batch: list[OutgoingMessage] = field(default_factory=list)
    pending: PendingAnswer | None = None
    landed: list[SendResult] = field(default_factory=list)


class OrderedProducer:
    """Sends to one topic. The list of queues is taken once and kept, so that no key moves.

    Not thread-safe. A lost answer is resolved by sending again in place: a message may be stored
    twice, but the first copies keep their order.

    Args:
        client: the cluster.
        topic: a topic that exists.
        send_timeout_ms: how long one batch may keep being refused or unanswered.

    Raises:
        TopicNotFound: there is no such topic.
    """

    def __init__(self, client: Client, topic: str, *, send_timeout_ms: int = 30_000) -> None:
        self._client = client
        self._send_timeout_ms = send_timeout_ms
        self._ids = UniqueIds()
        self.queues = client.routes.writable(topic)

    def queue_of(self, key: str) -> MessageQueue:
        """Where messages of this key go, as Java's SelectMessageQueueByHash would decide."""
        return select_by_hash(self.queues, key)

    def send(
        self, key: str, body: bytes, *, tags: str | None = None, keys: str | None = None
    ) -> SendResult:
        """Send one message and wait until the broker has it."""
        message = self.message(body, key=key, tags=tags, keys=keys)
        queue = self.queue_of(key)
        return self.send_all({queue: [message]})[queue][0]

    def message(
        self,
        body: bytes,
        *,
        key: str | None = None,
        tags: str | None = None,
        keys: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> OutgoingMessage:
        """A message with the properties that consumers look for."""
        values = dict(properties or {})
        named = {
            names.PROPERTY_SHARDING_KEY: key,
            names.PROPERTY_TAGS: tags,
            names.PROPERTY_KEYS: keys,
        }
        values |= {name: value for name, value in named.items() if value is not None}
        values.setdefault(names.PROPERTY_UNIQ_KEY, self._ids.next())
        message = OutgoingMessage(body, values)
        if message_bytes(message) > MAX_MESSAGE_BYTES:
            raise LocalProtocolError(
                f"a message of {len(body)} bytes with key {key!r} is over RocketMQ's limit of "
                f"{MAX_MESSAGE_BYTES} bytes including properties; make it smaller"
            )
        return message

    def send_all(
        self, messages: Mapping[MessageQueue, Iterable[OutgoingMessage]]
    ) -> dict[MessageQueue, list[SendResult]]:
        """Send many messages, each queue in order, queues side by side, until all have landed.

        Raises:
            RmqOrderedError: a batch was refused for good, or kept failing for ``send_timeout_ms``.
            What had
                landed until then is stored, and is a prefix of each queue's messages.
        """
        lanes = [_Lane(queue, self._sequencer(items)) for queue, items in messages.items()]
        while not all(lane.sequencer.is_done for lane in lanes):
            for lane in lanes:
                self._advance(lane)
            self._await_any(lanes)
            for lane in lanes:
                self._settle(lane)
        return {lane.queue: lane.landed for lane in lanes}

    def _sequencer(
        self, messages: Iterable[OutgoingMessage]
    ) -> QueueSequencer[list[OutgoingMessage]]:
        batches = split_batches(messages, _BATCH_BYTES, _BATCH_MESSAGES)
        return QueueSequencer(batches, self._send_timeout_ms)

    def _advance(self, lane: _Lane) -> None:
        batch = lane.sequencer.take(self._client.clock.monotonic_ms())
        if batch is None:
            return
        lane.batch = batch
        what = f"a send of {len(batch)} messages to {lane.queue}"
        try:
            lane.pending = self._client.broker.start(
                lane.queue, self._request(lane.queue, batch), what, self._client.request_timeout_ms
            )
        except RmqOrderedError as error:
            lane.sequencer.failed(error, self._client.clock.monotonic_ms())

    def _request(self, queue: MessageQueue, batch: list[OutgoingMessage]) -> RemotingCommand:
        born_ms = self._client.clock.wall_ms()
        if len(batch) > 1:
            return send_batch_request(
                queue, encode_batch(batch), producer_group=_PRODUCER_GROUP, born_ms=born_ms
            )
        (message,) = batch
        return send_request(
            queue,
            message.body,
            {names.PROPERTY_WAIT: "true", **message.properties},
            producer_group=_PRODUCER_GROUP,
            born_ms=born_ms,
            flag=message.flag,
        )

    def _await_any(self, lanes: list[_Lane]) -> None:
        """Wait for an answer, a deadline, or the end of a pause, whichever comes first."""
        now_ms = self._client.clock.monotonic_ms()
        pending = [lane.pending for lane in lanes if lane.pending is not None]
        if any(answer.future.done() for answer in pending):
            return
        wake_ups = [answer.deadline_ms for answer in pending]
        wake_ups += [
            lane.sequencer.not_before_ms
            for lane in lanes
            if not lane.sequencer.is_done and not lane.sequencer.is_in_flight
        ]
        wait_ms = max(0, min(wake_ups, default=now_ms) - now_ms)
        if pending:
            wait([answer.future for answer in pending], wait_ms / 1000, FIRST_COMPLETED)
        elif wait_ms:
            self._client.clock.pause_ms(wait_ms)

    def _settle(self, lane: _Lane) -> None:
        answer = lane.pending
        now_ms = self._client.clock.monotonic_ms()
        if answer is None or not (answer.future.done() or now_ms >= answer.deadline_ms):
            return
        lane.pending = None
        try:
            response = answer.result()
            if response.code not in STORED_CODES:
                raise refusal(response, answer.channel.address, answer.what)
            if response.code != ResponseCode.SUCCESS:
                _LOG.warning(
                    "stored, but less durable than configured code=%s queue=%s: %s",
                    response.code,
                    lane.queue,
                    response.remark,
                )
            lane.landed.append(parse_send(response, lane.queue, len(lane.batch)))
        except RmqOrderedError as error:
            # An unanswered request may still be stored, even after the batches that follow. That
            # copy is a duplicate; the first copies keep their order because this batch is sent
            # again before anything else.
            self._client.routes.forget(lane.queue.topic)
            lane.sequencer.failed(error, now_ms)
        else:
            lane.sequencer.landed()
