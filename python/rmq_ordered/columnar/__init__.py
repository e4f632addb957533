"""Bytes to Arrow: pulled records become record batches without a Python object per message.

``rmq_ordered.protocol.message`` says what the bytes mean, one message at a time; this package says
the same with numpy and pyarrow, all messages at once, and a property test holds the two together.
Every length in a record is the peer's word: it is checked against the record's end before it is
used.
"""

from rmq_ordered.columnar.decode import DecodeOptions, decode_in_parts, decode_pull_body
from rmq_ordered.columnar.ranges import clip, ensure_rising, skip_records
from rmq_ordered.columnar.schema import (
    ERROR_COLUMN,
    MESSAGE_COLUMNS,
    PROPERTIES_COLUMN,
    message_schema,
)

__all__ = [
    "ERROR_COLUMN",
    "MESSAGE_COLUMNS",
    "PROPERTIES_COLUMN",
    "DecodeOptions",
    "clip",
    "decode_in_parts",
    "decode_pull_body",
    "ensure_rising",
    "message_schema",
    "skip_records",
]
