"""What a source was asked to do, checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmq_ordered.errors import OptionError
from rmq_ordered.options.source_table import SOURCE_OPTIONS, LeaseMode, StartPosition
from rmq_ordered.options.table import parse_table


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


def parse_source_table(options: Mapping[str, str]) -> dict[str, Any]:
    """Check each source option by itself, before it is known whether the read is a stream."""
    return parse_table(SOURCE_OPTIONS, options)


def _ensure_group(group: str | None, start: StartPosition, lease_mode: LeaseMode) -> None:
    if group is None and lease_mode is LeaseMode.EXCLUSIVE:
        raise OptionError(
            "group", None, "a consumer group, because leaseMode=exclusive owns queues in its name"
        )
    if group is None and start is StartPosition.GROUP:
        raise OptionError(
            "group", None, "a consumer group, because startingOffsets=group reads its offsets"
        )
