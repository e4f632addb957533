"""Ordered sends: a key always goes to the same queue, and a queue has one request in flight."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.client.lanes import OpenSends
from rmq_ordered.client.send_settings import SendSettings
from rmq_ordered.client.writer import OrderedWriter
from rmq_ordered.columnar.outgoing import rows_from_messages
from rmq_ordered.errors import LocalProtocolError, OptionError, QueueLayoutChanged
from rmq_ordered.model import (
    MAX_MESSAGE_BYTES,
    MAX_SINK_CHARACTERS,
    MessageQueue,
    OnLayoutChange,
    OutgoingMessage,
    Selector,
    SendResult,
    SendStream,
)
from rmq_ordered.net.system import UniqueIds
from rmq_ordered.ordering.selector import select_by_hash, select_consistently
from rmq_ordered.protocol import properties as names
from rmq_ordered.protocol.stamps import stamp_prefix

_LOG: Final = logging.getLogger("rmq_ordered.client")
# How many messages are taken from an iterator at a time.
_TAKEN_AT_ONCE: Final = 4_000


class OrderedProducer:
    """Sends to one topic. The list of queues is taken once and kept, so that no key moves.

    Not thread-safe. With ``idempotent`` (the default) the outcome of a send whose answer was lost
    is found out before anything else is sent to that queue: nothing is lost, overtaken or stored
    twice, but for the two exceptions of Apache RocketMQ in ``docs/guarantees.md``.

    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("invoices", 4)
    ...     producer = OrderedProducer(client, "invoices")
    ...     written, sent = (producer.send("order-7", step) for step in (b"written", b"sent"))
    ...     written.queue == sent.queue == producer.queue_of("order-7"), sent.first_offset
    (True, 1)

    Args:
        client: the cluster.
        topic: a topic that exists.
        send_timeout_ms: how long one batch may keep being refused or unanswered; overrides the
            settings.
        settings: everything else about sending.
        queues: the list that keys were given to before; without it, the topic's list of now.

    Raises:
        TopicNotFound: there is no such topic.
        QueueLayoutChanged: a queue of the given list is gone.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        send_timeout_ms: int | None = None,
        settings: SendSettings | None = None,
        queues: Sequence[MessageQueue] | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self.settings = settings or SendSettings()
        if send_timeout_ms is not None:
            self.settings = replace(self.settings, send_timeout_ms=send_timeout_ms)
        self._ids = UniqueIds()
        self.queues = self._pinned(queues)
        self._plain: OrderedWriter | None = None
        self._open_sends = OpenSends()

    def queue_of(self, key: str) -> MessageQueue:
        """Where messages of this key go.

        Raises:
            OptionError: the selector does not look at keys.
        """
        match self.settings.selector:
            case Selector.HASH:
                return select_by_hash(self.queues, key)
            case Selector.CONSISTENT:
                return select_consistently(self.queues, key)
            case other:
                raise OptionError("selector", other, "hash or consistent, to find a key's queue")

    def writer(
        self, stream: SendStream | None = None, *, floors: Mapping[MessageQueue, int] | None = None
    ) -> OrderedWriter:
        """A writer for columns.

        Args:
            stream: the rows' identity: a second writer of the same stream adds nothing that is
                there already. Without it, the rows are new by definition.
            floors: queues in which an earlier attempt may have written, and from which offset on.
                Only looked at where the broker does not recognise repeats: there the queue is read
                back from this offset before anything is sent.

        Raises:
            LocalProtocolError: the stream's sink, batch or partition cannot be written as a stamp.
        """
        if stream is not None:
            stamp_prefix(stream)
            if len(stream.sink) > MAX_SINK_CHARACTERS:
                raise LocalProtocolError(
                    f"a sink has at most {MAX_SINK_CHARACTERS} characters, found {stream.sink!r}"
                )
        is_stamped = stream is not None and self.settings.idempotent
        known = stream or SendStream(self._ids.next(), 0, 0)
        return OrderedWriter(
            self._client,
            self.queues,
            self.settings,
            known,
            is_stamped=is_stamped,
            floors=floors,
            open_sends=self._open_sends,
        )

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
        # The producer's own: it is how the message is found again after a lost answer.
        values.pop(names.PROPERTY_UNIQ_KEY, None)
        if len(body) > MAX_MESSAGE_BYTES:
            raise LocalProtocolError(
                f"a message of {len(body)} bytes with key {key!r} is over RocketMQ's limit of "
                f"{MAX_MESSAGE_BYTES} bytes; make it smaller"
            )
        return OutgoingMessage(body, values)

    def send_all(
        self, messages: Mapping[MessageQueue, Iterable[OutgoingMessage]]
    ) -> dict[MessageQueue, list[SendResult]]:
        """Send many messages, each queue in order, queues side by side, until all have landed.

        Raises:
            RmqOrderedError: a batch was refused for good, or kept failing for the send timeout.
                What had landed until then is stored, and is a prefix of each queue's messages.
                What was in flight then is settled before the next call sends to that queue.
            SendUnsettled: that could not be done within the send timeout.
        """
        # Gone while it works: after an error, what was not sent must not go with the next call.
        writer, self._plain = self._plain or self.writer(), None
        lanes = {queue: writer.lane(queue) for queue in messages}
        for queue, items in messages.items():
            lanes[queue].tally.results.clear()
            rest = iter(items)
            while taken := list(islice(rest, _TAKEN_AT_ONCE)):
                writer.write_rows(queue, rows_from_messages(taken))
        writer.flush()
        self._plain = writer
        return {queue: list(lane.tally.results) for queue, lane in lanes.items()}

    def _pinned(self, queues: Sequence[MessageQueue] | None) -> tuple[MessageQueue, ...]:
        found = self._client.routes.writable(self._topic)
        if queues is None or tuple(queues) == found:
            return found
        missing = [queue for queue in queues if queue not in found]
        if missing and self.settings.on_layout_change is OnLayoutChange.FAIL:
            raise QueueLayoutChanged(self._topic, missing, len(found))
        if missing:
            _LOG.warning(
                "keys move: the queues are others than before topic=%s missing=%s found=%s",
                self._topic,
                ", ".join(map(str, missing)),
                len(found),
            )
            return found
        _LOG.warning(
            "new queues are not used, so that no key moves topic=%s used=%s found=%s",
            self._topic,
            len(queues),
            len(found),
        )
        return tuple(queues)
