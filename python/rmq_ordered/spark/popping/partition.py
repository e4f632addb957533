"""What travels from driver to executor: the popped ranges of one queue."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from rmq_ordered.client.plan import ReadPlan


class PoppedPartition(InputPartition):
    """One input partition per queue and batch.

    Attributes:
        plans: what was popped of the queue, in order.
        topic: the subscribed topic; the plans' own one may be a retry topic of it.
    """

    def __init__(self, plans: tuple[ReadPlan, ...], topic: str) -> None:
        super().__init__(plans)
        self.plans = plans
        self.topic = topic
