"""The options of the source."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from rmq_ordered.options.boundaries import NoMatch, parse_end, parse_fallback, parse_start
from rmq_ordered.options.connection import NAME_SERVER, REQUEST_TIMEOUT, SECURITY_OPTIONS
from rmq_ordered.options.popping import POP_OPTIONS
from rmq_ordered.options.table import Option
from rmq_ordered.options.values import (
    LONGEST_DURATION,
    parse_assignment,
    parse_bytes,
    parse_count,
    parse_duration_ms,
    parse_flag,
    parse_group,
    parse_instance,
    parse_key_source,
    parse_pattern,
    parse_tags,
    parse_timestamp_ms,
    parse_topics,
    parse_words,
)


class LeaseMode(StrEnum):
    """Whether the query must own its queues."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    NONE = "none"


class ValueFormat(StrEnum):
    """What a message body holds."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    MSGPACK = "msgpack"


class DecodeErrors(StrEnum):
    """What becomes of a message whose body cannot be decoded."""

    FAIL = "fail"
    NULL = "null"
    DLQ = "dlq"


_TIME: Final = "milliseconds since 1970 or ISO 8601 such as 2026-01-31T08:00:00Z"
_QUEUE_OFFSETS: Final = 'JSON such as {"orders":{"broker-a":{"0":23,"1":-1}}}'

_SELECTION: Final[Sequence[Option]] = (
    Option(
        "subscribe",
        "Topics to read. One of `subscribe`, `subscribePattern` and `assign` must be set.",
        "topic names separated by ',' (letters, digits, '_', '-', '%', '|'; at most 127 "
        "characters)",
        parse_topics,
    ),
    Option(
        "subscribePattern",
        "Read every topic whose whole name matches, also those that are created later (read from "
        "their first message, whatever `startingOffsetsFallback` and `startingTimestamp` say, or "
        "from where the group stands with `startingOffsets=group`). RocketMQ's own topics, retries "
        "and dead letters never match.",
        "a regular expression in Python's syntax",
        parse_pattern,
    ),
    Option(
        "assign",
        "Read exactly these queues.",
        'JSON such as {"orders":{"broker-a":[0,1]}}',
        parse_assignment,
    ),
    Option(
        "waitForTopic",
        "How long to wait for a topic that does not exist yet; without it that is an error.",
        f"a duration such as 5m, {LONGEST_DURATION}",
        parse_duration_ms,
    ),
    Option(
        "tags",
        "Read only messages with one of these tags. The broker filters; offsets are then sparse.",
        "tags separated by '||', for example 'paid || shipped'",
        parse_tags,
    ),
    Option(
        "sql92",
        "Read only messages whose properties satisfy this condition. The broker filters (Apache "
        "RocketMQ needs `enablePropertyFilter=true`); offsets are then sparse.",
        "a condition in RocketMQ's SQL92, for example \"amount > 5 AND region = 'eu'\"",
        parse_words,
    ),
    Option(
        "group",
        "Consumer group that owns the queues and whose offsets are committed (with "
        "`leaseMode=none` nothing is). "
        "Needed unless `leaseMode` is `none` and `startingOffsets` is not `group`.",
        "a consumer group name (letters, digits, '_', '-', '%', '|'; at most 120 characters)",
        parse_group,
    ),
)

_BOUNDARIES: Final[Sequence[Option]] = (
    Option(
        "startingOffsets",
        "Where to begin without a checkpoint: the group's committed offsets, the first message "
        "still there, only what comes from now on, or the given offset of each queue (-2: "
        "earliest, -1: latest; queues that are not named: `startingOffsetsFallback`). `latest` "
        "and -1 in streams only. Stream default `group`, batch default `earliest`.",
        f"group, earliest, latest or {_QUEUE_OFFSETS}",
        parse_start,
    ),
    Option(
        "startingOffsetsFallback",
        "Where to begin in queues for which the group never committed an offset, or which "
        "`startingOffsets` does not name.",
        "earliest or latest",
        parse_fallback,
        default="earliest",
    ),
    Option(
        "startingTimestamp",
        "Begin at the first message stored at or after this time, instead of `startingOffsets`.",
        _TIME,
        parse_timestamp_ms,
    ),
    Option(
        "startingTimestampNoMatch",
        "A queue without a message at or after `startingTimestamp`: begin with the next one that "
        "is stored, or fail.",
        "latest or error",
        NoMatch,
        default="latest",
    ),
    Option(
        "endingOffsets",
        "Batch only: where to end, not included (-1: latest; queues that are not named: latest). "
        "Beyond a queue's end is an error, or its end with `failOnDataLoss=false`.",
        f"latest or {_QUEUE_OFFSETS}",
        parse_end,
    ),
    Option(
        "endingTimestamp",
        "Batch only: end before the first message stored at or after this time.",
        _TIME,
        parse_timestamp_ms,
    ),
    Option(
        "failOnDataLoss",
        "Whether messages that are gone (expired, topic made anew, queue removed) fail the query. "
        "With `false` the query goes on with the first message that is there. Messages that "
        "expired before they were planned are counted in the log and in the offsets (`skipped`), "
        "those that are gone when they are read in the executor's log alone.",
        "true or false",
        parse_flag,
        default="true",
    ),
)

_ADMISSION: Final[Sequence[Option]] = (
    Option(
        "maxOffsetsPerTrigger",
        "At most so many offsets in one micro-batch, split over the queues pro rata to their "
        "backlog. Offsets count before filters. With `consumeMode=pop` messages after filters, "
        "10000 where it is not set.",
        "a whole number above 0",
        parse_count,
    ),
    Option(
        "maxBytesPerTrigger",
        "About so many bytes in one micro-batch, estimated from the next records of the longest "
        "queues of each topic; at least one message of every queue with a backlog is read. With "
        "`consumeMode=pop` the bodies that were popped are counted.",
        "a size such as 64m, 1g or a number of bytes, below 2^63 bytes",
        parse_bytes,
    ),
    Option(
        "minOffsetsPerTrigger",
        "Wait for so many offsets before a micro-batch is run, but not longer than "
        "`maxTriggerDelay`. Ignored by the triggers AvailableNow and Once.",
        "a whole number above 0",
        parse_count,
    ),
    Option(
        "maxTriggerDelay",
        "How long `minOffsetsPerTrigger` may hold messages back.",
        f"a duration such as 15m, {LONGEST_DURATION}",
        parse_duration_ms,
        default="15m",
    ),
)

_OWNERSHIP: Final[Sequence[Option]] = (
    Option(
        "leaseMode",
        "`exclusive`: the query owns every queue of its topics, or fails. `shared`: it is one "
        "member of the group and owns its share, beside Java's orderly consumers and other "
        "queries; queues change hands between batches, and a batch that is repeated after a "
        "restart may have been read by somebody else too. `none`: no ownership, several readers "
        "may read the same queues. Stream default `exclusive`, batch default `none`.",
        "exclusive, shared or none",
        LeaseMode,
    ),
    Option(
        "leaseTimeout",
        "How long to wait for queues that another client of the group still holds.",
        f"a duration such as 90s, {LONGEST_DURATION}",
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
)

_ROWS: Final[Sequence[Option]] = (
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
    Option(
        "valueFormat",
        "What the `value` column is made of: the bytes, UTF-8 text, or JSON or MessagePack "
        "objects with the fields of `valueSchema`.",
        "raw, string, json or msgpack",
        ValueFormat,
        default="raw",
    ),
    Option(
        "valueSchema",
        "The fields of `value` for `json` and `msgpack`. A field that is missing in a message is "
        "null (a decode error where it is `NOT NULL`), one that is not listed is left out, one of "
        "another type is a decode error.",
        "columns in Spark's DDL, for example 'id bigint, items array<string>'",
        parse_words,
    ),
    Option(
        "onDecodeError",
        "A body that is damaged or not of its `valueFormat`: fail the query, make `value` null "
        "and give the reason in a column `_error`, or send the message to the group's dead-letter "
        "topic (at least once) and leave the row out.",
        "fail, null or dlq",
        DecodeErrors,
        default="fail",
    ),
)

SOURCE_OPTIONS: Final[Sequence[Option]] = (
    NAME_SERVER,
    *_SELECTION,
    *_BOUNDARIES,
    *_ADMISSION,
    *_OWNERSHIP,
    *POP_OPTIONS,
    *_ROWS,
    REQUEST_TIMEOUT,
    *SECURITY_OPTIONS,
)

# Given to a batch read these would do nothing, and given to a stream neither would the others.
STREAM_ONLY: Final = frozenset(
    {
        "maxOffsetsPerTrigger",
        "maxBytesPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "leaseTimeout",
        "instanceId",
    }
)
BATCH_ONLY: Final = frozenset({"endingOffsets", "endingTimestamp"})
