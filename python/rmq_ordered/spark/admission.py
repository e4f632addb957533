"""How much the next micro-batch takes: Spark's limit, the options', and what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import MessageQueue
from rmq_ordered.options import Admission
from rmq_ordered.ordering.offsets import Positions
from rmq_ordered.ordering.planner import Limits, is_held_back, plan_end
from rmq_ordered.protocol.pulls import PULL_CODES, PullLimits, parse_pull, pull_request

_SAMPLED_QUEUES: Final = 4
_SAMPLE: Final = PullLimits(32, 256 * 1024)


def default_limit(admission: Admission) -> ReadLimit:
    """What Spark hands back with every trigger but Once; it only knows one limit at a time."""
    if admission.max_offsets is not None:
        return ReadMaxRows(admission.max_offsets)
    if admission.max_bytes is not None:
        return ReadMaxBytes(admission.max_bytes)
    if admission.min_offsets is not None:
        return ReadMinRows(admission.min_offsets)
    return ReadAllAvailable()


class Admitter:
    """Plans ends of batches. Remembers when the last one was planned and how large records are."""

    def __init__(self, client: Client, group: str, admission: Admission) -> None:
        self._client = client
        self._group = group
        self._admission = admission
        self._record_bytes: dict[str, float] = {}
        self._planned_at_ms = client.clock.monotonic_ms()

    def plan(
        self,
        start: Positions,
        latest: Mapping[MessageQueue, int],
        limit: ReadLimit | None,
        *,
        may_wait: bool,
    ) -> Positions:
        """The end of the next batch; the start itself when the batch should wait for more."""
        if limit is None or isinstance(limit, ReadAllAvailable):
            return self._planned(plan_end(start, latest, Limits()))
        backlog = {q: end - start.get(q, 0) for q, end in latest.items() if end > start.get(q, 0)}
        waited_ms = self._client.clock.monotonic_ms() - self._planned_at_ms
        admission = self._admission
        if may_wait and is_held_back(
            sum(backlog.values()), admission.min_offsets, waited_ms, admission.max_delay_ms
        ):
            return start
        max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else admission.max_offsets
        if admission.max_bytes is not None:
            self._sample(start, backlog)
        limits = Limits(max_offsets, admission.max_bytes, self._record_bytes)
        return self._planned(plan_end(start, latest, limits))

    def _planned(self, end: Positions) -> Positions:
        self._planned_at_ms = self._client.clock.monotonic_ms()
        return end

    def _sample(self, start: Positions, backlog: Mapping[MessageQueue, int]) -> None:
        """Weigh the next records of the longest queues of every topic."""
        by_topic: dict[str, list[MessageQueue]] = {}
        for queue in sorted(backlog, key=lambda q: (-backlog[q], q)):
            by_topic.setdefault(queue.topic, []).append(queue)
        for topic, queues in by_topic.items():
            weighed = [self._weigh(q, start.get(q, 0)) for q in queues[:_SAMPLED_QUEUES]]
            count = sum(messages for messages, _ in weighed)
            if count:
                self._record_bytes[topic] = sum(size for _, size in weighed) / count

    def _weigh(self, queue: MessageQueue, position: int) -> tuple[int, int]:
        """How many records one pull brings, and their bytes; a guess may fail without harm."""
        request = pull_request(queue, position, group=self._group, limits=_SAMPLE)
        timeout_ms = self._client.request_timeout_ms
        try:
            answer = self._client.broker.start(queue, request, f"a sample of {queue}", timeout_ms)
            response = answer.result()
            if response.code not in PULL_CODES:
                return 0, 0
            result = parse_pull(response)
        except RmqOrderedError:
            return 0, 0
        return max(0, result.next_offset - position) if result.body else 0, len(result.body)
