"""What a source was asked to do: the checked options as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rmq_ordered.errors import OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.options.boundaries import (
    Boundary,
    StartPosition,
    ending_boundary,
    starting_boundary,
)
from rmq_ordered.options.connection import ConnectionOptions
from rmq_ordered.options.popping import PopOptions, pop_options
from rmq_ordered.options.source_table import (
    BATCH_ONLY,
    SOURCE_OPTIONS,
    STREAM_ONLY,
    DecodeErrors,
    LeaseMode,
    ValueFormat,
)
from rmq_ordered.options.table import explicit_names, parse_table

_STRUCTURED: Final = (ValueFormat.JSON, ValueFormat.MSGPACK)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which queues: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()


@dataclass(frozen=True, slots=True)
class Admission:
    """How much a micro-batch may, or must, have."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 900_000


@dataclass(frozen=True, slots=True)
class RowOptions:
    """What the rows look like."""

    key_property: str
    include_properties: bool
    value_format: ValueFormat
    value_schema: str | None
    on_decode_error: DecodeErrors


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a source was asked to do. Plain and picklable; holds no secret.

    ``popping`` is None for a source that pulls.
    """

    connection: ConnectionOptions
    selection: Selection
    wait_for_topic_ms: int | None
    tags: tuple[str, ...] | None
    sql92: str | None
    group: str | None
    starting: Boundary
    ending: Boundary
    fail_on_data_loss: bool
    admission: Admission
    lease_mode: LeaseMode
    lease_timeout_ms: int
    instance_id: str | None
    rows: RowOptions
    popping: PopOptions | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Check and convert, or raise OptionError naming option, found and expected."""
        values = parse_table(SOURCE_OPTIONS, options)
        given = explicit_names(SOURCE_OPTIONS, options)
        _ensure_combinations(values)
        popping = pop_options(values, given, streaming=streaming)
        _ensure_kind(given, values, streaming=streaming)
        starting = starting_boundary(values, given, streaming=streaming)
        is_owning = streaming and popping is None
        lease_mode = values["leaseMode"] or (LeaseMode.EXCLUSIVE if is_owning else LeaseMode.NONE)
        _ensure_group(values["group"], starting, lease_mode)
        return cls(
            connection=ConnectionOptions.of(values),
            selection=_selection(values),
            wait_for_topic_ms=values["waitForTopic"],
            tags=values["tags"],
            sql92=values["sql92"],
            group=values["group"],
            starting=starting,
            ending=ending_boundary(values),
            fail_on_data_loss=values["failOnDataLoss"],
            admission=_admission(values),
            lease_mode=lease_mode,
            lease_timeout_ms=values["leaseTimeout"],
            instance_id=values["instanceId"],
            rows=_rows(values),
            popping=popping,
        )


def parse_rows(options: Mapping[str, str]) -> RowOptions:
    """What the rows look like; checks everything that does not depend on stream or batch."""
    values = parse_table(SOURCE_OPTIONS, options)
    _ensure_combinations(values)
    # What contradicts popping contradicts it in a stream, and a batch read cannot pop at all.
    pop_options(values, explicit_names(SOURCE_OPTIONS, options), streaming=True)
    ConnectionOptions.of(values)
    return _rows(values)


def _selection(values: Mapping[str, Any]) -> Selection:
    return Selection(values["subscribe"] or (), values["subscribePattern"], values["assign"] or ())


def _admission(values: Mapping[str, Any]) -> Admission:
    return Admission(
        values["maxOffsetsPerTrigger"],
        values["maxBytesPerTrigger"],
        values["minOffsetsPerTrigger"],
        values["maxTriggerDelay"],
    )


def _rows(values: Mapping[str, Any]) -> RowOptions:
    return RowOptions(
        values["keyFrom"],
        values["includeProperties"],
        values["valueFormat"],
        values["valueSchema"],
        values["onDecodeError"],
    )


