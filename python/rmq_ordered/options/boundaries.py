"""Where a read begins and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.options.values import EARLIEST_OFFSET, LATEST_OFFSET, parse_queue_offsets


class StartPosition(StrEnum):
    """A place in a queue that has a name."""

    GROUP = "group"
    EARLIEST = "earliest"
    LATEST = "latest"


class NoMatch(StrEnum):
    """What to do in a queue without a message at or after a starting time."""

    LATEST = "latest"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Boundary:
    """One place in every queue: named offsets first, then the time, then the position.

    ``fallback`` serves queues that ``offsets`` does not name, and those without a group offset.
    """

    position: StartPosition | None
    fallback: StartPosition
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    timestamp_ms: int | None = None
    on_no_match: NoMatch = NoMatch.LATEST


def parse_start(text: str) -> StartPosition | dict[MessageQueue, int]:
    """A name, or offsets of single queues as JSON."""
    stripped = text.strip()
    return parse_queue_offsets(stripped) if stripped.startswith("{") else StartPosition(stripped)


def parse_end(text: str) -> StartPosition | dict[MessageQueue, int]:
    """``latest``, or offsets of single queues as JSON."""
    parsed = parse_start(text)
    if parsed in (StartPosition.GROUP, StartPosition.EARLIEST):
        raise ValueError(text)
    return parsed


def parse_fallback(text: str) -> StartPosition:
    """``earliest`` or ``latest``."""
    position = StartPosition(text)
    if position is StartPosition.GROUP:
        raise ValueError(text)
    return position


def starting_boundary(
    values: Mapping[str, Any], given: frozenset[str], *, streaming: bool
) -> Boundary:
    """Where a read begins; raises OptionError for a contradiction."""
    place, timestamp_ms = values["startingOffsets"], values["startingTimestamp"]
    if place is not None and timestamp_ms is not None:
        raise OptionError(
            "startingTimestamp", timestamp_ms, "only one of startingOffsets and startingTimestamp"
        )
    if timestamp_ms is None and "startingTimestampNoMatch" in given:
        raise OptionError(
            "startingTimestampNoMatch",
            str(values["startingTimestampNoMatch"]),
            "startingTimestamp beside it: it says what to do where nothing is that young",
        )
    if place is StartPosition.LATEST and not streaming:
        raise OptionError(
            "startingOffsets", "latest", "another place for a batch read: it would read nothing"
        )
    offsets = place if isinstance(place, dict) else {}
    if not streaming:
        _ensure_none_at(LATEST_OFFSET, offsets, "startingOffsets")
    default = StartPosition.GROUP if streaming else StartPosition.EARLIEST
    position = None if offsets or timestamp_ms is not None else place or default
    return Boundary(
        position,
        values["startingOffsetsFallback"],
        offsets,
        timestamp_ms,
        values["startingTimestampNoMatch"],
    )


def _ensure_none_at(offset: int, offsets: Mapping[MessageQueue, int], option: str) -> None:
    """A batch read that begins at the end of a queue, or ends at its beginning, is a mistake."""
    for queue in sorted(offsets):
        if offsets[queue] == offset:
            raise OptionError(
                option,
                f"{offset} of {queue}",
                "another place for a batch read: it would read nothing of the queue; to leave "
                "queues out use assign",
            )


def ending_boundary(values: Mapping[str, Any]) -> Boundary:
    """Where a batch read ends; raises OptionError for a contradiction."""
    given, timestamp_ms = values["endingOffsets"], values["endingTimestamp"]
    if given is not None and timestamp_ms is not None:
        raise OptionError(
            "endingTimestamp", timestamp_ms, "only one of endingOffsets and endingTimestamp"
        )
    starting_ms = values["startingTimestamp"]
    if timestamp_ms is not None and starting_ms is not None and timestamp_ms < starting_ms:
        raise OptionError("endingTimestamp", timestamp_ms, f"a time from {starting_ms} on")
    offsets = given if isinstance(given, dict) else {}
    _ensure_none_at(EARLIEST_OFFSET, offsets, "endingOffsets")
    return Boundary(None, StartPosition.LATEST, offsets, timestamp_ms)
