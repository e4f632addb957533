"""Going on from a checkpoint: is it ours, and are the queues still those it was written for?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OffsetOutOfRange, OptionError
from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.ordering.offsets import Positions, SourceOffset
from rmq_ordered.spark.positions import LossPolicy
from rmq_ordered.spark.selection import Subscription

_LOG: Final = logging.getLogger("rmq_ordered.spark")
_GONE: Final = OffsetSpan(0, 0)


def ensure_same_subscription(
    offset: SourceOffset, subscription: Subscription, losses: LossPolicy
) -> SourceOffset:
    """The offset without what is no longer read; raises OptionError if that loses data."""
    if subscription.assigned:
        return _only_assigned(offset, subscription.assigned, losses)
    topics = subscription.topics()
    known = {queue.topic for queue in offset.positions}
    missing = sorted(known - set(topics))
    if not missing:
        return offset
    if losses.fails or len(missing) == len(known):
        raise OptionError(
            "checkpointLocation",
            f"a checkpoint of {', '.join(missing)}",
            f"a checkpoint of the subscribed topics ({', '.join(topics)}); use another checkpoint "
            "folder, subscribe the missing topics again (or create them, if they were deleted), or "
            "drop them with failOnDataLoss=false",
        )
    _LOG.warning(
        "topics=%s are deleted or no longer subscribed and dropped from the offsets", missing
    )
    return _without(offset, {queue for queue in offset.positions if queue.topic in missing})


def _only_assigned(
    offset: SourceOffset, assigned: frozenset[MessageQueue], losses: LossPolicy
) -> SourceOffset:
    missing = offset.positions.keys() - assigned
    if not missing:
        return offset
    names = ", ".join(map(str, sorted(missing)))
    if losses.fails or len(missing) == len(offset.positions):
        raise OptionError(
            "checkpointLocation",
            f"a checkpoint of {names}",
            f"a checkpoint of the assigned queues ({', '.join(map(str, sorted(assigned)))}); use "
            "another checkpoint folder, assign the missing queues again, or drop them with "
            "failOnDataLoss=false",
        )
    _LOG.warning("queues=%s are no longer assigned and dropped from the offsets", names)
    return _without(offset, missing)


def mend(
    offset: SourceOffset,
    spans: Mapping[MessageQueue, OffsetSpan],
    made_anew: frozenset[MessageQueue],
    losses: LossPolicy,
) -> Positions:
    """Where the query really stands: its positions, moved where messages are gone, or raise.

    A queue that the brokers do not list keeps its position: it may come back.
    """
    positions: Positions = {}
    for queue, position in sorted(offset.positions.items()):
        span = spans.get(queue)
        if span is None:
            positions[queue] = _keep_vanished(queue, position, losses)
            continue
        losses.is_back(queue)
        if queue in made_anew:
            positions[queue] = _restart(queue, position, span, losses)
        else:
            positions[queue] = losses.settle(queue, position, span)
    return positions


def ensure_repeatable(
    client: Client,
    ranges: Mapping[MessageQueue, tuple[int, int]],
    spans: Mapping[MessageQueue, OffsetSpan],
) -> None:
    """Raise when a batch that must be repeated needs a queue that is not there now.

    Whatever ``failOnDataLoss`` says: a batch cannot wait for one of its queues, and leaving it out
    would lose what may come back.
    """
    for queue, (first, last) in sorted(ranges.items()):
        if queue not in spans:
            client.routes.ensure_complete(queue.topic)
            raise OptionError(
                "checkpointLocation",
                f"an unfinished batch that reads [{first}, {last}) of {queue}, which is not there "
                "or not subscribed",
                "every queue of an unfinished batch to be there, whatever failOnDataLoss says: it "
                "is repeated whole; subscribe or assign the queue again, or bring it back, until "
                "the batch is finished, or use another checkpoint folder",
            )


def find_made_anew(
    client: Client, offset: SourceOffset, spans: Mapping[MessageQueue, OffsetSpan]
) -> frozenset[MessageQueue]:
    """Queues whose messages before the query's position are younger than its checkpoint.

    Such a queue belongs to a topic that was deleted, created again and filled beyond the place
    where the query stood. Asked once per run, all queues together.
    """
    if not offset.stored_until_ms:
        return frozenset()
    doubtful = [
        queue
        for queue, position in sorted(offset.positions.items())
        if queue in spans and spans[queue].minimum < position <= spans[queue].maximum
    ]
    younger = client.broker.offsets_at(doubtful, offset.stored_until_ms + 1)
    return frozenset(queue for queue in doubtful if younger[queue] < offset.positions[queue])


def _without(offset: SourceOffset, dropped: Set[MessageQueue]) -> SourceOffset:
    positions = {q: p for q, p in offset.positions.items() if q not in dropped}
    entries = {q: p for q, p in offset.entries.items() if q not in dropped}
    return replace(offset, positions=positions, entries=entries)


def _keep_vanished(queue: MessageQueue, position: int, losses: LossPolicy) -> int:
    if losses.fails:
        raise OffsetOutOfRange(queue.broker_name, queue, position, _GONE.minimum, _GONE.maximum)
    losses.waits(queue, position)
    return position


def _restart(queue: MessageQueue, position: int, span: OffsetSpan, losses: LossPolicy) -> int:
    if losses.fails:
        raise OptionError(
            "checkpointLocation",
            f"{queue} at {position}, where messages are younger than the checkpoint",
            "a topic that was not made anew since; use a new checkpoint folder, or read the new "
            "topic from its beginning with failOnDataLoss=false",
        )
    losses.restarted(queue, position, span.minimum)
    return span.minimum
