"""The options of the source, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from rmq_ordered.options.connection import NAME_SERVER, REQUEST_TIMEOUT
from rmq_ordered.options.table import Option
from rmq_ordered.options.values import (
    parse_count,
    parse_duration_ms,
    parse_flag,
    parse_group,
    parse_instance,
    parse_key_source,
    parse_topics,
)


class StartPosition(StrEnum):
    """Where a query that has no checkpoint begins."""

    GROUP = "group"
    EARLIEST = "earliest"
    LATEST = "latest"


class LeaseMode(StrEnum):
    """Whether the query must own its queues."""

    EXCLUSIVE = "exclusive"
    NONE = "none"


class ValueFormat(StrEnum):
    """What a message body holds."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    MSGPACK = "msgpack"


SOURCE_OPTIONS: Final[Sequence[Option]] = (
    NAME_SERVER,
    Option(
        "subscribe",
        "Topics to read.",
        "topic names separated by ',' (letters, digits, '_', '-', '%', '|'; at most 127 "
        "characters)",
        parse_topics,
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
        parse_count,
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
        parse_instance,
    ),
    Option(
        "keyFrom",
        "What becomes the `key` column. Java's selectors do not store the sharding key, so topics "
        "written by Java often have it in `keys`.",
        "shardingKey, keys, tags or property:NAME",
        parse_key_source,
        default="shardingKey",
    ),
    Option(
        "includeProperties",
        "Adds the `properties` column, a map of all properties of the message.",
        "true or false",
        parse_flag,
        default="false",
    ),
    REQUEST_TIMEOUT,
)
