"""The popping source as Spark calls it: ``latestOffset`` pops, and acknowledges what is finished.

As with the other source, one instance lives in a dedicated driver process for the whole run and a
pickled copy runs ``read`` on executors. What a batch holds is only in its end offset; its start
says that everything before is finished.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rmq_ordered.errors import OptionError
from rmq_ordered.options import PopOptions, SourceOptions
from rmq_ordered.ordering.popped import PopBound, PoppedOffset, decode_popped, encode_popped
from rmq_ordered.spark.popping.executor import read_popped
from rmq_ordered.spark.popping.partition import PoppedPartition
from rmq_ordered.spark.popping.run import PopRun, Room
from rmq_ordered.spark.signals import exit_on_sigterm, ignore_sigterm

# Every message costs a handle in the driver, and a request whenever it is hidden anew.
_MOST_MESSAGES: Final = 10_000


class PoppingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query that shares its group's queues. State is made on first use and never pickled."""

    def __init__(
        self, options: SourceOptions, popping: PopOptions, schema: StructType | None = None
    ) -> None:
        self._options = options
        self._popping = popping
        self._schema = schema
        self._run: PopRun | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_popping": self._popping, "_schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_popping"], state["_schema"])  # type: ignore[misc]

    def getDefaultReadLimit(self) -> ReadLimit:
        """How many messages a batch may have; Spark hands it back with every trigger but Once."""
        return ReadMaxRows(self._options.admission.max_offsets or _MOST_MESSAGES)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is stored after this run's first pop does not prolong it."""
        self._open().bound = PopBound()

    def initialOffset(self) -> dict[str, Any]:
        """Before the first batch. Spark asks twice and hears the same: the broker knows where."""
        run = self._open()
        run.ensure_topics()
        return encode_popped(PoppedOffset(0, run.group))

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Acknowledge the batch that ``start`` ends, and pop the next one."""
        if isinstance(limit, ReadAllAvailable):
            raise OptionError(
                "trigger",
                "once",
                "availableNow or processingTime: after its only batch Once does not tell the "
                "source that it is finished, so that nothing could be acknowledged",
            )
        run = self._open()
        last = PoppedOffset(0, run.group) if start is None else decode_popped(start)
        run.finish(last)
        room = Room(self._most(limit), self._options.admission.max_bytes)
        popped = run.pop(last, room)
        if popped is None:
            return encode_popped(last) if start is None else start
        return encode_popped(popped)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[PoppedPartition]:
        """One partition per queue. After a restart this may be the very first call."""
        first, last = decode_popped(start), decode_popped(end)
        # Between an offset and itself lies nothing: Spark also runs batches without new data.
        return [] if first == last else self._open().partitions(last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs on an executor, on a copy without state."""
        return read_popped(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: ``latestOffset`` learns of finished batches earlier, the last one included."""

    def stop(self) -> None:
        """Let go of what is held. May be cut off at any time unless SIGTERM is ignored first."""
        ignore_sigterm()
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _most(self, limit: ReadLimit | None) -> int:
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows
        return self._options.admission.max_offsets or _MOST_MESSAGES

    def _open(self) -> PopRun:
        if self._run is None:
            exit_on_sigterm()
            self._run = PopRun(self._options, self._popping)
        return self._run
