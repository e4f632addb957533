"""Every option of source and sink, once: name, default, check and documentation.

Strings become one frozen, picklable value per role here and nowhere else; ``docs/options.md`` is
generated from the same table. This module knows nothing of Spark: the caller drops Spark's own keys
first.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rmq_ordered.errors import OptionError


class StartPosition(StrEnum):
    """Where a query that has no checkpoint begins."""

    GROUP = "group"
    EARLIEST = "earliest"
    LATEST = "latest"


class LeaseMode(StrEnum):
    """Whether the query must own its queues."""

    EXCLUSIVE = "exclusive"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table. ``default`` None with ``is_required`` False means "not set"."""

    name: str
    doc: str
    expected: str
    parse: Callable[[str], Any]
    default: str | None = None
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a source was asked to do."""

    name_servers: tuple[str, ...]
    topics: tuple[str, ...]
    group: str | None
    starting_offsets: StartPosition
    starting_offsets_fallback: StartPosition
    max_offsets_per_trigger: int | None
    lease_mode: LeaseMode
    lease_timeout_ms: int
    instance_id: str | None
    key_property: str
    include_properties: bool
    request_timeout_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Check and convert, or raise OptionError naming option, found and expected."""
        values = parse_source_table(options)
        start = values["startingOffsets"] or (
            StartPosition.GROUP if streaming else StartPosition.EARLIEST
        )
        lease_mode = values["leaseMode"] or (LeaseMode.EXCLUSIVE if streaming else LeaseMode.NONE)
        _ensure_group(values["group"], start, lease_mode)
        if lease_mode is LeaseMode.EXCLUSIVE and not streaming:
            raise OptionError(
                "leaseMode",
                "exclusive",
                "none for a batch read: Spark gives it no process that could renew leases",
            )
        return cls(
            name_servers=values["nameServer"],
            topics=values["subscribe"],
            group=values["group"],
            starting_offsets=start,
            starting_offsets_fallback=values["startingOffsetsFallback"],
            max_offsets_per_trigger=values["maxOffsetsPerTrigger"],
            lease_mode=lease_mode,
            lease_timeout_ms=values["leaseTimeout"],
            instance_id=values["instanceId"],
            key_property=values["keyFrom"],
            include_properties=values["includeProperties"],
            request_timeout_ms=values["requestTimeout"],
        )


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was asked to do."""

    name_servers: tuple[str, ...]
    topic: str
    request_timeout_ms: int
    send_timeout_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check and convert, or raise OptionError naming option, found and expected."""
        values = _parse_table(SINK_OPTIONS, options)
        return cls(
            name_servers=values["nameServer"],
            topic=values["topic"],
            request_timeout_ms=values["requestTimeout"],
            send_timeout_ms=values["sendTimeout"],
        )


def parse_source_table(options: Mapping[str, str]) -> dict[str, Any]:
    """Check each source option by itself, before it is known whether the read is a stream."""
    return _parse_table(SOURCE_OPTIONS, options)


def parse_name_servers(text: str) -> tuple[str, ...]:
    """``host:port;host:port`` (a comma will do as well) in its addresses."""
    addresses = tuple(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
            raise ValueError(address)
    if not addresses:
        raise ValueError(text)
    return addresses


# RocketMQ's TopicValidator: these characters and no others, at most 127 of them.
_TOPIC_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%|"
)


def parse_topic(text: str) -> str:
    """A legal topic name."""
    name = text.strip()
    if not name or len(name) > 127 or not set(name) <= _TOPIC_CHARACTERS:
        raise ValueError(text)
    return name


def parse_group(text: str) -> str:
    """A legal consumer group name."""
    name = text.strip()
    if not name or len(name) > 120 or not set(name) <= _TOPIC_CHARACTERS:
        raise ValueError(text)
    return name


