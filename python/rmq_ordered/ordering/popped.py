"""Spark's source offset of a query that pops: which messages a batch was given, as JSON that lasts.

    {"batch":3,"group":"billing","popped":{topic:{broker:{queue:[[5,9],[12,13]]}}},"run":"...",
     "version":1}

``popped`` has the ranges of queue offsets of this batch alone, by the topics where the messages
lie: a message that came again lies in a retry topic of the group. ``batch`` rises with every batch,
because Spark compares offsets as text and an orderly message comes again at the same place. ``run``
is who popped: only that process has the handles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue, QueueRange

FORMAT_VERSION: Final = 1
# Then the chance that one queue of many was never first is one in three thousand.
_POPS_PER_QUEUE: Final = 8

Span = tuple[int, int]
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PoppedOffset:
    """One offset of Spark's log: the end of a batch, and all that it holds."""

    batch: int
    group: str
    run: str = ""
    spans: Mapping[MessageQueue, tuple[Span, ...]] = field(default_factory=dict)

    @property
    def ranges(self) -> dict[MessageQueue, tuple[QueueRange, ...]]:
        """What is to be read, queue by queue, in order."""
        return {
            queue: tuple(QueueRange(queue, first, last) for first, last in self.spans[queue])
            for queue in sorted(self.spans)
        }


def spans_of(queue_offsets: Iterable[int]) -> tuple[Span, ...]:
    """The fewest half-open spans that hold exactly these offsets, in order."""
    spans: list[Span] = []
    for queue_offset in sorted(set(queue_offsets)):
        if spans and spans[-1][1] == queue_offset:
            spans[-1] = spans[-1][0], queue_offset + 1
        else:
            spans.append((queue_offset, queue_offset + 1))
    return tuple(spans)


def encode_popped(offset: PoppedOffset) -> dict[str, Any]:
    """The offset dict for Spark; the same offset always gives the same text."""
    topics: dict[str, dict[str, dict[str, list[list[int]]]]] = {}
    for queue in sorted(offset.spans):
        brokers = topics.setdefault(queue.topic, {})
        spans = [list(span) for span in offset.spans[queue]]
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = spans
    return {
        "batch": offset.batch,
        "group": offset.group,
        "popped": topics,
        "run": offset.run,
        "version": FORMAT_VERSION,
    }


def is_popped(source_offset: Mapping[str, Any]) -> bool:
    """Whether an offset was written by a query that pops."""
    return "popped" in source_offset


def decode_popped(source_offset: Mapping[str, Any]) -> PoppedOffset:
    """The offset that came back from the checkpoint; raises OptionError if it is not ours."""
    if "topics" in source_offset and not is_popped(source_offset):
        raise OptionError(
            "checkpointLocation",
            "a checkpoint of consumeMode=pull",
            "a checkpoint of consumeMode=pop; use another checkpoint folder: where the group goes "
            "on is known to the broker",
        )
    version = source_offset.get("version")
    if version != FORMAT_VERSION:
        raise OptionError(
            "checkpointLocation",
            version,
            f"a checkpoint with offset version {FORMAT_VERSION} (written by a newer rmq-ordered?)",
        )
    try:
        spans = {
            MessageQueue(topic, broker, int(queue_id)): tuple(_span(pair) for pair in pairs)
            for topic, brokers in source_offset["popped"].items()
            for broker, queues in brokers.items()
            for queue_id, pairs in queues.items()
        }
        for queue, found in spans.items():
            _ensure_rising(queue, found)
        names = _text(source_offset["group"]), _text(source_offset["run"])
        return PoppedOffset(_whole(source_offset["batch"]), *names, spans)
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            "checkpointLocation",
            dict(source_offset),
            'offsets like {"batch":1,"group":"...","popped":{...},"run":"...","version":1}',
        ) from error


class PopBound:
    """When an AvailableNow run has what was there as it began, place by place.

    A place is a topic at one broker. It is over when nothing is there, or when so many pops in a
    row brought only messages that the broker stored after the first pop (by its own clock). Pops
    begin at a queue by chance, so that a few of them prove nothing about the other queues.
    """

    def __init__(self) -> None:
        self._began_ms: dict[Place, int] = {}
        self._fruitless: dict[Place, int] = {}
        self._over: set[Place] = set()

    def is_open(self, place: Place) -> bool:
        """Whether something that was there may still be there."""
        return place not in self._over

    def came(self, place: Place, queues: int, times_ms: Iterable[tuple[int, int]]) -> None:
        """A pop brought messages, given by the times of pop and store, from so many queues."""
        is_fruitless = True
        for popped_ms, stored_ms in times_ms:
            if stored_ms <= self._began_ms.setdefault(place, popped_ms):
                is_fruitless = False
        self._fruitless[place] = self._fruitless.get(place, 0) + 1 if is_fruitless else 0
        if self._fruitless[place] >= queues * _POPS_PER_QUEUE:
            self._over.add(place)

    def nothing_came(self, place: Place) -> None:
        """A pop that waited a moment brought nothing."""
        self._over.add(place)


def _span(pair: Any) -> Span:
    first, last = (_whole(part) for part in pair)
    if last <= first:
        raise ValueError(pair)
    return first, last


def _ensure_rising(queue: MessageQueue, spans: tuple[Span, ...]) -> None:
    for before, after in pairwise(spans):
        if after[0] < before[1]:
            raise ValueError(f"{queue}: {after} after {before}")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
