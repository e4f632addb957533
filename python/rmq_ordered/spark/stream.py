"""The streaming source as Spark calls it: thin, because the process boundaries make it delicate.

One instance lives in a dedicated driver process for the whole run (offsets, planning, leases). A
second, pickled copy runs ``read`` on executors and never sees the first one's state.
``initialOffset`` is asked twice, recovery starts with ``partitions``, and stopping is mostly a
SIGTERM: see ``signals``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.options import LeaseMode, SourceOptions
from rmq_ordered.ordering.offsets import (
    Positions,
    SourceOffset,
    batch_ranges,
    decode_offset,
    encode_offset,
)
from rmq_ordered.ordering.report import SourceReport, encode_report
from rmq_ordered.spark.admission import Admitter, default_limit
from rmq_ordered.spark.executor import read_partition
from rmq_ordered.spark.ownership import SourceRun, Standing
from rmq_ordered.spark.partition import QueuePartition
from rmq_ordered.spark.resume import (
    ensure_repeatable,
    ensure_same_subscription,
    find_made_anew,
    mend,
)
from rmq_ordered.spark.shared import SharedRun
from rmq_ordered.spark.signals import exit_on_sigterm, ignore_sigterm


class OrderedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query that owns its queues. State is made on first use and never pickled."""

    def __init__(self, options: SourceOptions, schema: StructType | None = None) -> None:
        self._options = options
        self._schema = schema
        self._run: SourceRun | None = None
        self._admitter: Admitter | None = None
        self._initial: SourceOffset | None = None
        self._has_planned = False
        self._is_checked = False
        self._made_anew: frozenset[MessageQueue] = frozenset()
        self._available_now: Positions | None = None
        self._latest: SourceReport | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_schema"])  # type: ignore[misc]

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much a batch may read when the trigger does not say."""
        return default_limit(self._options.admission)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember where the queues end now; nothing beyond is read in this run."""
        self._available_now = _ends(self._open().spans())

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins. Spark asks twice and must hear the same."""
        if self._initial is None:
            run = self._open()
            spans, positions = run.begin()
            stored_until_ms, skipped = _stored_until(spans, 0), run.losses.skipped
            self._initial = SourceOffset(positions, positions, stored_until_ms, skipped)
            self._is_checked = True
        return encode_offset(self._initial)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """How far the next batch goes; ``start`` is the end of the last finished one: commit it."""
        run = self._open()
        given = decode_offset(start) if start is not None else SourceOffset({})
        spans = run.spans()
        skipped_before = run.losses.skipped
        standing = run.hold(self._check(run, given, spans), spans, self._made_anew)
        self._latest = run.report(_ends(standing.spans))
        self._made_anew = frozenset()
        self._has_planned = True
        end = self._plan(standing, limit)
        if start is not None and end == given.positions and not standing.jumped:
            return start
        # Where a query begins is in no log of Spark's, and looked up again it may be another place:
        # the first batch records it.
        begins = standing.positions if given == self._initial else standing.jumped
        skipped = given.skipped + run.losses.skipped - skipped_before
        stored_until_ms = _stored_until(spans, given.stored_until_ms)
        return encode_offset(SourceOffset(end, begins, stored_until_ms, skipped))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the queues that this query reads ended at the last look, and its leases."""
        return None if self._latest is None else encode_report(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[QueuePartition]:
        """One partition per queue. After a restart this may be the very first call."""
        run = self._open()
        first, last = decode_offset(start), decode_offset(end)
        if not self._has_planned:
            self._recover(run, first, last)
        return run.partitions(batch_ranges(first, last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs on an executor, on a copy without state."""
        return read_partition(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: ``latestOffset`` learns of finished batches earlier, the last one included."""

    def stop(self) -> None:
        """Release the leases. May be cut off at any time unless SIGTERM is ignored first."""
        ignore_sigterm()
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _check(
        self, run: SourceRun, offset: SourceOffset, spans: Mapping[MessageQueue, OffsetSpan]
    ) -> SourceOffset:
        """Is the checkpoint of this subscription, and, once per run, are the queues the same?"""
        standing = ensure_same_subscription(offset, run.subscription, run.losses)
        if not self._is_checked:
            self._made_anew = find_made_anew(run.client, standing, spans)
            self._is_checked = True
        return standing

    def _recover(self, run: SourceRun, start: SourceOffset, end: SourceOffset) -> None:
        """See that a batch that another run planned and did not finish can be read again."""
        spans = run.spans()
        standing = self._check(run, start, spans)
        run.hold_for_replay(queue for queue in end.positions if queue in spans)
        ranges = batch_ranges(start, end)
        ensure_repeatable(run.client, ranges, spans)
        if run.losses.fails:
            begins = {queue: begin for queue, (begin, _) in ranges.items()}
            mend(replace(standing, positions=begins), spans, self._made_anew, run.losses)

    def _plan(self, standing: Standing, limit: ReadLimit | None) -> Positions:
        latest = _ends(standing.spans)
        if self._available_now is not None:
            target = self._available_now
            latest = {queue: min(end, target.get(queue, 0)) for queue, end in latest.items()}
        if self._admitter is None:
            run = self._open()
            self._admitter = Admitter(run.client, run.group, self._options.admission)
        is_bounded = self._available_now is not None
        return self._admitter.plan(standing.positions, latest, limit, may_wait=not is_bounded)

    def _open(self) -> SourceRun:
        if self._run is None:
            exit_on_sigterm()
            is_shared = self._options.lease_mode is LeaseMode.SHARED
            self._run = (SharedRun if is_shared else SourceRun)(self._options)
        return self._run


def _ends(spans: Mapping[MessageQueue, OffsetSpan]) -> Positions:
    return {queue: span.maximum for queue, span in spans.items()}


def _stored_until(spans: Mapping[MessageQueue, OffsetSpan], before_ms: int) -> int:
    """The newest store time of all; 0 (unknown) when a queue with messages does not tell."""
    if any(span.maximum > span.minimum and span.last_stored_ms <= 0 for span in spans.values()):
        return 0
    return max([before_ms, *(span.last_stored_ms for span in spans.values())])
