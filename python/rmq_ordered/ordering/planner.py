"""How far the next micro-batch goes, from where we stand, what is there, and the limit."""

from __future__ import annotations

from collections.abc import Mapping

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import Positions


def plan_end(
    start: Mapping[MessageQueue, int], latest: Mapping[MessageQueue, int], limit: int | None
) -> Positions:
    """The end positions of a batch: at most ``limit`` offsets, split pro rata to the backlog.

    Every queue with a backlog gets at least one offset as long as the limit allows, so that a small
    queue beside a huge one is never starved; what rounding leaves over goes to the largest backlogs
    first. A queue whose latest offset lies before its start (expired or re-created) stays where it
    is: reading decides what that means.
    """
    backlog = {queue: max(0, end - start.get(queue, 0)) for queue, end in latest.items()}
    total = sum(backlog.values())
    shares = backlog if limit is None or total <= limit else _share(backlog, total, limit)
    planned = {queue: start.get(queue, 0) + shares[queue] for queue in latest}
    return dict(start) | planned


def _share(backlog: Mapping[MessageQueue, int], total: int, limit: int) -> Positions:
    # Largest backlog first; the queue itself breaks ties, so that a plan can be repeated.
    order = sorted((q for q in backlog if backlog[q]), key=lambda q: (-backlog[q], q))
    shares = dict.fromkeys(backlog, 0)
    remaining = limit
    for queue in order[:limit]:
        shares[queue] = 1
        remaining -= 1
    for queue in order:
        extra = min(backlog[queue] - shares[queue], backlog[queue] * limit // total - shares[queue])
        extra = max(0, min(extra, remaining))
        shares[queue] += extra
        remaining -= extra
    for queue in order:
        extra = min(backlog[queue] - shares[queue], remaining)
        shares[queue] += extra
        remaining -= extra
    return shares
