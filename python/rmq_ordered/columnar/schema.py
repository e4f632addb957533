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
ERROR_COLUMN: Final = "_error"
# Readers cut batches by it.
OFFSET_COLUMN: Final = "offset"


@cache
def message_schema(
    *,
    include_properties: bool = False,
    include_errors: bool = False,
    columns: frozenset[str] | None = None,
) -> pa.Schema:
    """The schema of decoded batches.

    Args:
        include_properties: Add the map of all properties.
        include_errors: Add what is wrong with a row's body, as the last column.
        columns: Of ``MESSAGE_COLUMNS``, only these and ``offset``.
    """
    fields = [
        field
        for field in _FIELDS
        if columns is None or field.name in columns or field.name == OFFSET_COLUMN
    ]
    if include_properties:
        fields.append(pa.field(PROPERTIES_COLUMN, PROPERTIES))
    if include_errors:
        fields.append(pa.field(ERROR_COLUMN, pa.string()))
    return pa.schema(fields)
