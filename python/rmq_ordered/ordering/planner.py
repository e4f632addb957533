"""How far the next micro-batch goes, from where we stand, what is there, and the limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import Positions


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may have; ``record_bytes`` is the estimated size of a topic's records."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    record_bytes: Mapping[str, float] | None = None


def plan_end(
    start: Mapping[MessageQueue, int], latest: Mapping[MessageQueue, int], limits: Limits
) -> Positions:
    """The end positions of a batch: within the limits, split pro rata to the backlog.

    Every queue with a backlog gets at least one offset, so that a small queue beside a huge one is
    never starved; what rounding leaves over goes to the largest backlogs first. Where the limit is
    below the number of queues, they take turns. A queue whose latest offset lies before its start
    (expired or re-created) stays where it is: reading decides what that means.
    """
    backlog = {queue: max(0, end - start.get(queue, 0)) for queue, end in latest.items()}
    # Each batch that is cut moves this number on by the limit: so do the turns.
    turn = sum(start.values())
    shares = shared_out(backlog, limits.max_offsets, turn)
    if limits.max_bytes is not None:
        shares = _within_bytes(shares, limits.max_bytes, limits.record_bytes or {})
    planned = {queue: start.get(queue, 0) + shares[queue] for queue in latest}
    return dict(start) | planned


def shared_out(backlog: Mapping[MessageQueue, int], limit: int | None, turn: int) -> Positions:
    """How many offsets of each backlog fit into the limit; ``turn`` says whose turn it is."""
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return dict(backlog)
    waiting = sorted(queue for queue in backlog if backlog[queue])
    shares = dict.fromkeys(backlog, 0)
    if limit < len(waiting):
        first = turn % len(waiting)
        return shares | dict.fromkeys((waiting[first:] + waiting[:first])[:limit], 1)
    # Largest backlog first; the queue itself breaks ties, so that a plan can be repeated.
    order = sorted(waiting, key=lambda queue: (-backlog[queue], queue))
    shares |= dict.fromkeys(order, 1)
    remaining = limit - len(order)
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


def _within_bytes(
    shares: Mapping[MessageQueue, int], max_bytes: int, record_bytes: Mapping[str, float]
) -> Positions:
    """Cut all shares in the same proportion; one message of each queue is always let through."""
    sizes = {queue: shares[queue] * record_bytes.get(queue.topic, 0.0) for queue in shares}
    total = sum(sizes.values())
    if total <= max_bytes:
        return dict(shares)
    return {
        queue: max(1, int(share * max_bytes / total)) if share and sizes[queue] else share
        for queue, share in shares.items()
    }


def is_held_back(backlog: int, min_offsets: int | None, waited_ms: int, max_delay_ms: int) -> bool:
    """Whether a batch should wait for more messages, or for its delay to end."""
    return min_offsets is not None and 0 < backlog < min_offsets and waited_ms < max_delay_ms