def parse_duration_ms(text: str) -> int:
    """``90s``, ``1500ms``, ``2m`` in milliseconds; a bare number counts milliseconds."""
    units = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
    number = text.strip().rstrip("msh")
    unit = text.strip()[len(number) :] or "ms"
    if not number.isdecimal() or unit not in units or int(number) == 0:
        raise ValueError(text)
    return int(number) * units[unit]


def _parse_count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) == 0:
        raise ValueError(text)
    return int(text)


def _parse_flag(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _parse_topics(text: str) -> tuple[str, ...]:
    return tuple(sorted({parse_topic(part) for part in text.split(",")}))


def _parse_instance(text: str) -> str:
    # '#' separates the run in client ids, '@' the topic from the group in RocketMQ's tables.
    if not text.strip() or set("#@") & set(text):
        raise ValueError(text)
    return text.strip()


def _parse_key_source(text: str) -> str:
    named = {"shardingKey": "__SHARDINGKEY", "keys": "KEYS", "tags": "TAGS"}
    kind, separator, name = text.strip().partition(":")
    if kind == "property" and separator and name:
        return name
    return named[text.strip()]


_NAME_SERVER: Final = Option(
    "nameServer",
    "Name servers of the RocketMQ cluster, or the embedded broker's address.",
    "host:port, several separated by ';', for example mq1:9876;mq2:9876",
    parse_name_servers,
    is_required=True,
)
_REQUEST_TIMEOUT: Final = Option(
    "requestTimeout",
    "How long one request to a name server or broker may take.",
    "a duration such as 3s or 500ms",
    parse_duration_ms,
    default="3s",
)

SOURCE_OPTIONS: Final[Sequence[Option]] = (
    _NAME_SERVER,
    Option(
        "subscribe",
        "Topics to read.",
        "topic names separated by ',' (letters, digits, '_', '-', '%', '|'; at most 127 "
        "characters)",
        _parse_topics,
        is_required=True,
    ),
    Option(
        "group",
        "Consumer group that owns the queues and whose offsets are committed (with "
        "`leaseMode=none` nothing is). "
        "Needed unless `leaseMode` is `none` and `startingOffsets` is not `group`.",
        "a consumer group name (letters, digits, '_', '-', '%', '|'; at most 120 characters)",
        parse_group,
    ),
    Option(
        "startingOffsets",
        "Where to begin without a checkpoint: the group's committed offsets, the first message "
        "still there, or only what comes from now on. Stream default `group`, batch default "
        "`earliest`.",
        "group, earliest or latest",
        StartPosition,
    ),
    Option(
        "startingOffsetsFallback",
        "Where to begin in queues for which the group never committed an offset.",
        "earliest or latest",
        lambda text: {p: p for p in (StartPosition.EARLIEST, StartPosition.LATEST)}[
            StartPosition(text)
        ],
        default="earliest",
    ),
    Option(
        "maxOffsetsPerTrigger",
        "At most so many offsets in one micro-batch, split over the queues pro rata to their "
        "backlog.",
        "a whole number above 0",
        _parse_count,
    ),
    Option(
        "leaseMode",
        "`exclusive`: the query owns every queue it reads, or fails. `none`: no ownership, several "
        "readers may read the same queues. Stream default `exclusive`, batch default `none`.",
        "exclusive or none",
        LeaseMode,
    ),
    Option(
        "leaseTimeout",
        "How long to wait for queues that another client of the group still holds.",
        "a duration such as 90s",
        parse_duration_ms,
        default="90s",
    ),
    Option(
        "instanceId",
        "A stable name of this query. A new run with the same name takes the queues over from "
        "the old one at once instead of waiting for its lease to end. On Apache RocketMQ, which "
        "does not fence, it first waits 30 s unless it can see that the old run's process on this "
        "machine is gone.",
        "a name without '#' and '@'",
        _parse_instance,
    ),
    Option(
        "keyFrom",
        "What becomes the `key` column. Java's selectors do not store the sharding key, so topics "
        "written by Java often have it in `keys`.",
        "shardingKey, keys, tags or property:NAME",
        _parse_key_source,
        default="shardingKey",
    ),
    Option(
        "includeProperties",
        "Adds the `properties` column, a map of all properties of the message.",
        "true or false",
        _parse_flag,
        default="false",
    ),
    _REQUEST_TIMEOUT,
)

SINK_OPTIONS: Final[Sequence[Option]] = (
    _NAME_SERVER,
    Option(
        "topic",
        "Topic to write. It must exist: its number of queues decides where keys go.",
        "a topic name (letters, digits, '_', '-', '%', '|'; at most 127 characters)",
        parse_topic,
        is_required=True,
    ),
    Option(
        "sendTimeout",
        "How long one batch of messages may keep being refused or unanswered before the task "
        "fails.",
        "a duration such as 30s",
        parse_duration_ms,
        default="30s",
    ),
    _REQUEST_TIMEOUT,
)

# Options other connectors have and that would break order here: refused with the reason.
_REFUSED: Final = {
    "minpartitions": "a queue is read by one task so that its order is kept; it is never split",
    "numpartitions": "a queue is read by one task so that its order is kept; it is never split",
}


def _parse_table(table: Sequence[Option], options: Mapping[str, str]) -> dict[str, Any]:
    given = {name.lower(): value for name, value in options.items()}
    _ensure_known(table, options)
    return {option.name: _parse_one(option, given.get(option.name.lower())) for option in table}


def _parse_one(option: Option, text: str | None) -> Any:
    if text is None:
        if option.is_required:
            raise OptionError(option.name, None, f"{option.expected}; it must be set")
        text = option.default
    if text is None:
        return None
    try:
        return option.parse(text)
    except (ValueError, KeyError):
        raise OptionError(option.name, text, option.expected) from None


def _ensure_known(table: Sequence[Option], names: Iterable[str]) -> None:
    known = {option.name.lower(): option.name for option in table}
    for name in names:
        lowered = name.lower()
        if lowered in known:
            continue
        if lowered in _REFUSED:
            raise OptionError(name, None, f"this option not to be set: {_REFUSED[lowered]}")
        nearest = difflib.get_close_matches(lowered, known, n=1, cutoff=0.6)
        hint = (
            f"did you mean '{known[nearest[0]]}'?"
            if nearest
            else f"known are {', '.join(known.values())}"
        )
        raise OptionError(
            name, None, f"an option of rmq-ordered, but there is none of this name; {hint}"
        )


def _ensure_group(group: str | None, start: StartPosition, lease_mode: LeaseMode) -> None:
    if group is None and lease_mode is LeaseMode.EXCLUSIVE:
        raise OptionError(
            "group", None, "a consumer group, because leaseMode=exclusive owns queues in its name"
        )
    if group is None and start is StartPosition.GROUP:
        raise OptionError(
            "group", None, "a consumer group, because startingOffsets=group reads its offsets"
        )


def options_markdown() -> str:
    """The reference page of all options."""
    lines = [
        "# Options",
        "",
        "Generated from `rmq_ordered/options.py` by `make docs`; do not edit.",
        "Names are case-insensitive; unknown ones are errors that suggest the nearest.",
    ]
    for title, table in (("Source", SOURCE_OPTIONS), ("Sink", SINK_OPTIONS)):
        lines += [
            "",
            f"## {title}",
            "",
            "| option | default | value | meaning |",
            "|---|---|---|---|",
        ]
        lines += [_markdown_row(option) for option in table]
    return "\n".join(lines) + "\n"


def _markdown_row(option: Option) -> str:
    default = (
        "required" if option.is_required else (f"`{option.default}`" if option.default else "")
    )
    expected = option.expected.replace("|", "\\|")
    return f"| `{option.name}` | {default} | {expected} | {option.doc} |"
