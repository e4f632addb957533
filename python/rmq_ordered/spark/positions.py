"""Places in queues: where a read begins or ends, and what to do when a place is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OffsetOutOfRange, OptionError
from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.options import Boundary, NoMatch, StartPosition
from rmq_ordered.options.values import EARLIEST_OFFSET, LATEST_OFFSET
from rmq_ordered.ordering.offsets import Positions

_LOG: Final = logging.getLogger("rmq_ordered.spark")


class LossPolicy:
    """What to do about messages that are gone: fail, or go on and count them."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.skipped = 0
        self._waited_for: set[MessageQueue] = set()

    def settle(
        self, queue: MessageQueue, position: int, span: OffsetSpan, until: int | None = None
    ) -> int:
        """The position itself if the broker holds it; else the next one that is there, or raise.

        What lies at or after ``until`` was not asked for and counts as no loss.
        """
        if self._is_held(queue, position, span):
            return position
        if position < span.minimum:
            found = span.minimum if until is None else min(until, span.minimum)
            if found > position:
                self.give_up(queue, position, found)
        else:
            self.restarted(queue, position, span.minimum)
        return span.minimum

    def settle_end(self, queue: MessageQueue, position: int, span: OffsetSpan) -> int:
        """Where a read ends that was to end here: within what is there, or raise."""
        if self._is_held(queue, position, span):
            return position
        if position < span.minimum:
            # Nothing of the range is left; how much was lost is known where it begins.
            return span.minimum
        _LOG.warning(
            "queue=%s ends at %s: the read ends there and not at position=%s",
            queue,
            span.maximum,
            position,
        )
        return span.maximum

    def _is_held(self, queue: MessageQueue, position: int, span: OffsetSpan) -> bool:
        is_held = span.minimum <= position <= span.maximum
        if not is_held and self.fails:
            raise OffsetOutOfRange(queue.broker_name, queue, position, span.minimum, span.maximum)
        return is_held

    def give_up(self, queue: MessageQueue, position: int, found: int) -> None:
        """Count messages that expired before they were read."""
        self.skipped += found - position
        _LOG.warning(
            "skipped count=%s queue=%s from=%s to=%s: expired before they were read",
            found - position,
            queue,
            position,
            found,
        )

    def restarted(self, queue: MessageQueue, position: int, found: int) -> None:
        """A queue was made anew: how many messages of the old one are gone cannot be known."""
        _LOG.warning(
            "queue=%s was made anew: position=%s of the old one is given up, reading from %s",
            queue,
            position,
            found,
        )

    def waits(self, queue: MessageQueue, position: int) -> None:
        """A queue is not there; told once until it is back, because Spark asks all the time."""
        if queue not in self._waited_for:
            self._waited_for.add(queue)
            _LOG.warning("queue=%s is not there, it waits at position=%s", queue, position)

    def is_back(self, queue: MessageQueue) -> None:
        """A queue is there."""
        if queue in self._waited_for:
            self._waited_for.remove(queue)
            _LOG.info("queue=%s is there again", queue)


class Places:
    """Looks up boundaries for one group."""

    def __init__(self, client: Client, group: str, losses: LossPolicy) -> None:
        self._client = client
        self._group = group
        self._losses = losses

    def start(
        self,
        boundary: Boundary,
        spans: Mapping[MessageQueue, OffsetSpan],
        option: str,
        until: Mapping[MessageQueue, int] | None = None,
    ) -> Positions:
        """Where a read begins in every one of these queues; ``option`` names it in errors.

        ``until`` has where the read is to end, as far as offsets were given for that.
        """
        ends = until or {}
        return self._resolve(
            boundary,
            spans,
            option,
            lambda queue, at: self._losses.settle(queue, at, spans[queue], ends.get(queue)),
        )

    def end(
        self, boundary: Boundary, spans: Mapping[MessageQueue, OffsetSpan], option: str
    ) -> Positions:
        """Where a read ends in every one of these queues."""
        return self._resolve(
            boundary,
            spans,
            option,
            lambda queue, at: self._losses.settle_end(queue, at, spans[queue]),
        )

    def _resolve(
        self,
        boundary: Boundary,
        spans: Mapping[MessageQueue, OffsetSpan],
        option: str,
        settle: Callable[[MessageQueue, int], int],
    ) -> Positions:
        unnamed = [queue for queue in sorted(spans) if queue not in boundary.offsets]
        asked = self._ask(boundary, unnamed, spans, option)
        return {
            queue: self._resolve_one(boundary, queue, span, asked.get(queue), settle)
            for queue, span in spans.items()
        }

    def ensure_known(
        self, boundary: Boundary, spans: Mapping[MessageQueue, OffsetSpan], option: str
    ) -> None:
        """Raise OptionError when offsets name a queue that is not there."""
        for queue in sorted(boundary.offsets):
            if queue not in spans:
                raise OptionError(
                    option, str(queue), "only queues of the subscribed topics, such as "
                    f"{next(iter(sorted(spans)), 'none')}"
                )  # fmt: skip

    def _ask(
        self,
        boundary: Boundary,
        queues: list[MessageQueue],
        spans: Mapping[MessageQueue, OffsetSpan],
        option: str,
    ) -> dict[MessageQueue, int | None]:
        """What the brokers know of the boundary, all queues at once."""
        if boundary.timestamp_ms is not None:
            return dict(self._at(boundary, boundary.timestamp_ms, queues, spans, option))
        if boundary.position is StartPosition.GROUP:
            return self._client.broker.committed_offsets(self._group, queues)
        return {}

    def _resolve_one(
        self,
        boundary: Boundary,
        queue: MessageQueue,
        span: OffsetSpan,
        asked: int | None,
        settle: Callable[[MessageQueue, int], int],
    ) -> int:
        named = boundary.offsets.get(queue)
        if named == LATEST_OFFSET:
            return span.maximum
        if named == EARLIEST_OFFSET:
            return span.minimum
        place = asked if named is None else named
        if place is not None:
            return settle(queue, place)
        position = boundary.position
        if position is None or position is StartPosition.GROUP:
            position = boundary.fallback
        return span.maximum if position is StartPosition.LATEST else span.minimum

    def _at(
        self,
        boundary: Boundary,
        timestamp_ms: int,
        queues: list[MessageQueue],
        spans: Mapping[MessageQueue, OffsetSpan],
        option: str,
    ) -> Positions:
        now_ms = self._client.clock.wall_ms()
        if timestamp_ms > now_ms:
            raise OptionError(option, timestamp_ms, f"a time that has passed; it is {now_ms} now")
        found = self._client.broker.offsets_at(queues, timestamp_ms)
        for queue, at in found.items():
            span = spans[queue]
            if at >= span.maximum and boundary.on_no_match is NoMatch.ERROR:
                raise OptionError(
                    option,
                    timestamp_ms,
                    f"a time at or after which {queue} has a message (its last one was stored at "
                    f"{span.last_stored_ms}), or {option}NoMatch=latest",
                )
        return {q: min(max(at, spans[q].minimum), spans[q].maximum) for q, at in found.items()}