def _ensure_combinations(values: Mapping[str, Any]) -> None:
    """What contradicts itself in a stream as in a batch read."""
    chosen = [n for n in ("subscribe", "subscribePattern", "assign") if values[n] is not None]
    if len(chosen) != 1:
        found = " and ".join(chosen) or None
        raise OptionError(
            "subscribe", found, "one of subscribe, subscribePattern and assign; it must be set"
        )
    if values["tags"] is not None and values["sql92"] is not None:
        raise OptionError("sql92", values["sql92"], "only one of tags and sql92")
    value_format, value_schema = values["valueFormat"], values["valueSchema"]
    if value_format in _STRUCTURED and value_schema is None:
        raise OptionError(
            "valueSchema",
            None,
            f"the fields of the value, because valueFormat={value_format}; "
            "for the bare text use valueFormat=string",
        )
    if value_format not in _STRUCTURED and value_schema is not None:
        raise OptionError("valueSchema", value_schema, "valueFormat json or msgpack beside it")
    if values["onDecodeError"] is DecodeErrors.DLQ and values["group"] is None:
        raise OptionError("group", None, "a consumer group, because onDecodeError=dlq writes to its"
                          " dead-letter topic")  # fmt: skip


def _ensure_kind(given: frozenset[str], values: Mapping[str, Any], *, streaming: bool) -> None:
    """What makes no sense in a stream, or in a batch read."""
    misplaced = sorted(given & (BATCH_ONLY if streaming else STREAM_ONLY))
    if misplaced:
        name = misplaced[0]
        kind, other = ("stream", "batch read") if streaming else ("batch read", "stream")
        raise OptionError(name, values[name], f"this option in a {other} only, not in a {kind}")
    if values["leaseMode"] not in (None, LeaseMode.NONE) and not streaming:
        raise OptionError(
            "leaseMode",
            str(values["leaseMode"]),
            "none for a batch read: Spark gives it no process that could renew leases",
        )
    if values["leaseMode"] is LeaseMode.SHARED:
        _ensure_shareable(given)
    if values["leaseMode"] is LeaseMode.NONE:
        _ensure_unowned(values, given)
    fewest, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if fewest is not None and most is not None and fewest > most:
        raise OptionError("minOffsetsPerTrigger", fewest, f"at most maxOffsetsPerTrigger={most}")
    if "maxTriggerDelay" in given and fewest is None:
        raise OptionError("maxTriggerDelay", values["maxTriggerDelay"],
                          "minOffsetsPerTrigger beside it")  # fmt: skip


def _ensure_shareable(given: frozenset[str]) -> None:
    """A member takes what the others leave it, where the group stands."""
    reasons = {
        "startingOffsets": "no startingOffsets: queues are taken over where the group stands "
        "(startingOffsetsFallback where it never was)",
        "startingTimestamp": "no startingTimestamp: queues are taken over where the group stands",
        "assign": "subscribe or subscribePattern: the group's members share the queues out",
        "instanceId": "no instanceId: a new run is a new member, and the old one's share is "
        "shared out again",
    }
    for name, reason in reasons.items():
        if name in given:
            raise OptionError(name, None, f"{reason}, because leaseMode=shared")


def _ensure_unowned(values: Mapping[str, Any], given: frozenset[str]) -> None:
    """Without ownership there is nothing to wait for and nothing to take over."""
    modes = {"leaseTimeout": "exclusive or shared", "instanceId": "exclusive"}
    for name, owning in modes.items():
        if name in given:
            raise OptionError(
                name, values[name], f"leaseMode {owning} beside it: leaseMode=none owns no queue"
            )


def _ensure_group(group: str | None, starting: Boundary, lease_mode: LeaseMode) -> None:
    if group is None and lease_mode is not LeaseMode.NONE:
        raise OptionError(
            "group",
            None,
            f"a consumer group, because leaseMode={lease_mode} owns queues in its name",
        )
    if group is None and starting.position is StartPosition.GROUP:
        raise OptionError(
            "group", None, "a consumer group, because startingOffsets=group reads its offsets"
        )
