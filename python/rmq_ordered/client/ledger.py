"""What a sink must remember outside the processes that write, so that nothing is written twice.

It is kept in the name servers' key-value configuration, in a namespace of the sink's own:

    queues@TOPIC              which queues keys are given to, in which order
    queues@TOPIC@BATCH        the same from this batch on
    floors@TOPIC@PARTITION    where the queues ended before the first row, as this task saw it
    done                      the last batch that was committed, and by which run

Floors that move on are committed offsets of a consumer group that nobody joins. Brokers keep those
in memory for some seconds; when they are lost, the older floors above are used, which costs a
longer read and nothing else. Only brokers that do not recognise repeats need floors at all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from rmq_ordered.client.connection import Client
from rmq_ordered.client.producer import OrderedProducer
from rmq_ordered.client.send_settings import SendSettings
from rmq_ordered.client.writer import OrderedWriter
from rmq_ordered.errors import (
    BrokerError,
    QueueLayoutChanged,
    RmqOrderedError,
    TopicNotFound,
)
from rmq_ordered.model import MessageQueue, OnLayoutChange, QueueReceipt, SendStream
from rmq_ordered.net.system import fresh_client_id
from rmq_ordered.protocol.codes import FEATURE_STAMPED_REQUEST, ResponseCode

T = TypeVar("T")
_LOG: Final = logging.getLogger("rmq_ordered.client")
_DONE: Final = "done"
_QUEUES: Final = "queues@"
_FLOORS: Final = "floors@"
_PAUSE_MS: Final = 200


@dataclass(frozen=True, slots=True)
class WriteAttempt:
    """Whose rows a task writes, and whether it can be the first to do so.

    Attributes:
        stream: sink, batch and partition.
        run: the run of the query; None where runs cannot be told apart.
        is_first: whether this task was not tried before within the run.
    """

    stream: SendStream
    run: str | None
    is_first: bool


@dataclass(frozen=True, slots=True)
class _Base:
    run: str | None
    floors: Mapping[MessageQueue, int]


class SinkLedger:
    """The memory of one sink. Holds nothing itself: every call asks. Not thread-safe.

    Two tasks that begin at the same time write keys of their own, so that neither undoes what the
    other has recorded.
    """

    def __init__(self, client: Client, sink: str) -> None:
        self._client = client
        self._sink = sink
        self._namespace = f"rmq-ordered-sink@{sink}"
        self.group = f"rmq-ordered-sink-{sink}"

    def writer(self, topic: str, settings: SendSettings, attempt: WriteAttempt) -> OrderedWriter:
        """A writer to the queues that this sink's keys were given to when it began.

        Waits up to the send timeout for brokers and queues that are away.

        Raises:
            TopicNotFound: there is no such topic.
            QueueLayoutChanged: queues are gone, and keys may not move.
            OffsetOutOfRange: what an earlier attempt wrote may have expired (when rows are sent).
        """
        deadline_ms = self._client.clock.monotonic_ms() + settings.send_timeout_ms
        # A queue that is away comes back more often than not: keys move only when it stays away.
        waiting = replace(settings, on_layout_change=OnLayoutChange.FAIL)
        is_rehashing = settings.on_layout_change is OnLayoutChange.REHASH
        try:
            writer = self._patiently(
                topic, deadline_ms, lambda: self._open_writer(topic, waiting, attempt)
            )
        except QueueLayoutChanged:
            if not is_rehashing:
                raise
            return self._open_writer(topic, settings, attempt)
        if is_rehashing:
            self._use_new_queues(topic, attempt.stream.batch)
        return writer

    def _open_writer(
        self, topic: str, settings: SendSettings, attempt: WriteAttempt
    ) -> OrderedWriter:
        records = self._client.kv.list(self._namespace)
        batch = attempt.stream.batch
        pinned = _queues_of(records, topic, batch)
        if pinned is None:
            self._client.routes.ensure_complete(topic)
        producer = OrderedProducer(self._client, topic, settings=settings, queues=pinned)
        if producer.queues != pinned:
            self._pin(topic, producer.queues, since=0 if pinned is None else batch)
        if not settings.idempotent:
            return producer.writer()
        floors = None
        if self.needs_floors(topic):
            floors = self._floors(topic, producer.queues, attempt, records)
            if not attempt.is_first:
                # What the attempt before sent last may still be on its way: a task is tried again
                # at once, and what is appended after the read-back would be stored twice.
                self._client.clock.pause_ms(settings.wait_out_ms)
        return producer.writer(attempt.stream, floors=floors)

    def needs_floors(self, topic: str) -> bool:
        """Whether the topic's brokers cannot tell a repeated send from a new one."""
        return FEATURE_STAMPED_REQUEST not in self._client.routes.features(topic)

    def commit(self, run: str | None, batch: int, receipts: Iterable[QueueReceipt]) -> None:
        """A batch is written: the next read-back begins where it began, not before.

        A failure is told and forgotten: floors that stay behind are slower, not wrong.
        """
        try:
            floors = self._next_floors(list(receipts))
            self._commit_floors(floors)
            self._client.kv.put(
                self._namespace, _DONE, json.dumps({"run": run, "batch": batch}, sort_keys=True)
            )
        except RmqOrderedError as error:
            _LOG.warning(
                "the next start of sink=%s reads back more than it had to batch=%s: %s",
                self._sink,
                batch,
                error,
            )

    def forget(self) -> None:
        """Remove every record: this sink never writes again."""
        try:
            for key in self._client.kv.list(self._namespace):
                self._client.kv.delete(self._namespace, key)
        except RmqOrderedError as error:
            _LOG.debug("= records of sink %s stay behind: %s", self._sink, error)

    # Queues

    def _pin(self, topic: str, queues: Iterable[MessageQueue], *, since: int) -> None:
        value = [[queue.broker_name, queue.queue_id] for queue in queues]
        key = f"{_QUEUES}{topic}@{since}" if since else f"{_QUEUES}{topic}"
        self._client.kv.put(self._namespace, key, json.dumps(value))

    def _use_new_queues(self, topic: str, batch: int) -> None:
        """Queues that were added are used from the next batch on: a replay must find its rows."""
        found = self._client.routes.writable(topic)
        records = self._client.kv.list(self._namespace)
        if set(found) > set(_queues_of(records, topic, batch + 1) or found):
            _LOG.warning(
                "keys move with the next batch: there are new queues topic=%s found=%s batch=%s",
                topic,
                len(found),
                batch,
            )
            self._pin(topic, found, since=batch + 1)

    def _patiently(self, topic: str, deadline_ms: int, attempt: Callable[[], T]) -> T:
        """Try until the deadline, as long as it may help."""
        clock = self._client.clock
        while True:
            try:
                return attempt()
            except RmqOrderedError as error:
                if clock.monotonic_ms() + _PAUSE_MS >= deadline_ms or not self._may_pass(
                    topic, error
                ):
                    raise
                _LOG.debug("= sink %s waits for topic %s: %s", self._sink, topic, error)
                self._client.routes.forget(topic)
                clock.pause_ms(_PAUSE_MS)

    def _may_pass(self, topic: str, error: RmqOrderedError) -> bool:
        """Whether an error may go away: a topic that is known to have been there may come back."""
        if error.retryable:
            return True
        is_away = isinstance(error, TopicNotFound | QueueLayoutChanged) or (
            isinstance(error, BrokerError) and error.code == ResponseCode.NO_PERMISSION
        )
        try:
            return is_away and topic in _all_queues(self._client.kv.list(self._namespace))
        except RmqOrderedError:
            return is_away

    # Floors

    def _floors(
        self,
        topic: str,
        queues: tuple[MessageQueue, ...],
        attempt: WriteAttempt,
        records: Mapping[str, str],
    ) -> dict[MessageQueue, int] | None:
        """From where on rows of earlier attempts may lie; None when there was no earlier attempt.

        Fresh is only what can be proven to be: the first attempt of a task in the batch after the
        one that the same run committed, or in the first batch when no other run ever began.
        """
        bases = _bases(records, topic)
        batch, run = attempt.stream.batch, attempt.run
        if not bases and batch > 0 and not records:
            return self._beginnings(topic, queues)
        if not bases:
            bases = [self._record_base(topic, queues, attempt)]
        is_own = run is not None and all(base.run == run for base in bases)
        is_next = run is not None and _done(records) == (run, batch - 1)
        if attempt.is_first and ((batch == 0 and is_own) or is_next):
            return None
        committed = self._client.broker.committed_offsets(self.group, queues)
        floors: dict[MessageQueue, int] = {}
        for queue in queues:
            moved = committed[queue]
            known = [base.floors[queue] for base in bases if queue in base.floors]
            floors[queue] = moved if moved is not None else min(known, default=0)
        return floors

    def _beginnings(self, topic: str, queues: tuple[MessageQueue, ...]) -> dict[MessageQueue, int]:
        """The ledger is gone, and something may have been written before: read everything."""
        _LOG.warning(
            "the records of sink=%s are gone from the name servers; topic=%s is read back from its "
            "beginning",
            self._sink,
            topic,
        )
        spans = self._client.broker.topic_stats(topic)
        return {queue: spans[queue].minimum if queue in spans else 0 for queue in queues}

    def _record_base(
        self, topic: str, queues: tuple[MessageQueue, ...], attempt: WriteAttempt
    ) -> _Base:
        spans = self._client.broker.topic_stats(topic)
        floors = {queue: spans[queue].maximum if queue in spans else 0 for queue in queues}
        value = {
            "run": attempt.run,
            "floors": [[q.broker_name, q.queue_id, floor] for q, floor in floors.items()],
        }
        key = f"{_FLOORS}{topic}@{attempt.stream.partition}"
        self._client.kv.put(self._namespace, key, json.dumps(value))
        return _Base(attempt.run, floors)

    def _next_floors(self, receipts: list[QueueReceipt]) -> dict[MessageQueue, int]:
        """Where the batch began in each queue; where it wrote nothing, the end of the queue."""
        written: dict[MessageQueue, list[int | None]] = {}
        for receipt in receipts:
            if receipt.count + receipt.duplicates:
                written.setdefault(receipt.queue, []).append(receipt.first_offset)
        floors: dict[MessageQueue, int] = {}
        for topic, queues in _all_queues(self._client.kv.list(self._namespace)).items():
            spans = self._client.broker.topic_stats(topic)
            for queue in queues:
                firsts = written.get(queue)
                if firsts is None and queue in spans:
                    floors[queue] = spans[queue].maximum
                elif firsts and all(first is not None for first in firsts):
                    floors[queue] = min(first for first in firsts if first is not None)
        return floors

    def _commit_floors(self, floors: Mapping[MessageQueue, int]) -> None:
        try:
            self._client.broker.commit_offsets(self.group, floors)
        except BrokerError:
            # The group is not known yet: a member makes it known, and leaves.
            topics = sorted({queue.topic for queue in floors})
            client_id = fresh_client_id("sink")
            self._client.broker.heartbeat(client_id, self.group, topics)
            self._client.broker.leave_group(client_id, self.group, topics)
            self._client.broker.commit_offsets(self.group, floors)


