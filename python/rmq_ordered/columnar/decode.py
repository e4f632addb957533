"""From the body of a pull answer to an Arrow record batch.

A call costs some hundred microseconds whatever its size, so callers join the bodies of several
answers for one queue (``b"".join``) before they decode; records need no separator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.columnar.bodies import body_column, ensure_checksums
from rmq_ordered.columnar.boundaries import split_records
from rmq_ordered.columnar.fields import read_fields
from rmq_ordered.columnar.ids import message_id_column
from rmq_ordered.columnar.properties import parse_properties
from rmq_ordered.columnar.ranges import ensure_offsets_rise
from rmq_ordered.columnar.schema import PROPERTIES_COLUMN, TIMESTAMP, message_schema
from rmq_ordered.columnar.slices import repeat_text
from rmq_ordered.errors import OptionError
from rmq_ordered.protocol.properties import (
    PROPERTY_KEYS,
    PROPERTY_SHARDING_KEY,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
)

if TYPE_CHECKING:
    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Integers
    from rmq_ordered.model import MessageQueue

_MICROS_PER_MILLI: Final = 1000
_MAX_MILLIS: Final = (2**63 - 1) // _MICROS_PER_MILLI


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a decoded batch holds.

    Attributes:
        key_from: The property that becomes ``key``.
        include_properties: Add the map of all properties.
        verify_crc: Check each stored body against its record's CRC.
        tag_filter: Keep only messages with one of these tags, as Java's clients do after the
            broker's filter, which compares hashes. ``None`` or an empty set keeps all.
    """

    key_from: str = PROPERTY_SHARDING_KEY
    include_properties: bool = False
    verify_crc: bool = True
    tag_filter: frozenset[str] | None = None

    def __post_init__(self) -> None:
        try:
            self.key_from.encode()
        except UnicodeEncodeError as error:
            expected = "the name of a property, in Unicode"
            raise OptionError("keyFrom", self.key_from, expected) from error


_DEFAULT_OPTIONS: Final = DecodeOptions()


def decode_pull_body(
    body: bytes | memoryview, queue: MessageQueue, options: DecodeOptions = _DEFAULT_OPTIONS
) -> pa.RecordBatch:
    """Decodes the records of one queue into a batch of ``message_schema``.

    Topic, broker and queue are those that were asked for, not those in the records, as in Java's
    clients. A timestamp that microseconds cannot express is null: producers write what they like.

    Raises:
        RemoteProtocolError: a record is malformed or fails its checksum; nothing is returned.
        QueueGap: queue offsets repeat, go back or are negative.
    """
    records = split_records(body, queue)
    schema = message_schema(include_properties=options.include_properties)
    if not len(records):
        return pa.RecordBatch.from_pylist([], schema=schema)
    fields = read_fields(records)
    ensure_offsets_rise(fields.queue_offsets, queue)
    if options.verify_crc:
        ensure_checksums(records, fields)
    columns = _columns(records, fields, options)
    batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    if not options.tag_filter:
        return batch
    kept = pc.is_in(batch.column("tags"), value_set=_tag_values(options.tag_filter))
    return batch.filter(kept)


def _columns(records: Records, fields: Fields, options: DecodeOptions) -> dict[str, pa.Array]:
    queue, count = records.queue, len(records)
    properties = parse_properties(records, fields)
    columns = {
        "key": properties.select(options.key_from),
        "value": body_column(records, fields),
        "topic": repeat_text(queue.topic, count),
        "broker": repeat_text(queue.broker_name, count),
        "queue": pa.array(np.full(count, queue.queue_id, np.int32)),
        "offset": pa.array(fields.queue_offsets),
        "timestamp": _timestamps(fields.store_ms),
        "born_timestamp": _timestamps(fields.born_ms),
        "tags": properties.select(PROPERTY_TAGS),
        "index_keys": properties.select(PROPERTY_KEYS),
        "message_id": message_id_column(properties.select(PROPERTY_UNIQ_KEY), records, fields),
        "reconsume_times": pa.array(fields.reconsume_times),
    }
    if options.include_properties:
        columns[PROPERTIES_COLUMN] = properties.as_map()
    return columns


@lru_cache
def _tag_values(tags: frozenset[str]) -> pa.Array:
    return pa.array(sorted(tags), pa.string())


def _timestamps(millis: Integers) -> pa.Array:
    is_valid = (millis <= _MAX_MILLIS) & (millis >= -_MAX_MILLIS)
    if is_valid.all():
        return pa.array(millis * _MICROS_PER_MILLI).view(TIMESTAMP)
    micros = np.where(is_valid, millis, 0) * _MICROS_PER_MILLI
    return pa.array(micros, mask=~is_valid).view(TIMESTAMP)
