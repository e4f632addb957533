"""Listeners for the driver: how far queries are behind, and offsets committed without delay.

    spark.streams.addListener(LagListener())
    spark.streams.addListener(OffsetCommitListener({"nameServer": ..., "group": ..., ...}))

They see the progress of every query of the session and care for sources of this package only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OptionError, RmqOrderedError
from rmq_ordered.options import SourceOptions
from rmq_ordered.ordering.lag import LagTracker, QueueLag
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.popping.notes import FinishedNotes
from rmq_ordered.spark.progress import SourceProgress, our_sources, popped_ends

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
        for source in our_sources(event):
            key, end = (query_id, source.index), source.end
            tracker = self._trackers.setdefault(key, LagTracker(self._stalled_after_ms))
            lags = tracker.observe(end.positions, source.report.ends, self._now_ms())
            self._lags[key] = lags
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

    For queries with long triggers. Takes the options of the source; queries of other groups, and
    those that own nothing, are left alone. It commits under the leases of the run whose batch it
    was. Where the broker has no epochs to check, it commits only what goes on from where the group
    stands. What it does not commit is logged: the source itself commits with its next trigger. With
    ``consumeMode=pop`` the source is told, by a note in the name servers, and acknowledges the
    batch within 20 s (a third of ``invisibleTime`` if that is shorter), or when it is stopped.
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
        for progress in our_sources(event):
            if progress.report.group != self._group:
                continue
            try:
                self._commit(progress)
            except RmqOrderedError as error:
                _LOG.warning("offsets of group=%s were not committed: %s", self._group, error)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _tell(self, event: QueryProgressEvent) -> None:
        """Tell the processes that popped for this group that their batches are finished."""
        for end in popped_ends(event):
            if end.group != self._group or not end.run:
                continue
            try:
                FinishedNotes(self._open().kv, self._group).tell(end.run, end.batch)
            except RmqOrderedError as error:
                _LOG.warning("a finished batch of group=%s was not told: %s", self._group, error)

    def _open(self) -> Client:
        if self._client is None:
            self._client = open_client(self._options.connection)
        return self._client

    def _commit(self, progress: SourceProgress) -> None:
        """Commit what the batch has read, each queue under the lease that it was read under."""
        broker, leases = self._open().broker, progress.report.leases
        read = {q: span for q, span in progress.ranges.items() if q in leases}
        found = broker.committed_offsets(self._group, sorted(read))
        ahead = {q: end for q, (_, end) in read.items() if end > (found[q] or 0)}
        strange = [q for q in sorted(ahead) if leases[q].epoch is None and found[q] != read[q][0]]
        if strange:
            _LOG.warning(
                "not committed count=%s group=%s: it stands at %s of queue=%s, and this batch "
                "began at %s",
                len(strange),
                self._group,
                found[strange[0]],
                strange[0],
                read[strange[0]][0],
            )
        certain = {queue: end for queue, end in ahead.items() if queue not in strange}
        broker.commit_offsets(self._group, certain, leases=leases)


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
