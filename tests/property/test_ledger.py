"""A sink through crashes of any kind and order: every row lands once, whatever is remembered.

The model is Spark: batches one after the other, cut into tasks; a run may die anywhere (in a task,
before or after the sink's commit, before or after its own), and the next run repeats the batch that
is not known to be done. Between runs the broker may forget offsets that it kept in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.client import SendSettings
from rmq_ordered.client.ledger import SinkLedger, WriteAttempt
from rmq_ordered.model import QueueReceipt, SendStream
from rmq_ordered.protocol.codes import FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST
from rmq_ordered.testing import ClusterDouble

TASKS, ROWS, BATCHES = 3, 6, 4
SETTINGS = SendSettings(batch_rows=2)


@dataclass(frozen=True)
class Crash:
    """Where a run ends.

    Attributes:
        batches: how many batches it finishes first.
        written: how many rows of each task of the next batch land.
        has_committed: whether that batch was written whole, and the sink has committed it.
        are_offsets_lost: whether the broker forgets what it had in memory.
    """

    batches: int
    written: tuple[int, ...]
    has_committed: bool
    are_offsets_lost: bool


CRASHES = st.builds(
    Crash,
    batches=st.integers(0, 2),
    written=st.tuples(*[st.integers(0, ROWS)] * TASKS),
    has_committed=st.booleans(),
    are_offsets_lost=st.booleans(),
)


class Spark:
    """Runs batches; ``done`` is what its checkpoint knows."""

    def __init__(self, cluster: ClusterDouble) -> None:
        self._cluster = cluster
        self.done = 0
        self._runs = 0

    def run(self, crash: Crash | None) -> None:
        self._runs += 1
        run = f"run-{self._runs}"
        last = BATCHES if crash is None else min(BATCHES, self.done + crash.batches)
        while self.done < last:
            self._batch(run)
            self.done += 1
        if crash is None or self.done == BATCHES:
            return
        if crash.has_committed:
            self._batch(run)
        else:
            for partition, count in enumerate(crash.written):
                self._task(run, partition, count)
        if crash.are_offsets_lost:
            self._cluster.brokers[0].committed.clear()

    def _batch(self, run: str) -> None:
        receipts = [
            receipt for partition in range(TASKS) for receipt in self._task(run, partition, ROWS)
        ]
        with self._cluster.client() as client:
            SinkLedger(client, "sink").commit(run, self.done, receipts)

    def _task(self, run: str, partition: int, count: int) -> list[QueueReceipt]:
        attempt = WriteAttempt(SendStream("sink", self.done, partition), run, is_first=True)
        with self._cluster.client() as client:
            writer = SinkLedger(client, "sink").writer("invoices", SETTINGS, attempt)
            with writer:
                writer.write(rows(self.done, partition).slice(0, count))
                writer.flush()
                # A task that was cut off never says that there is no more.
                return list(writer.finish().values()) if count == ROWS else []


def rows(batch: int, partition: int) -> pa.RecordBatch:
    values = [f"{partition}/{batch * ROWS + number:03}" for number in range(ROWS)]
    keys = [f"key-{partition}-{number % 2}" for number in range(ROWS)]
    return pa.record_batch({"key": keys, "value": values})


def landed(cluster: ClusterDouble) -> Iterator[str]:
    for queue in cluster.brokers[0].queues.values():
        yield from (message.body.decode() for message in queue.messages)


@proves("pipeline-survives-kills")
@settings(max_examples=examples(60))
@given(crashes=st.lists(CRASHES, max_size=5), recognises=st.booleans())
def test_every_row_lands_once_and_in_order_whatever_crashes(
    crashes: list[Crash], recognises: bool
) -> None:
    features = (
        frozenset({FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST}) if recognises else frozenset()
    )
    cluster = ClusterDouble(features=features)
    cluster.brokers[0].add_topic("invoices", 3)
    spark = Spark(cluster)
    for crash in [*crashes, None]:
        spark.run(crash)
    found = list(landed(cluster))
    expected = [f"{partition}/{n:03}" for partition in range(TASKS) for n in range(BATCHES * ROWS)]
    assert sorted(found) == expected
    for partition in range(TASKS):
        for half in range(2):
            mine = [v for v in found if v.startswith(f"{partition}/") and int(v[2:]) % 2 == half]
            assert mine == sorted(mine)
