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

from rmq_ordered.columnar.batches import has_batches, unfold_batches
from rmq_ordered.columnar.bodies import Damage, body_column, stored_bodies, verify_checksums
from rmq_ordered.columnar.boundaries import TooMuchAtOnce, split_records
from rmq_ordered.columnar.fields import read_fields
from rmq_ordered.columnar.ids import message_id_column
from rmq_ordered.columnar.origin import ensure_origin
from rmq_ordered.columnar.properties import parse_properties
from rmq_ordered.columnar.ranges import ensure_offsets_rise
from rmq_ordered.columnar.schema import (
    ERROR_COLUMN,
    MESSAGE_COLUMNS,
    OFFSET_COLUMN,
    PROPERTIES_COLUMN,
    TIMESTAMP,
    message_schema,
)
from rmq_ordered.columnar.slices import repeat_text
from rmq_ordered.errors import OptionError
from rmq_ordered.protocol.properties import (
    PROPERTY_KEYS,
    PROPERTY_SHARDING_KEY,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmq_ordered.columnar.boundaries import Records
    from rmq_ordered.columnar.fields import Fields
    from rmq_ordered.columnar.slices import Integers
    from rmq_ordered.model import MessageQueue

_MICROS_PER_MILLI: Final = 1000
_MAX_MILLIS: Final = (2**63 - 1) // _MICROS_PER_MILLI
_PROPERTY_COLUMNS: Final = frozenset({"key", "tags", "index_keys", "message_id", PROPERTIES_COLUMN})


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a decoded batch holds.

    Attributes:
        key_from: The property that becomes ``key``.
        include_properties: Add the map of all properties.
        verify_crc: Check each stored body against its record's CRC.
        verify_origin: Check that each record is of the topic and queue that was asked for.
        tag_filter: Keep only messages with one of these tags, as Java's clients do after the
            broker's filter, which compares hashes. ``None`` or an empty set keeps all.
        columns: Of ``MESSAGE_COLUMNS``, only these and ``offset``; ``None`` means all. Where no
            property is asked for, properties are not looked at.
        collect_errors: A body that fails its checksum or does not expand becomes a null ``value``
            with the reason in the column ``_error``, instead of an exception. A record that lies
            about its structure, and a damaged inner batch, are exceptions in any case.
    """

    key_from: str = PROPERTY_SHARDING_KEY
    include_properties: bool = False
    verify_crc: bool = True
    verify_origin: bool = True
    tag_filter: frozenset[str] | None = None
    columns: frozenset[str] | None = None
    collect_errors: bool = False

    def __post_init__(self) -> None:
        try:
            self.key_from.encode()
        except UnicodeEncodeError as error:
            expected = "the name of a property, in Unicode"
            raise OptionError("keyFrom", self.key_from, expected) from error
        unknown = (self.columns or frozenset()) - frozenset(MESSAGE_COLUMNS)
        if unknown:
            expected = f"names out of {', '.join(MESSAGE_COLUMNS)}"
            raise OptionError("columns", ", ".join(sorted(unknown)), expected)

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch decoded with these options."""
        return message_schema(
            include_properties=self.include_properties,
            include_errors=self.collect_errors,
            columns=self.columns,
        )


_DEFAULT_OPTIONS: Final = DecodeOptions()


def decode_pull_body(
    body: bytes | memoryview, queue: MessageQueue, options: DecodeOptions = _DEFAULT_OPTIONS
) -> pa.RecordBatch:
    """Decodes the records of one queue into a batch of ``options.schema``.

    A timestamp that microseconds cannot express is null: producers write what they like.

    Raises:
        RemoteProtocolError: a record is malformed, fails its checksum or is of another queue;
            nothing is returned.
        LocalProtocolError: it is too much for one batch; ``decode_in_parts`` makes several.
        QueueGap: queue offsets repeat, go back or are negative.
    """
    records = split_records(body, queue)
    schema = options.schema
    if not len(records):
        return pa.RecordBatch.from_pylist([], schema=schema)
    fields = read_fields(records)
    if has_batches(fields):
        unfolded = unfold_batches(records, fields, verify_crc=options.verify_crc)
        records = split_records(unfolded, queue)
        fields = read_fields(records)
    if options.verify_origin:
        ensure_origin(records, fields)
    ensure_offsets_rise(fields.queue_offsets, queue)
    damage = Damage(records, is_collected=options.collect_errors)
    wanted = {*schema.names, *(("tags",) if options.tag_filter else ())}
    columns = _fixed_columns(records, fields, wanted)
    if wanted & _PROPERTY_COLUMNS:
        columns |= _property_columns(records, fields, wanted, options)
    if "value" in wanted or options.verify_crc:
        stored = stored_bodies(records, fields)
        if options.verify_crc:
            verify_checksums(stored, fields, damage)
        if "value" in wanted:
            columns["value"] = body_column(stored, fields, damage)
    if options.collect_errors:
        columns[ERROR_COLUMN] = damage.column()
    batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    if not options.tag_filter:
        return batch
    return batch.filter(pc.is_in(columns["tags"], value_set=_tag_values(options.tag_filter)))


def decode_in_parts(
    body: bytes | memoryview, queue: MessageQueue, options: DecodeOptions = _DEFAULT_OPTIONS
) -> Iterator[pa.RecordBatch]:
    """The same rows in as many batches as it takes: few kilobytes may expand to gigabytes."""
    whole = _decode_if_small(body, queue, options)
    if whole is not None:
        yield whole
        return
    starts = split_records(body, queue).starts
    middle = int(starts[starts.size // 2])
    yield from decode_in_parts(memoryview(body)[:middle], queue, options)
    yield from decode_in_parts(memoryview(body)[middle:], queue, options)


def _decode_if_small(
    body: bytes | memoryview, queue: MessageQueue, options: DecodeOptions
) -> pa.RecordBatch | None:
    # A function of its own: while an exception lives, so does everything expanded so far.
    try:
        return decode_pull_body(body, queue, options)
    except TooMuchAtOnce:
        return None


def _fixed_columns(records: Records, fields: Fields, wanted: set[str]) -> dict[str, pa.Array]:
    queue, count = records.queue, len(records)
    makers: dict[str, Callable[[], pa.Array]] = {
        "topic": lambda: repeat_text(queue.topic, count),
        "broker": lambda: repeat_text(queue.broker_name, count),
        "queue": lambda: pa.array(np.full(count, queue.queue_id, np.int32)),
        OFFSET_COLUMN: lambda: pa.array(fields.queue_offsets),
        "timestamp": lambda: _timestamps(fields.store_ms),
        "born_timestamp": lambda: _timestamps(fields.born_ms),
        "reconsume_times": lambda: pa.array(fields.reconsume_times),
    }
    return {name: make() for name, make in makers.items() if name in wanted}


def _property_columns(
    records: Records, fields: Fields, wanted: set[str], options: DecodeOptions
) -> dict[str, pa.Array]:
    properties = parse_properties(records, fields)
    makers: dict[str, Callable[[], pa.Array]] = {
        "key": lambda: properties.select(options.key_from),
        "tags": lambda: properties.select(PROPERTY_TAGS),
        "index_keys": lambda: properties.select(PROPERTY_KEYS),
        "message_id": lambda: message_id_column(
            properties.select(PROPERTY_UNIQ_KEY), records, fields
        ),
        PROPERTIES_COLUMN: properties.as_map,
    }
    return {name: make() for name, make in makers.items() if name in wanted}


@lru_cache
def _tag_values(tags: frozenset[str]) -> pa.Array:
    return pa.array(sorted(tags), pa.string())


def _timestamps(millis: Integers) -> pa.Array:
    is_valid = (millis <= _MAX_MILLIS) & (millis >= -_MAX_MILLIS)
    if is_valid.all():
        return pa.array(millis * _MICROS_PER_MILLI).view(TIMESTAMP)
    micros = np.where(is_valid, millis, 0) * _MICROS_PER_MILLI
    return pa.array(micros, mask=~is_valid).view(TIMESTAMP)
