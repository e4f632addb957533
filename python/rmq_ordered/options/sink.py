"""The options of the sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rmq_ordered.errors import OptionError
from rmq_ordered.model import (
    MAX_MESSAGE_BYTES,
    MAX_SINK_CHARACTERS,
    Compression,
    OnDivergence,
    OnLayoutChange,
    Selector,
)
from rmq_ordered.options.connection import (
    NAME_SERVER,
    REQUEST_TIMEOUT,
    SECURITY_OPTIONS,
    ConnectionOptions,
)
from rmq_ordered.options.source_table import ValueFormat
from rmq_ordered.options.table import Option, explicit_names, parse_table
from rmq_ordered.options.values import (
    LONGEST_DURATION,
    parse_bytes,
    parse_duration_ms,
    parse_flag,
    parse_topic,
    parse_words,
)

# Of a sink's name in a stamp, without '.', which marks batches that were sent again.
_SINK_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
)
_MAX_BATCH_DIGITS: Final = 17


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was asked to do.

    Attributes:
        topic: where all rows go; None takes the column ``topic``.
        sink_id: with ``batch_id``: who writes which batch, where Spark does not say it.
    """

    connection: ConnectionOptions
    topic: str | None
    send_timeout_ms: int
    selector: Selector = Selector.HASH
    key_column: str = "key"
    sequence_column: str | None = None
    value_format: ValueFormat = ValueFormat.RAW
    compression: Compression = Compression.NONE
    compress_over_bytes: int = 4_096
    batch_bytes: int = 1024 * 1024
    buffer_bytes: int = 16 * 1024 * 1024
    idempotent: bool = True
    on_replay_divergence: OnDivergence = OnDivergence.FAIL
    on_queue_layout_change: OnLayoutChange = OnLayoutChange.FAIL
    sink_id: str | None = None
    batch_id: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
        """Check and convert, or raise OptionError naming option, found and expected."""
        values = parse_table(SINK_OPTIONS, options)
        _ensure_identity(values, streaming=streaming)
        _ensure_effect(values, explicit_names(SINK_OPTIONS, options))
        return cls(
            connection=ConnectionOptions.of(values),
            topic=values["topic"],
            send_timeout_ms=values["sendTimeout"],
            selector=values["selector"],
            key_column=values["keyColumn"],
            sequence_column=values["sequenceColumn"],
            value_format=values["valueFormat"],
            compression=values["compression"],
            compress_over_bytes=values["compressOverBytes"],
            batch_bytes=values["batchBytes"],
            buffer_bytes=values["bufferBytes"],
            idempotent=values["idempotent"],
            on_replay_divergence=values["onReplayDivergence"],
            on_queue_layout_change=values["onQueueLayoutChange"],
            sink_id=values["sinkId"],
            batch_id=values["batchId"],
        )


def _ensure_identity(values: Mapping[str, Any], *, streaming: bool) -> None:
    for name, other in (("sinkId", "batchId"), ("batchId", "sinkId")):
        if values[name] is None:
            continue
        if streaming:
            raise OptionError(
                name,
                values[name],
                "this option only inside foreachBatch: a stream is known by its checkpoint",
            )
        if values[other] is None:
            raise OptionError(other, None, f"a value, because {name} is set: both, or neither")
        if not values["idempotent"]:
            raise OptionError(name, values[name], "idempotent=true with it, or neither id")


def _ensure_effect(values: Mapping[str, Any], given: frozenset[str]) -> None:
    """What was asked for must change something."""
    if "compressOverBytes" in given and values["compression"] is Compression.NONE:
        raise OptionError(
            "compressOverBytes",
            values["compressOverBytes"],
            "a compression beside it: with compression=none no body is compressed",
        )
    if "onReplayDivergence" in given and not values["idempotent"]:
        raise OptionError(
            "onReplayDivergence",
            str(values["onReplayDivergence"]),
            "idempotent=true beside it: without it a replay is not recognised",
        )


def _choice(name: str, description: str, kinds: type[StrEnum], default: StrEnum) -> Option:
    """An option whose words are those of a type."""
    *others, last = (kind.value for kind in kinds)
    words = f"{', '.join(others)} or {last}"
    return Option(
        name, description, words, lambda text: kinds(text.strip().lower()), default=default.value
    )