def _queues_of(
    records: Mapping[str, str], topic: str, batch: int
) -> tuple[MessageQueue, ...] | None:
    """What keys of a batch are given to, if that was recorded."""
    layouts = _layouts(records).get(topic, {})
    return layouts[max(since)] if (since := [s for s in layouts if s <= batch]) else None


def _all_queues(records: Mapping[str, str]) -> dict[str, set[MessageQueue]]:
    """Every queue that keys were ever given to, by topic."""
    layouts = _layouts(records).items()
    return {topic: {q for queues in each.values() for q in queues} for topic, each in layouts}


def _layouts(records: Mapping[str, str]) -> dict[str, dict[int, tuple[MessageQueue, ...]]]:
    """By topic, and by the batch from which on they count."""
    found: dict[str, dict[int, tuple[MessageQueue, ...]]] = {}
    for key, text in records.items():
        if key.startswith(_QUEUES):
            topic, _, since = key.removeprefix(_QUEUES).partition("@")
            queues = (MessageQueue(topic, name, int(number)) for name, number in json.loads(text))
            found.setdefault(topic, {})[int(since or 0)] = tuple(queues)
    return found


def _bases(records: Mapping[str, str], topic: str) -> list[_Base]:
    found: list[_Base] = []
    for key, text in records.items():
        if key.startswith(f"{_FLOORS}{topic}@"):
            value = json.loads(text)
            floors = {
                MessageQueue(topic, name, int(queue_id)): int(floor)
                for name, queue_id, floor in value["floors"]
            }
            found.append(_Base(value["run"], floors))
    return found


def _done(records: Mapping[str, str]) -> tuple[str | None, int] | None:
    if _DONE not in records:
        return None
    value = json.loads(records[_DONE])
    return value["run"], int(value["batch"])
