"""What the driver-side reader of a popping query holds while a run lasts: client, consumers, batch.

It lives in one process for the whole run and is never pickled. There is no ownership to lose: what
this process does not acknowledge in time comes to somebody else.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rmq_ordered.client.plan import ANONYMOUS_GROUP, ReadPlan
from rmq_ordered.client.pop import PopConsumer
from rmq_ordered.client.retry import retry_until
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import QueueRange
from rmq_ordered.net.system import fresh_client_id
from rmq_ordered.options import PopOptions, SourceOptions, StartPosition
from rmq_ordered.ordering.popped import PopBound, PoppedOffset
from rmq_ordered.protocol.members import FilterKind
from rmq_ordered.protocol.members import Subscription as Wanted
from rmq_ordered.protocol.pops import MAX_POP_MESSAGES, InitMode, PoppedMessage, original_topic
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.popping.hold import BatchHold
from rmq_ordered.spark.popping.notes import FinishedNotes
from rmq_ordered.spark.popping.partition import PoppedPartition
from rmq_ordered.spark.selection import Subscription

_LOG: Final = logging.getLogger("rmq_ordered.spark")
# Long enough for a broker to restart.
_PATIENCE_MS: Final = 20_000
# How long an AvailableNow run waits for a first message before it believes that there is none.
_LAST_LOOK_MS: Final = 500


@dataclass
class Room:
    """What a batch may still take: messages, and bytes of their bodies."""

    messages: int
    body_bytes: int | None = None

    @property
    def is_left(self) -> bool:
        """Whether one more pop is allowed."""
        return self.messages > 0 and (self.body_bytes is None or self.body_bytes > 0)

    def take(self, popped: Sequence[PoppedMessage]) -> None:
        """These are in the batch."""
        self.messages -= len(popped)
        if self.body_bytes is not None:
            self.body_bytes -= sum(len(each.message.body) for each in popped)


class PopRun:
    """One run of a popping source. Used by one thread; the batch it holds has a thread of its own.

    Attributes:
        name: who popped; stands in Spark's log.
        bound: set by AvailableNow: what counts as there when the run began.
    """

    def __init__(self, options: SourceOptions, popping: PopOptions) -> None:
        self._options = options
        self._popping = popping
        self.group = options.group or ""
        self.name = fresh_client_id("pop")
        self.bound: PopBound | None = None
        self._client = open_client(options.connection)
        self._notes = FinishedNotes(self._client.kv, self.group)
        self._subscription = Subscription(
            self._client, options.selection, options.wait_for_topic_ms, keeps_unlisted=False
        )
        self._is_checked = False
        self._consumers: dict[str, PopConsumer] = {}
        self._attempts: dict[tuple[str, str], str] = {}
        self._numbers = itertools.count(1)
        self._held: BatchHold | None = None
        self._has_popped = False

    def ensure_topics(self) -> None:
        """Raise when a topic is not there or cannot be read; asked once per run."""
        if not self._is_checked:
            self._subscription.spans()
            self._is_checked = True

    def finish(self, last: PoppedOffset) -> None:
        """``last`` ends the last finished batch: acknowledge it if this run popped it."""
        held = self._held
        if held is not None and last.run == self.name and last.batch >= held.batch:
            held.finish()
            self._held = None

    def pop(self, last: PoppedOffset, room: Room) -> PoppedOffset | None:
        """Pop the batch after ``last``; None when there is nothing.

        A batch that was popped and not finished is given once more.

        Raises:
            BrokerError: a broker refused.
            TransportError: no broker could be asked for a while.
        """
        if self._held is not None:
            return self._held.offset
        self.ensure_topics()
        planned = PoppedOffset(last.batch + 1, self.group, self.name)
        held = BatchHold(
            planned,
            self._client.clock,
            self._popping.invisible_ms,
            lambda: self._notes.told(self.name) >= planned.batch,
        )
        deadline_ms = self._client.clock.monotonic_ms() + _PATIENCE_MS
        try:
            retry_until(self._client.clock, deadline_ms, lambda: self._fill(held, room))
        except RmqOrderedError:
            held.let_go()
            raise
        if held.is_empty:
            return None
        self._held, self._has_popped = held, True
        return held.offset

    def partitions(self, batch: PoppedOffset) -> list[PoppedPartition]:
        """One partition per queue: exactly what was popped, whoever popped it."""
        return [
            self._partition(original_topic(batch.group, queue.topic), ranges)
            for queue, ranges in batch.ranges.items()
        ]

    def close(self) -> None:
        """Let go of what is held and close every connection. Idempotent."""
        held, self._held = self._held, None
        if held is not None:
            held.let_go()
        if self._has_popped:
            self._has_popped = False
            try:
                self._notes.forget(self.name)
            except RmqOrderedError as error:
                _LOG.debug("= the notes of %s stay: %s", self.name, error)
        self._client.close()

    def _fill(self, held: BatchHold, room: Room) -> None:
        """Pop from all brokers in turn until they or the room are empty."""
        places = deque(self._places())
        asked, failures = len(places), list[RmqOrderedError]()
        while places and room.is_left:
            consumer, broker = places.popleft()
            wait_ms = _LAST_LOOK_MS if self.bound is not None and held.is_empty else 0
            try:
                popped = self._pop_from(consumer, broker, room, wait_ms)
            except RmqOrderedError as error:
                if not error.retryable:
                    raise
                failures.append(error)
                continue
            if popped:
                held.add(consumer, popped)
                room.take(popped)
                places.append((consumer, broker))
            if self.bound is not None:
                self._mark(self.bound, consumer, broker, popped, is_patient=wait_ms > 0)
        if failures and len(failures) == asked and held.is_empty:
            raise failures[0]
        for failure in failures:
            _LOG.warning("a broker is left out of a batch, group=%s: %s", self.group, failure)

    def _places(self) -> list[tuple[PopConsumer, str]]:
        """Where to pop: every broker of every topic; in an AvailableNow run those not over."""
        return [
            (consumer, broker)
            for consumer in self._all()
            for broker in consumer.brokers()
            if self.bound is None or self.bound.is_open((consumer.topic, broker))
        ]

    def _mark(
        self,
        bound: PopBound,
        consumer: PopConsumer,
        broker: str,
        popped: Sequence[PoppedMessage],
        *,
        is_patient: bool,
    ) -> None:
        place = consumer.topic, broker
        if popped:
            readable = self._client.routes.readable(consumer.topic)
            queues = sum(queue.broker_name == broker for queue in readable)
            times = ((e.handle.pop_time_ms, e.message.store_timestamp_ms) for e in popped)
            bound.came(place, queues, times)
        elif is_patient:
            bound.nothing_came(place)

    def _pop_from(
        self, consumer: PopConsumer, broker: str, room: Room, wait_ms: int
    ) -> tuple[PoppedMessage, ...]:
        place = consumer.topic, broker
        attempt: str | None = None
        if self._popping.is_orderly:
            # Asked again under the same name after a lost answer: the same messages come at once.
            attempt = self._attempts.setdefault(place, f"{self.name}-{next(self._numbers)}")
        popped = consumer.pop(
            min(MAX_POP_MESSAGES, room.messages),
            wait_ms=wait_ms,
            attempt_id=attempt,
            broker_name=broker,
        )
        self._attempts.pop(place, None)
        return popped

    def _all(self) -> list[PopConsumer]:
        topics = self._subscription.topics()
        for topic in topics:
            if topic not in self._consumers:
                self._consumers[topic] = self._consumer(topic)
        return [self._consumers[topic] for topic in topics]

    def _consumer(self, topic: str) -> PopConsumer:
        starts_late = self._options.starting.fallback is StartPosition.LATEST
        wanted = Wanted(topic)
        if self._options.sql92 is not None:
            wanted = Wanted(topic, self._options.sql92, FilterKind.SQL92)
        elif self._options.tags is not None:
            wanted = Wanted(topic, " || ".join(self._options.tags))
        return PopConsumer(
            self._client,
            self.group,
            wanted,
            invisible_ms=self._popping.invisible_ms,
            init_mode=InitMode.LAST if starts_late else InitMode.FIRST,
            is_orderly=self._popping.is_orderly,
        )

    def _partition(self, topic: str, ranges: tuple[QueueRange, ...]) -> PoppedPartition:
        features = self._client.routes.features(topic)
        # Under a group of its own, and without the filter: exactly these offsets are wanted, and a
        # group that pops may be refused to pull.
        plans = (
            ReadPlan(each, ANONYMOUS_GROUP, None, features, route_topic=topic) for each in ranges
        )
        return PoppedPartition(tuple(plans), topic)
