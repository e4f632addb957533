"""The streaming source as Spark calls it: thin, because the process boundaries make it delicate.

One instance lives in a dedicated driver process for the whole run (offsets, planning, leases). A
second, pickled copy runs ``read`` on executors and never sees the first one's state.
``initialOffset`` is asked twice, recovery starts with ``partitions``, and stopping is mostly a
SIGTERM: see ``signals``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rmq_ordered.errors import OptionError
from rmq_ordered.options import SourceOptions, StartPosition
from rmq_ordered.ordering.offsets import Positions, decode_positions, encode_positions
from rmq_ordered.ordering.planner import plan_end
from rmq_ordered.spark.executor import read_partition
from rmq_ordered.spark.ownership import SourceRun, ensure_in_range
from rmq_ordered.spark.partition import QueuePartition
from rmq_ordered.spark.signals import exit_on_sigterm, ignore_sigterm


class OrderedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query that owns its queues. State is made on first use and never pickled."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._run: SourceRun | None = None
        self._initial: Positions | None = None
        self._has_planned = False
        self._available_now: Positions | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"])  # type: ignore[misc]

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much a batch may read when the trigger does not say."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember where the queues end now; nothing beyond is read in this run."""
        run = self._open()
        self._available_now = {queue: span.maximum for queue, span in run.spans().items()}

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins. Spark asks twice and must hear the same."""
        if self._initial is None:
            run = self._open()
            run.own(run.spans())
            # Owned first, looked up second: the previous owner may have committed until the hand-
            # over.
            self._initial = run.starting_positions(run.spans())
        return encode_positions(self._initial)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """How far the next batch goes; ``start`` is the end of the last finished one: commit it."""
        positions = decode_positions(start) if start is not None else {}
        run = self._open()
        spans = run.spans()
        run.own({**spans, **positions})
        ensure_in_range(positions, spans)
        run.commit(positions)
        self._has_planned = True
        latest = {queue: span.maximum for queue, span in spans.items() if queue in positions}
        if self._available_now is not None:
            latest = {q: min(end, self._available_now.get(q, 0)) for q, end in latest.items()}
        end = plan_end(
            positions, latest, limit.max_rows if isinstance(limit, ReadMaxRows) else None
        )
        # A queue that joins is recorded first and read from the next batch on, so that a replay
        # knows where it began.
        end |= run.joining_positions(positions, spans)
        return start if start is not None and end == positions else encode_positions(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[QueuePartition]:
        """One partition per queue. After a restart this may be the very first call."""
        first, last = decode_positions(start), decode_positions(end)
        self._ensure_repeatable()
        run = self._open()
        run.own(last)
        return run.partitions(first, last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs on an executor, on a copy without state."""
        return read_partition(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: ``latestOffset`` learns of finished batches earlier, the last one included."""

    def stop(self) -> None:
        """Release the leases. May be cut off at any time unless SIGTERM is ignored first."""
        ignore_sigterm()
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _ensure_repeatable(self) -> None:
        """Refuse to repeat a first batch whose beginning was "now" and is recorded nowhere.

        Spark logs only where a batch ends. After a crash in the very first one it asks again where
        the query begins, and "latest" would be a later place: rows in between would be lost.
        """
        starts_now = StartPosition.LATEST in (
            self._options.starting_offsets,
            self._options.starting_offsets_fallback,
        )
        if self._initial is not None and not self._has_planned and starts_now:
            raise OptionError(
                "startingOffsets",
                "latest",
                "a finished first batch: the query ended within it, and where it began is not "
                "recorded; delete the checkpoint and start again",
            )

    def _open(self) -> SourceRun:
        if self._run is None:
            exit_on_sigterm()
            self._run = SourceRun(self._options)
        return self._run