def _parse_batch_bytes(text: str) -> int:
    count = parse_bytes(text)
    if count > MAX_MESSAGE_BYTES:
        raise ValueError(text)
    return count


def _parse_sink_id(text: str) -> str:
    name = text.strip()
    # It is part of a consumer group's name and of every message's stamp.
    if not 0 < len(name) <= MAX_SINK_CHARACTERS or not set(name) <= _SINK_CHARACTERS:
        raise ValueError(text)
    return name


def _parse_batch_id(text: str) -> int:
    if not text.strip().isdecimal() or len(text.strip()) > _MAX_BATCH_DIGITS:
        raise ValueError(text)
    return int(text)


SINK_OPTIONS: Final[Sequence[Option]] = (
    NAME_SERVER,
    Option(
        "topic",
        "Topic to write; without it the column `topic` says where each row goes. Topics must "
        "exist: their number of queues decides where keys go.",
        "a topic name (letters, digits, '_', '-', '%', '|'; at most 127 characters)",
        parse_topic,
    ),
    _choice(
        "selector",
        "Which queue a row goes to. `hash`: as Java's SelectMessageQueueByHash. `consistent`: as "
        "the RocketMQ 5 proxy does for message groups. `queue`: the column `queue` (and `broker` "
        "where there are several). `roundrobin`: rows without keys, in no order.",
        Selector,
        Selector.HASH,
    ),
    Option(
        "keyColumn",
        "The column with the sharding key.",
        "a column name",
        parse_words,
        default="key",
    ),
    Option(
        "sequenceColumn",
        "Sorts the rows of each task by this column before they are sent (rows of one key and "
        "number stay as they came): for inputs that went through a shuffle. Holds the task's rows "
        "in memory.",
        "a column name",
        parse_words,
    ),
    _choice(
        "valueFormat",
        "How `value` becomes a body: `raw` and `string` take it as it is; `json` and `msgpack` "
        "encode a struct.",
        ValueFormat,
        ValueFormat.RAW,
    ),
    _choice(
        "compression",
        "Of large bodies. Java clients before 5.0 read zlib only.",
        Compression,
        Compression.NONE,
    ),
    Option(
        "compressOverBytes",
        "A batch is compressed when most of its bytes are in bodies at least this large.",
        "a number of bytes above 0 and below 2^63, also as 64k or 16m",
        parse_bytes,
        default="4k",
    ),
    Option(
        "batchBytes",
        "Most bytes of one request.",
        "a number of bytes of at most 4m, RocketMQ's limit",
        _parse_batch_bytes,
        default="1m",
    ),
    Option(
        "bufferBytes",
        "How much of one topic a task holds before it waits for the broker.",
        "a number of bytes above 0 and below 2^63, also as 64k or 16m",
        parse_bytes,
        default="16m",
    ),
    Option(
        "idempotent",
        "`true`: a retried or replayed batch adds nothing twice. `false`: plain at least once.",
        "true or false",
        parse_flag,
        default="true",
    ),
    _choice(
        "onReplayDivergence",
        "What to do when a replayed batch has other rows, or another order, than what landed "
        "before: `fail`, or `resend` all of its rows.",
        OnDivergence,
        OnDivergence.FAIL,
    ),
    _choice(
        "onQueueLayoutChange",
        "What to do when queues that keys were given to are gone for longer than `sendTimeout`: "
        "`fail`, or `rehash`, which moves keys to other queues. Queues that were added are used "
        "with `rehash` only, from the next batch on.",
        OnLayoutChange,
        OnLayoutChange.FAIL,
    ),
    Option(
        "sinkId",
        "For writes inside `foreachBatch`, together with `batchId`: a name that stays the same and "
        "that no other write uses. Streams and plain batch writes have their own.",
        "1 to 58 letters, digits, '_' or '-'",
        _parse_sink_id,
    ),
    Option(
        "batchId",
        "The batch number that `foreachBatch` was given.",
        "a whole number",
        _parse_batch_id,
    ),
    Option(
        "sendTimeout",
        "How long one batch of messages may keep being refused or unanswered before the task "
        "fails.",
        f"a duration such as 30s, {LONGEST_DURATION}",
        parse_duration_ms,
        default="30s",
    ),
    REQUEST_TIMEOUT,
    *SECURITY_OPTIONS,
)
