"""Columns: what the source yields."""

from __future__ import annotations

from typing import Final

_SOURCE_COLUMNS: Final = (
    "key string, value binary, topic string, broker string, queue int, offset bigint, "
    "timestamp timestamp, born_timestamp timestamp, tags string, index_keys string, "
    "message_id string, reconsume_times int"
)
_PROPERTIES_COLUMN: Final = ", properties map<string,string>"


def source_schema(*, include_properties: bool) -> str:
    """The source's columns as a DDL string."""
    return _SOURCE_COLUMNS + (_PROPERTIES_COLUMN if include_properties else "")
