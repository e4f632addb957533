"""What travels from driver to executor: one range of one queue, with the right to read it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.model import QueueLease


@dataclass(frozen=True)
class Witness:
    """For brokers without fencing: the committed offset that proves nobody else was there.

    ``expected`` is what this run last wrote or found; None means that the group never committed.
    """

    lease: QueueLease
    expected: int | None


class QueuePartition(InputPartition):
    """One input partition per queue and batch; a queue is never split."""

    def __init__(self, plan: ReadPlan, witness: Witness | None = None) -> None:
        super().__init__(plan)
        self.plan = plan
        self.witness = witness
