"""The options of ``consumeMode=pop``, and which others make no sense beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rmq_ordered.errors import OptionError
from rmq_ordered.options.table import Option
from rmq_ordered.options.values import parse_duration_ms

# Java's push consumer takes no shorter time, RocketMQ's proxy no longer one.
_LEAST_INVISIBLE_MS: Final = 5_000
_MOST_INVISIBLE_MS: Final = 12 * 3_600_000


class ConsumeMode(StrEnum):
    """How messages come to the query."""

    PULL = "pull"
    POP = "pop"


class PopOrder(StrEnum):
    """What keeps its order when it is popped."""

    NONE = "none"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class PopOptions:
    """How a query pops."""

    invisible_ms: int
    is_orderly: bool


def parse_invisible_ms(text: str) -> int:
    """How long what is popped is hidden from others."""
    duration_ms = parse_duration_ms(text)
    if not _LEAST_INVISIBLE_MS <= duration_ms <= _MOST_INVISIBLE_MS:
        raise ValueError(text)
    return duration_ms


POP_OPTIONS: Final[Sequence[Option]] = (
    Option(
        "consumeMode",
        "`pull`: the query reads its queues from where it stands. `pop`: streams only; the broker "
        "hands messages out, hidden from the rest of the group until their batch is finished. Any "
        "number of queries of a group share all queues without owning any; at least once, and in "
        "order only with `popOrder=queue`. See `docs/pop.md`.",
        "pull or pop",
        ConsumeMode,
        default="pull",
    ),
    Option(
        "invisibleTime",
        "With `consumeMode=pop`: after this time without a sign of the query its messages come to "
        "others. A batch may last longer: its messages are hidden anew every third of the time.",
        "a duration from 5s to 12h",
        parse_invisible_ms,
        default="60s",
    ),
    Option(
        "popOrder",
        "With `consumeMode=pop`: `queue` hands out nothing more of a queue before everything "
        "handed out of it is acknowledged, at most 32 messages of a queue in one batch. The whole "
        "group must pop alike.",
        "none or queue",
        PopOrder,
        default="none",
    ),
)

_POP_ONLY: Final = ("invisibleTime", "popOrder")
_NOT_OWNED: Final = "the queries of a group share all queues and own none"
_KNOWN_PLACE: Final = (
    "the broker knows where the group goes on (startingOffsetsFallback says where a new one begins)"
)
_NO_PREVIEW: Final = "what is waiting is not known before it is popped"
_SENSELESS: Final = {
    "leaseMode": _NOT_OWNED,
    "leaseTimeout": _NOT_OWNED,
    "instanceId": _NOT_OWNED,
    "assign": "the broker chooses the queues; use subscribe or subscribePattern",
    "startingOffsets": _KNOWN_PLACE,
    "startingTimestamp": _KNOWN_PLACE,
    "startingTimestampNoMatch": _KNOWN_PLACE,
    "minOffsetsPerTrigger": _NO_PREVIEW,
    "maxTriggerDelay": _NO_PREVIEW,
}


def pop_options(
    values: Mapping[str, Any], given: frozenset[str], *, streaming: bool
) -> PopOptions | None:
    """How to pop, or None for a query that pulls; raises OptionError for a contradiction."""
    if values["consumeMode"] is not ConsumeMode.POP:
        for name in _POP_ONLY:
            if name in given:
                raise OptionError(name, None, "consumeMode=pop beside it")
        return None
    if not streaming:
        raise OptionError(
            "consumeMode",
            "pop",
            "pull for a batch read: Spark does not tell a batch read that its rows are through, so "
            "that nothing could be acknowledged; use readStream with trigger(availableNow=True)",
        )
    for name, reason in _SENSELESS.items():
        if name in given:
            raise OptionError(name, None, f"no {name} with consumeMode=pop: {reason}")
    if values["group"] is None:
        raise OptionError("group", None, "a consumer group, because consumeMode=pop shares one")
    return PopOptions(values["invisibleTime"], values["popOrder"] is PopOrder.QUEUE)
