"""Rows of Arrow batches to the queues of a topic: columns in, batch bodies out, memory bounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.client.connection import Client
from rmq_ordered.client.lanes import OpenSends, run_lanes
from rmq_ordered.client.pieces import Piece
from rmq_ordered.client.send_settings import SendSettings
from rmq_ordered.client.sending import Lane
from rmq_ordered.columnar.digest import running_digests
from rmq_ordered.columnar.outgoing import OutgoingRows, column, rows_from_columns
from rmq_ordered.columnar.records import RECORD_HEAD_BYTES, UNIQUE_KEY_BYTES
from rmq_ordered.columnar.routing import consistent_indexes, group_rows, hash_indexes
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import MessageQueue, QueueReceipt, Selector, SendStream
from rmq_ordered.ordering.batching import cut_batches
from rmq_ordered.ordering.stream import Recovery
from rmq_ordered.protocol.codes import FEATURE_FENCED_WRITE, FEATURE_STAMPED_REQUEST
from rmq_ordered.protocol.compression import COMPRESSION_FLAGS

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Integers

# Rows are gathered up to a quarter of the buffer before they are routed: small batches of many
# queues would become very small requests.
_GATHERED_PART: Final = 4


class OrderedWriter:
    """Writes rows in their order, each queue on its own, many queues at once.

    Made by ``OrderedProducer.writer``. Not thread-safe. Leaving the ``with`` block without
    ``finish`` gives up what has not been sent; what landed is a prefix of each queue's rows. So
    does an error of the network or a broker: then nothing more can be written.

    A stream that is written again adds only what is missing:

    >>> from rmq_ordered.client import OrderedProducer
    >>> rows = pa.RecordBatch.from_pydict({"key": ["a", "a"], "value": [b"opened", b"closed"]})
    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("ledger", 1)
    ...     producer = OrderedProducer(client, "ledger")
    ...     for attempt in ("first", "second"):
    ...         with producer.writer(SendStream("nightly", batch=7, partition=0)) as writer:
    ...             writer.write(rows)
    ...             receipts = writer.finish()
    ...     client.broker.max_offset(producer.queues[0])
    2
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[MessageQueue],
        settings: SendSettings,
        stream: SendStream,
        *,
        is_stamped: bool,
        floors: Mapping[MessageQueue, int] | None = None,
        open_sends: OpenSends | None = None,
    ) -> None:
        self._client = client
        self._queues = tuple(queues)
        self._settings = settings
        self._stream = stream
        self._is_stamped = is_stamped
        self._floors = dict(floors or {})
        self._open_sends = open_sends or OpenSends()
        self._lanes: dict[MessageQueue, Lane] = {}
        self._counts: dict[MessageQueue, int] = {}
        self._digests: dict[MessageQueue, int] = {}
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._turn = 0
        self._is_over = False
        self._recovery: Recovery | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abandon()

    # Rows

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows to be sent after all others; blocks while the buffer is full.

        Args:
            rows: ``value`` (binary or string), and optionally ``key``, ``tags``, ``index_keys``
                (strings) and ``properties`` (map); with ``selector=queue`` also ``queue`` (a queue
                id) and, where the topic lives on several brokers, ``broker``. Null means absent.

        Raises:
            LocalProtocolError: a row cannot be sent; the sentence has its key.
            RmqOrderedError: rows could not be sent.
        """
        self._ensure_not_over()
        if rows.num_rows == 0:
            return
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        if self._gathered_bytes * _GATHERED_PART >= self._settings.buffer_bytes:
            self._route_gathered()

    def write_rows(self, queue: MessageQueue, rows: OutgoingRows) -> None:
        """Take rows of one queue."""
        self._ensure_not_over()
        lane = self._lane(queue)
        first = self._counts[queue]
        digests = None
        if self._is_stamped:
            digests = running_digests(rows.hashes(), first, self._digests[queue])
            self._digests[queue] = int(digests[-1]) if len(rows) else self._digests[queue]
            digests = lane.identity.told(digests)
        sizes = rows.content_bytes + (RECORD_HEAD_BYTES + UNIQUE_KEY_BYTES)
        most_bytes = self._settings.batch_bytes - lane.identity.stamp_bytes
        for start, end in cut_batches(sizes, most_bytes, self._settings.batch_rows):
            part = rows.slice(start, end)
            part_digests = None if digests is None else digests[start:end]
            lane.add(Piece(part, first + start, part_digests, self._sys_flag(part)))
        self._counts[queue] = first + len(rows)

    def flush(self) -> None:
        """Send everything that was written, and wait until it is acknowledged."""
        self._ensure_not_over()
        self._route_gathered()
        lanes = list(self._lanes.values())
        self._run(lanes, lambda: all(lane.is_done for lane in lanes))

    def finish(self) -> dict[MessageQueue, QueueReceipt]:
        """Send the rest, and say what became of the rows of each queue.

        Raises:
            ReplayDiverged: an earlier attempt wrote other rows, or more of them.
            RmqOrderedError: rows could not be sent.
        """
        self.flush()
        for queue, lane in self._lanes.items():
            lane.finish(self._counts[queue])
        self.flush()
        return {queue: lane.tally.receipt for queue, lane in self._lanes.items()}

    def abandon(self) -> None:
        """Give up what has not been sent, and stop waiting for answers.

        What was sent and not answered is settled before this producer sends to the queue again.
        """
        self._is_over = True
        self._gathered.clear()
        self._open_sends.keep(self._lanes.values())

    def _ensure_not_over(self) -> None:
        """Rows were dropped: to go on with others would leave them out silently."""
        if self._is_over:
            raise LocalProtocolError(
                f"the writer of {self._stream} has failed or was left, and has given up its rows: "
                "open a new one and write them again"
            )

    # For the producer

    def lane(self, queue: MessageQueue) -> Lane:
        """The sends of one queue."""
        return self._lane(queue)

    # Routing

    def _route_gathered(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if not gathered:
            return
        table = pa.Table.from_batches(gathered).combine_chunks()
        for whole in table.to_batches():
            for part in _bounded(whole, self._settings.buffer_bytes):
                self._route(part)
                self._make_room()

    def _route(self, rows: pa.RecordBatch) -> None:
        indexes = self._indexes(rows)
        order, bounds = group_rows(indexes, len(self._queues))
        outgoing = rows_from_columns(rows.take(pa.array(order)))
        for index in np.flatnonzero(np.diff(bounds)).tolist():
            part = outgoing.slice(int(bounds[index]), int(bounds[index + 1]))
            self.write_rows(self._queues[index], part)

    def _indexes(self, rows: pa.RecordBatch) -> Integers:
        match self._settings.selector:
            case Selector.HASH:
                return hash_indexes(_all_keys(rows), len(self._queues))
            case Selector.CONSISTENT:
                return consistent_indexes(_all_keys(rows), len(self._queues))
            case Selector.QUEUE:
                return _named_queues(rows, self._queues)
            case Selector.ROUND_ROBIN:
                return self._turns(rows)

    def _turns(self, rows: pa.RecordBatch) -> Integers:
        keys = column(rows, "key")
        if keys is not None and keys.null_count < len(keys):
            raise LocalProtocolError(
                "selector=roundrobin is for rows without keys: it would spread the rows of key "
                f"{keys.drop_null()[0].as_py()!r} over all queues, without any order"
            )
        turns: Integers = np.arange(self._turn, self._turn + rows.num_rows) % len(self._queues)
        self._turn += rows.num_rows
        return turns

    def _sys_flag(self, rows: OutgoingRows) -> int:
        """A batch is compressed as a whole: when most of its bytes are in large bodies."""
        sizes = rows.body_bytes
        large = int(sizes[sizes >= self._settings.compress_over_bytes].sum())
        flags = COMPRESSION_FLAGS[self._settings.compression]
        return flags if 2 * large > int(sizes.sum()) else 0

    # Sending

    def _make_room(self) -> None:
        lanes = list(self._lanes.values())
        limit = self._settings.buffer_bytes
        self._run(lanes, lambda: sum(lane.waiting_bytes for lane in lanes) <= limit)

    def _run(self, lanes: Sequence[Lane], is_enough: Callable[[], bool]) -> None:
        try:
            for lane in lanes:
                lane.settle()
                lane.advance()
            run_lanes(self._client, lanes, is_enough)
        except BaseException:
            self.abandon()
            raise

    def _lane(self, queue: MessageQueue) -> Lane:
        if queue not in self._lanes:
            self._lanes[queue] = Lane(
                self._client,
                queue,
                self._stream,
                self._how_to_recover(queue.topic),
                self._settings_for(queue.topic),
                is_stamped=self._is_stamped,
                floor=self._floors.get(queue),
                before=self._open_sends.before(queue),
            )
            self._counts[queue] = self._digests[queue] = 0
        return self._lanes[queue]

    def _settings_for(self, topic: str) -> SendSettings:
        """A run is named only where the broker knows what that means."""
        is_fenced = FEATURE_FENCED_WRITE in self._client.routes.features(topic)
        return self._settings if is_fenced else replace(self._settings, run=None)

    def _how_to_recover(self, topic: str) -> Recovery:
        if self._recovery is None:
            features = self._client.routes.features(topic)
            if self._is_stamped and FEATURE_STAMPED_REQUEST in features:
                self._recovery = Recovery.BROKER
            elif self._settings.idempotent:
                self._recovery = Recovery.READ_BACK
            else:
                self._recovery = Recovery.REPEAT
        return self._recovery


def _bounded(rows: pa.RecordBatch, limit_bytes: int) -> list[pa.RecordBatch]:
    """The rows in slices of about a quarter of the limit at most, as far as rows are alike."""
    parts = max(1, -(-rows.nbytes * _GATHERED_PART // (2 * limit_bytes)))
    step = max(1, -(-rows.num_rows // parts))
    return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]


def _all_keys(rows: pa.RecordBatch) -> pa.Array:
    keys = column(rows, "key")
    if keys is None or keys.null_count:
        found = "no column 'key'" if keys is None else "a row without one"
        raise LocalProtocolError(
            f"expected a key in every row, because it decides the queue and the order, found "
            f"{found}; selector=roundrobin sends rows without keys"
        )
    return keys


def _named_queues(rows: pa.RecordBatch, queues: Sequence[MessageQueue]) -> Integers:
    index = rows.schema.get_field_index("queue")
    if index < 0:
        raise LocalProtocolError("selector=queue needs the column 'queue', found none")
    ids = rows.column(index).cast(pa.int64())
    brokers = column(rows, "broker")
    names = sorted({queue.broker_name for queue in queues})
    if brokers is None and len(names) > 1:
        raise LocalProtocolError(
            f"selector=queue needs the column 'broker' as well, because the topic lives on "
            f"{', '.join(names)}"
        )
    brokers = pa.array([names[0]] * len(ids)) if brokers is None else brokers
    chosen = pc.binary_join_element_wise(brokers, ids.cast(pa.string()), "#")
    known = pa.array([f"{queue.broker_name}#{queue.queue_id}" for queue in queues])
    found = pc.index_in(chosen, known)
    if found.null_count:
        row = found.is_null().index(True).as_py()
        keys = column(rows, "key")
        key = None if keys is None else keys[row].as_py()
        raise LocalProtocolError(
            f"the row with key {key!r:.200} names queue {ids[row].as_py()} of broker "
            f"{brokers[row].as_py()!r}, which is none of the {len(queues)} queues of the topic"
        )
    indexes: Integers = found.to_numpy().astype(np.int64)
    return indexes
