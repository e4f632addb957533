"""Calling a streaming reader as Spark does: helpers, and an engine with a log that survives it."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import decode_offset
from rmq_ordered.spark.partition import QueuePartition
from rmq_ordered.spark.stream import OrderedStreamReader

NewReader = Callable[..., OrderedStreamReader]
Offset = dict[str, Any]
Row = dict[str, Any]
ALL = ReadAllAvailable()


def positions(source_offset: Offset, topic: str) -> dict[str, Any]:
    """The queues of a topic on its only broker."""
    (queues,) = source_offset["topics"][topic].values()
    return queues


def ends(source_offset: Offset, topic: str) -> dict[str, int]:
    """Where a batch ends in the queues of a topic on its only broker, wherever it began."""
    return {
        queue_id: value[1] if isinstance(value, list) else value
        for queue_id, value in positions(source_offset, topic).items()
    }


def ranges(partitions: list[QueuePartition]) -> list[tuple[int, int, int]]:
    """Queue id, start and end of every partition."""
    found = [partition.plan.range for partition in partitions]
    return [(one.queue.queue_id, one.start, one.end) for one in found]


def again(source_offset: Offset) -> Offset:
    """The offset after its way through Spark's log."""
    return json.loads(json.dumps(source_offset))


def read_all(reader: OrderedStreamReader, partitions: list[QueuePartition]) -> list[Row]:
    """The rows of all partitions, one after another."""
    return [
        row
        for partition in partitions
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


class Killed(Exception):
    """The engine was told to die here."""


@dataclass
class Engine:
    """Runs micro-batches as Spark's engine does, with an offset log and a commit log.

    A run is one reader; the logs outlive it. ``die_at`` names the phase at whose end a run is
    killed: planned (before the log), logged, read. Before every read, what is ``committed`` for a
    group must not be ahead of the last finished batch.
    """

    new_reader: NewReader
    options: dict[str, str | None] = field(default_factory=dict)
    limit: ReadLimit = field(default_factory=ReadAllAvailable)
    ends: list[Offset] = field(default_factory=list)
    committed: Mapping[tuple[str, MessageQueue], int] | None = None
    finished: int = 0
    attempts: dict[int, list[list[Row]]] = field(default_factory=lambda: defaultdict(list))

    def run(self, die_at: str | None = None) -> None:
        """Run until nothing is left to read, or until it dies; the reader is stopped."""
        reader = self.new_reader(**self.options)
        try:
            self._run(reader, die_at)
        except Killed:
            pass
        finally:
            reader.stop()

    @property
    def rows(self) -> list[Row]:
        """The rows of the last attempt of every finished batch."""
        return [row for number in range(self.finished) for row in self.attempts[number][-1]]

    def _run(self, reader: OrderedStreamReader, die_at: str | None) -> None:
        if len(self.ends) > self.finished:
            self._execute(reader, die_at)
        while True:
            start = self._start(reader)
            end = again(reader.latestOffset(start, self.limit))
            # The very first offsets are logged even if there is nothing to read.
            if self.ends and json.dumps(end) == json.dumps(start):
                return
            self._die("planned", die_at)
            self.ends.append(end)
            self._die("logged", die_at)
            self._execute(reader, die_at)

    def _execute(self, reader: OrderedStreamReader, die_at: str | None) -> None:
        start = self._start(reader)
        planned = reader.partitions(start, again(self.ends[self.finished]))
        rows: list[Row] = []
        for partition in planned:
            self._ensure_not_ahead(start, planned)
            rows += read_all(reader, [partition])
        self.attempts[self.finished].append(rows)
        self._die("read", die_at)
        self.finished += 1

    def _ensure_not_ahead(self, start: Offset, planned: list[QueuePartition]) -> None:
        """Whatever is committed is before the batch that is being read."""
        if self.committed is None:
            return
        finished = dict(decode_offset(start).positions)
        finished |= {one.plan.range.queue: one.plan.range.start for one in planned}
        for (group, queue), position in self.committed.items():
            assert position <= finished.get(queue, 0), f"{group} stands at {position} of {queue}"

    def _start(self, reader: OrderedStreamReader) -> Offset:
        if self.finished:
            return again(self.ends[self.finished - 1])
        return again(reader.initialOffset())

    def _die(self, phase: str, die_at: str | None) -> None:
        if phase == die_at:
            raise Killed(phase)
