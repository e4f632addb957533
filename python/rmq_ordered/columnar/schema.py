"""The columns of a decoded message, as Arrow types.

Equal to what Spark makes of the same columns with the time zone UTC, so that batches pass to Spark
as they are: Spark compares names, types, nullability and the names inside a map.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import pyarrow as pa

# Both as Spark has them: microseconds in a zone, map values that may be null.
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())

_FIELDS: Final = (
    pa.field("key", pa.string()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("broker", pa.string()),
    pa.field("queue", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
    pa.field("born_timestamp", TIMESTAMP),
    pa.field("tags", pa.string()),
    pa.field("index_keys", pa.string()),
    pa.field("message_id", pa.string()),
    pa.field("reconsume_times", pa.int32()),
)

MESSAGE_COLUMNS: Final[tuple[str, ...]] = tuple(field.name for field in _FIELDS)
PROPERTIES_COLUMN: Final = "properties"


@cache
def message_schema(*, include_properties: bool = False) -> pa.Schema:
    """The schema of decoded batches; the map of all properties is the last column, if asked for."""
    extra = (pa.field(PROPERTIES_COLUMN, PROPERTIES),) if include_properties else ()
    return pa.schema([*_FIELDS, *extra])
