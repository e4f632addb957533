"""Listeners for the driver: how far queries are behind, and offsets committed without delay.

    spark.streams.addListener(LagListener())
    spark.streams.addListener(OffsetCommitListener({"nameServer": ..., "group": ..., ...}))

They see the progress of every query of the session and care for sources of this package only.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import BrokerError, OptionError, RmqOrderedError
from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.options import SourceOptions
from rmq_ordered.ordering.lag import LagTracker, QueueLag
from rmq_ordered.ordering.offsets import Positions, SourceOffset, decode_offset
from rmq_ordered.ordering.popped import PoppedOffset, decode_popped, is_popped
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.popping.notes import FinishedNotes

_LOG: Final = logging.getLogger("rmq_ordered.lag")
# A line of the log names the queues that are furthest behind.
_NAMED_QUEUES: Final = 5


class _SourceListener(StreamingQueryListener):
    """Does nothing with events that say nothing about queues."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing was read yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing new was there."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing more will be read."""


class LagListener(_SourceListener):
    """Logs unread messages and their age, and warns of queues that stand still.

    About the queues that the query can read now: those that other members of its group read, or
    whose broker is away, are only counted. Looks are taken when a batch has finished; a query that
    runs no batch is not warned of, because Spark then tells nothing of its queues.

    Args:
        stalled_after_s: after how long a queue with unread messages that does not move is warned
            of.
        now_ms: time; tests pass their own.
    """

    def __init__(
        self,
        stalled_after_s: float = 60.0,
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._stalled_after_ms = round(stalled_after_s * 1000)
        self._now_ms = now_ms
        self._trackers: dict[tuple[str, int], LagTracker] = {}
        self._lags: dict[tuple[str, int], list[QueueLag]] = {}

    def lags(self, query_id: str) -> list[QueueLag]:
        """The queues of a query as of its last progress."""
        known = [lags for (query, _), lags in self._lags.items() if query == query_id]
        return [lag for lags in known for lag in lags]

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Compare where the query stands with where its queues end."""
        query_id = str(event.progress.id)
        for index, end, latest in _our_sources(event):
            tracker = self._trackers.setdefault(
                (query_id, index), LagTracker(self._stalled_after_ms)
            )
            lags = tracker.observe(end.positions, latest.positions, self._now_ms())
            self._lags[query_id, index] = lags
            untold = len(end.positions) - len(lags)
            _log_lags(event.progress.name or query_id, lags, untold, end.skipped)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query."""
        query_id = str(event.id)
        for table in (self._trackers, self._lags):
            for key in [key for key in table if key[0] == query_id]:
                del table[key]


class OffsetCommitListener(_SourceListener):
    """Commits the group's offsets when a batch has finished, not when the next one is planned.

    For queries with long triggers. Takes the options of the source. A commit that fails is logged:
    the source itself commits again with its next trigger. With ``consumeMode=pop`` the source is
    told, by a note in the name servers, and acknowledges the batch within 20 s (a third of
    ``invisibleTime`` if that is shorter), or when it is stopped.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = SourceOptions.parse(options, streaming=True)
        if self._options.group is None:
            raise OptionError("group", None, "a consumer group, whose offsets are committed")
        self._group = self._options.group
        self._client: Client | None = None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit the end of the batch."""
        if self._options.popping is not None:
            self._tell(event)
            return
        for _, end, _ in _our_sources(event):
            wanted = self._wanted(end.positions)
            try:
                self._commit(wanted)
            except RmqOrderedError as error:
                _LOG.warning("offsets of group=%s were not committed: %s", self._group, error)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _wanted(self, positions: Positions) -> Positions:
        topics = self._options.selection.topics
        return {q: p for q, p in positions.items() if not topics or q.topic in topics}

    def _tell(self, event: QueryProgressEvent) -> None:
        """Tell the processes that popped for this group that their batches are finished."""
        for source in event.progress.sources:
            end = _popped(source.endOffset)
            if end is None or end.group != self._group or not end.run:
                continue
            try:
                FinishedNotes(self._open().kv, self._group).tell(end.run, end.batch)
            except RmqOrderedError as error:
                _LOG.warning("a finished batch of group=%s was not told: %s", self._group, error)

    def _open(self) -> Client:
        if self._client is None:
            self._client = open_client(self._options.connection)
        return self._client

    def _commit(self, positions: Positions) -> None:
        broker = self._open().broker
        committed = broker.committed_offsets(self._group, sorted(positions))
        ahead = {q: p for q, p in positions.items() if p > (committed[q] or 0)}
        broker.commit_offsets(self._group, ahead, leases=self._leases(self._open()))

    def _leases(self, client: Client) -> dict[MessageQueue, QueueLease]:
        """The source's own leases: under their epochs the broker lets no offset go back."""
        try:
            rows, _ = client.broker.leases(group=self._group)
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return {}
        return {
            row.queue: QueueLease(row.group, row.queue, row.client_id, row.epoch)
            for row in rows
            if row.is_live
        }


def _our_sources(event: QueryProgressEvent) -> Iterator[tuple[int, SourceOffset, SourceOffset]]:
    """Index, end and latest offset of the sources that are of this package."""
    for index, source in enumerate(event.progress.sources):
        end, latest = _offset(source.endOffset), _offset(source.latestOffset)
        if end is not None:
            yield index, end, latest or end


def _offset(text: str | None) -> SourceOffset | None:
    try:
        loaded: Any = json.loads(text or "null")
        is_ours = isinstance(loaded, dict) and {"topics", "version"} <= loaded.keys()
        return decode_offset(loaded) if is_ours else None
    except (ValueError, OptionError):
        return None


def _popped(text: str | None) -> PoppedOffset | None:
    try:
        loaded: Any = json.loads(text or "null")
        return decode_popped(loaded) if isinstance(loaded, dict) and is_popped(loaded) else None
    except (ValueError, OptionError):
        return None


def _log_lags(query: str, lags: list[QueueLag], untold: int, skipped: int) -> None:
    behind = sorted((lag for lag in lags if lag.unread), key=lambda lag: (-lag.unread, lag.queue))
    named = ", ".join(f"{lag.queue}={lag.unread}" for lag in behind[:_NAMED_QUEUES])
    _LOG.info(
        "query=%s unread=%s oldest_unread_ms=%s skipped=%s queues_behind=%s queues_not_read=%s "
        "furthest=[%s]",
        query,
        sum(lag.unread for lag in lags),
        max((lag.oldest_unread_ms for lag in lags), default=0),
        skipped,
        len(behind),
        untold,
        named,
    )
    for lag in behind:
        if lag.is_stalled:
            _LOG.warning(
                "query=%s queue=%s is stalled at position=%s with unread=%s for_ms=%s",
                query,
                lag.queue,
                lag.position,
                lag.unread,
                lag.oldest_unread_ms,
            )
