"""Streams as scripts: a list of actions and checks, played against one checkpoint.

    Script(source, client, topic, checkpoint).play(
        AddMessages(keys=10, sequences=range(5)),
        Start(),
        CheckQueues(),
        Stop(),
        AddMessages(keys=10, sequences=range(5, 9)),
        RestartFromCheckpoint(maxOffsetsPerTrigger=7),
        CheckQueues(),
        KillSourceInBatch(),
        AddMessages(keys=10, sequences=range(9, 11)),
        ExpectFailure(KILLED_IN_BATCH),
        RestartFromCheckpoint(),
        CheckQueues(repeated=1),
    )

``CheckQueues`` waits until everything that was added has been read and nothing more comes, and then
holds all rows of all runs together: per queue every offset, per key every sequence number, once and
in order; a batch that was repeated had the same rows.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from tests.spark.harness import Source, assert_in_order, failure_of, produce
from tests.support.processes import command_line, family
from tests.support.waiting import wait_until

from rmq_ordered.client import Client

OFTEN = {"processingTime": "200 milliseconds"}
PATIENCE_S = 180
KILLED_IN_BATCH = "the source process was killed in this batch"


class Script:
    """Plays actions; remembers what every batch delivered, attempt by attempt."""

    def __init__(self, source: Source, client: Client, topic: str, checkpoint: Path) -> None:
        self.source = source
        self.client = client
        self.topic = topic
        self.checkpoint = checkpoint
        self.query: Any = None
        self.options: dict[str, Any] = {}
        self.added = 0
        self.attempts: dict[int, list[list[Row]]] = defaultdict(list)
        # Done once, when the rows of the next batch are there and the batch has not finished.
        self.in_next_batch: Callable[[], None] | None = None

    def play(self, *actions: "Action") -> None:
        """Do one after another; a query that still runs at the end is stopped."""
        try:
            for action in actions:
                action.play(self)
        finally:
            if self.query is not None:
                self.query.stop()

    @property
    def rows(self) -> list[Row]:
        """The rows of the last attempt of every batch."""
        return [row for number in sorted(self.attempts) for row in self.attempts[number][-1]]

    def keep(self, batch: DataFrame, batch_id: int) -> None:
        """Called by Spark with every batch."""
        rows = batch.collect()
        self.attempts[batch_id].append(rows)
        interrupt, self.in_next_batch = self.in_next_batch, None
        if interrupt is not None:
            interrupt()


class Action:
    """Something that happens to a stream, or must be true of it."""

    def play(self, script: Script) -> None:
        """Do it, or raise AssertionError."""
        raise NotImplementedError


@dataclass(frozen=True)
class AddMessages(Action):
    """Send these sequence numbers of every key, keys interleaved."""

    keys: int
    sequences: range

    def play(self, script: Script) -> None:
        script.added += produce(script.client, script.topic, self.keys, self.sequences)


class Start(Action):
    """Start the query on the script's checkpoint, with these options from now on."""

    def __init__(self, trigger: dict[str, Any] | None = None, **options: Any) -> None:
        self.trigger = trigger or OFTEN
        self.options = options

    def play(self, script: Script) -> None:
        script.options |= self.options
        script.query = (
            script.source.stream(**script.options)
            .writeStream.foreachBatch(script.keep)
            .option("checkpointLocation", str(script.checkpoint))
            .trigger(**self.trigger)
            .start()
        )


class RestartFromCheckpoint(Start):
    """Start a new run, after one that was stopped or has failed."""

    def play(self, script: Script) -> None:
        assert script.query is not None, "nothing was started yet"
        assert not script.query.isActive, "the query still runs"
        super().play(script)


@dataclass(frozen=True)
class CheckQueues(Action):
    """Everything that was added has been read, once and in order; so many batches ran twice."""

    repeated: int = 0

    def play(self, script: Script) -> None:
        def is_through() -> bool:
            return len(script.rows) >= script.added or script.query.exception() is not None

        wait_until(is_through, f"{script.added} rows came", PATIENCE_S)
        # Enough rows may be too many: what comes twice comes before a trigger finds nothing new.
        script.query.processAllAvailable()
        assert script.query.exception() is None, script.query.exception()
        assert_in_order(script.rows, script.added)
        twice = [attempts for attempts in script.attempts.values() if len(attempts) > 1]
        assert all(attempt == attempts[0] for attempts in twice for attempt in attempts)
        assert len(twice) == self.repeated


class Stop(Action):
    """Stop the query as a user does."""

    def play(self, script: Script) -> None:
        script.query.stop()


class KillSource(Action):
    """Kill the driver's source process, which holds the leases, with SIGKILL."""

    def play(self, script: Script) -> None:
        killed = [pid for pid in _source_processes() if os.kill(pid, signal.SIGKILL) is None]
        assert killed, "no source process was found"


class KillSourceInBatch(KillSource):
    """The same, and the query dies with it, in the next batch that has rows: it will run twice."""

    def play(self, script: Script) -> None:
        def die() -> None:
            super(KillSourceInBatch, self).play(script)
            raise RuntimeError(KILLED_IN_BATCH)

        script.in_next_batch = die


@dataclass(frozen=True)
class ExpectFailure(Action):
    """The query fails, and these words are in the reason."""

    words: str

    def play(self, script: Script) -> None:
        text = failure_of(script.query)
        assert self.words in text, text


def _source_processes() -> list[int]:
    """Spark's source runners below this process."""
    return [
        pid for pid in family(os.getpid()) if "python_streaming_source_runner" in command_line(pid)
    ]
