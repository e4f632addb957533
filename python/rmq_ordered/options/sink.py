"""The options of the sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rmq_ordered.options.connection import NAME_SERVER, REQUEST_TIMEOUT
from rmq_ordered.options.table import Option, parse_table
from rmq_ordered.options.values import parse_duration_ms, parse_topic


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
        values = parse_table(SINK_OPTIONS, options)
        return cls(
            name_servers=values["nameServer"],
            topic=values["topic"],
            request_timeout_ms=values["requestTimeout"],
            send_timeout_ms=values["sendTimeout"],
        )


SINK_OPTIONS: Final[Sequence[Option]] = (
    NAME_SERVER,
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
    REQUEST_TIMEOUT,
)
