"""Rows to be sent, from Arrow columns to bodies and encoded properties, all rows at once.

The same rules as ``rmq_ordered.protocol.properties.encode_properties``. What tells who sends a row
(UNIQ_KEY, stamp) is not here: ``rmq_ordered.columnar.records`` adds it when the row leaves. Every
error names the row's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmq_ordered.columnar.digest import Hashes, lengths, row_hashes
from rmq_ordered.columnar.slices import NOTHING, join_rows, zeros
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import MAX_MESSAGE_BYTES, OutgoingMessage
from rmq_ordered.protocol import properties as names
from rmq_ordered.protocol.properties import MAX_PROPERTIES_BYTES, encode_properties
from rmq_ordered.protocol.stamps import STAMP_PROPERTY

if TYPE_CHECKING:
    from rmq_ordered.columnar.slices import Flags, Integers

# UNIQ_KEY, and the longest stamp as brokers store it (sink of 64, three numbers of
# 18, digest of 16, count of 10 characters).
_IDENTITY_BYTES: Final = 42 + 11 + 64 + 3 * 19 + 17 + 11 + 1
# Room for what a broker adds to a single message: region, trace flag, cluster name, WAIT.
_BROKER_BYTES: Final = 512
_MOST_PROPERTIES_BYTES: Final = MAX_PROPERTIES_BYTES - _IDENTITY_BYTES - _BROKER_BYTES

# A message that was read has these from whoever stored it; they mean nothing for the next one.
_DROPPED: Final = frozenset(
    {
        names.PROPERTY_UNIQ_KEY,
        names.PROPERTY_WAIT,
        names.PROPERTY_POP_CK,
        names.PROPERTY_FIRST_POP_TIME,
        STAMP_PROPERTY,
        "MSG_REGION",
        "TRACE_ON",
        "CLUSTER",
        "MIN_OFFSET",
        "MAX_OFFSET",
        "CONSUME_START_TIME",
    }
)
# Their messages land later than others that were sent after them.
_REFUSED: Final = frozenset(
    {
        names.PROPERTY_DELAY,
        "TIMER_DELIVER_MS",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TRAN_MSG",
    }
)
_NAME_END: Final = pa.scalar(b"\x01", pa.binary())
_PAIR_END: Final = pa.scalar(b"\x02", pa.binary())
_DROPPED_NAMES: Final = pa.array(sorted(_DROPPED))
_REFUSED_NAMES: Final = pa.array(sorted(_REFUSED))
_NAMED_COLUMNS: Final = (
    ("tags", names.PROPERTY_TAGS),
    ("index_keys", names.PROPERTY_KEYS),
    ("key", names.PROPERTY_SHARDING_KEY),
)


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Rows in their order: bodies, encoded properties and user flags."""

    bodies: pa.Array
    properties: pa.Array
    flags: Integers

    def __len__(self) -> int:
        return len(self.flags)

    def hashes(self) -> Hashes:
        """A number per row that depends on all of it; only stamps need it, so it is not kept."""
        return row_hashes(self.bodies, self.properties, self.flags)

    @property
    def nbytes(self) -> int:
        """About how much memory the rows take."""
        return int(self.body_bytes.sum() + lengths(self.properties).sum())

    @property
    def body_bytes(self) -> Integers:
        """Size of each body."""
        return lengths(self.bodies)

    @property
    def content_bytes(self) -> Integers:
        """Size of each row's body and properties together."""
        return self.body_bytes + lengths(self.properties)

    @property
    def first_key(self) -> str | None:
        """The sharding key of the first row, for errors; None if it has none."""
        for pair in self.properties[0].as_py().split(b"\x02") if len(self) else ():
            name, _, value = pair.partition(b"\x01")
            if name == names.PROPERTY_SHARDING_KEY.encode():
                return str(value, "utf-8", "replace")
        return None

    def slice(self, start: int, end: int) -> OutgoingRows:
        """Rows ``[start, end)``; nothing is copied."""
        count = end - start
        return OutgoingRows(
            self.bodies.slice(start, count),
            self.properties.slice(start, count),
            self.flags[start:end],
        )


def rows_from_columns(rows: pa.RecordBatch) -> OutgoingRows:
    """The rows of a batch with the columns of the sink.

    Args:
        rows: ``value`` (binary or string), and optionally ``key``, ``tags``, ``index_keys``
            (strings) and ``properties`` (map of strings to strings). Other columns are not looked
            at. Null means absent, except in ``value``.

    Raises:
        LocalProtocolError: a row cannot be sent; the sentence has its key.
    """
    keys = column(rows, "key")
    bodies = rows.column("value").cast(pa.binary())
    if bodies.null_count:
        row = bodies.is_null().index(True).as_py()
        raise LocalProtocolError(
            f"the row with key {_key(keys, row)} has the value null, expected bytes or text"
        )
    pieces = [_map_properties(rows, keys)]
    for name, property_name in _NAMED_COLUMNS:
        values = column(rows, name)
        if values is not None:
            pieces.append(_named(property_name, name, values, keys))
    given = [piece for piece in pieces if piece is not None]
    properties = join_rows(*given) if given else zeros(np.zeros(len(bodies), np.int64))
    flags = np.zeros(len(bodies), np.int64)
    _ensure_sizes(bodies, properties, keys)
    return OutgoingRows(bodies, properties, flags)


def rows_from_messages(messages: Sequence[OutgoingMessage]) -> OutgoingRows:
    """The same of messages, one by one.

    Raises:
        LocalProtocolError: a message cannot be sent.
    """
    encoded = [_encoded(message) for message in messages]
    keys = pa.array([message.properties.get(names.PROPERTY_SHARDING_KEY) for message in messages])
    bodies = pa.array([message.body for message in messages], pa.binary())
    properties = pa.array(encoded, pa.binary())
    flags = np.array([message.flag for message in messages], np.int64)
    _ensure_sizes(bodies, properties, keys)
    return OutgoingRows(bodies, properties, flags)


def column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """A text column as plain strings, or None if there is none."""
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index).cast(pa.string())


def _named(property_name: str, name: str, values: pa.Array, keys: pa.Array | None) -> pa.Array:
    """``NAME 01 value 02`` in every row that has the value, nothing in the others."""
    texts = values.cast(pa.binary())
    _ensure_no_separators(texts, name, None, keys)
    joined = join_rows(pa.scalar(f"{property_name}\x01".encode(), pa.binary()), texts, _PAIR_END)
    return joined.fill_null(NOTHING) if joined.null_count else joined


def _map_properties(rows: pa.RecordBatch, keys: pa.Array | None) -> pa.Array | None:
    index = rows.schema.get_field_index("properties")
    if index < 0:
        return None
    maps = rows.column(index)
    texts = pa.map_(pa.string(), pa.string())
    maps = maps if maps.type == texts else maps.cast(texts)
    # Flattening leaves out the entries of null maps, so rows are counted by hand.
    counts = pc.fill_null(pc.list_value_length(_as_lists(maps)), 0).to_numpy()
    owners = np.repeat(np.arange(len(maps)), counts)
    entries = _as_lists(maps).flatten()
    entry_names, values = entries.field(0), entries.field(1)
    _ensure_entries(entry_names, values, owners, keys)
    is_kept: Flags = pc.invert(pc.is_in(entry_names, _DROPPED_NAMES)).to_numpy(zero_copy_only=False)
    if not is_kept.all():
        kept = pa.array(is_kept)
        entry_names, values, owners = entry_names.filter(kept), values.filter(kept), owners[is_kept]
        counts = np.bincount(owners, minlength=len(maps))
    texts_of_entries = join_rows(
        entry_names.cast(pa.binary()), _NAME_END, values.cast(pa.binary()), _PAIR_END
    )
    offsets = np.zeros(len(maps) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts_of_entries), NOTHING)


def _as_lists(maps: pa.MapArray) -> pa.ListArray:
    return maps.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))


def _ensure_entries(
    entry_names: pa.Array, values: pa.Array, owners: Integers, keys: pa.Array | None
) -> None:
    if values.null_count:
        at = values.is_null().index(True).as_py()
        raise LocalProtocolError(
            f"the row with key {_key(keys, int(owners[at]))} has null for the property "
            f"{entry_names[at].as_py()!r}, expected text"
        )
    is_empty = pc.equal(pc.binary_length(entry_names), 0)
    if pc.any(is_empty).as_py():
        at = is_empty.index(True).as_py()
        raise LocalProtocolError(
            f"the row with key {_key(keys, int(owners[at]))} has a property with an empty name: "
            "no reader would see it"
        )
    is_refused = pc.is_in(entry_names, _REFUSED_NAMES)
    if pc.any(is_refused).as_py():
        at = is_refused.index(True).as_py()
        raise _refused(_key(keys, int(owners[at])), entry_names[at].as_py())
    _ensure_no_separators(entry_names.cast(pa.binary()), "properties", owners, keys)
    _ensure_no_separators(values.cast(pa.binary()), "properties", owners, keys)


def _ensure_no_separators(
    texts: pa.Array, name: str, owners: Integers | None, keys: pa.Array | None
) -> None:
    data = texts.buffers()[2]
    if data is None or data.size == 0:
        return
    octets = np.frombuffer(data, np.uint8)
    # Looks at the whole buffer, also at what lies outside this slice: cheap, and rarely a hit.
    if not (octets - np.uint8(1) < 2).any():
        return
    for separator in (b"\x01", b"\x02"):
        is_hit = pc.fill_null(pc.match_substring(texts, separator), False)
        if pc.any(is_hit).as_py():
            at = is_hit.index(True).as_py()
            row = at if owners is None else int(owners[at])
            raise LocalProtocolError(
                f"{name} of the row with key {_key(keys, row)} holds byte 0x01 or 0x02, which "
                f"separate properties on the wire and cannot be escaped: {texts[at].as_py()!r}"
            )


def _ensure_sizes(bodies: pa.Array, properties: pa.Array, keys: pa.Array | None) -> None:
    body_bytes = lengths(bodies)
    if (body_bytes > MAX_MESSAGE_BYTES).any():
        row = int((body_bytes > MAX_MESSAGE_BYTES).argmax())
        raise LocalProtocolError(
            f"a message of {body_bytes[row]} bytes with key {_key(keys, row)} is over RocketMQ's "
            f"limit of {MAX_MESSAGE_BYTES} bytes; make it smaller"
        )
    property_bytes = lengths(properties)
    if (property_bytes > _MOST_PROPERTIES_BYTES).any():
        row = int((property_bytes > _MOST_PROPERTIES_BYTES).argmax())
        raise LocalProtocolError(
            f"the properties of the row with key {_key(keys, row)} take {property_bytes[row]} "
            f"bytes, but {_MOST_PROPERTIES_BYTES} is the most that fits beside those of the "
            "broker; shorten or drop some"
        )


def _encoded(message: OutgoingMessage) -> bytes:
    refused = _REFUSED & message.properties.keys()
    if refused:
        key = message.properties.get(names.PROPERTY_SHARDING_KEY)
        raise _refused(repr(key), min(refused))
    kept = {name: value for name, value in message.properties.items() if name not in _DROPPED}
    return encode_properties(kept)


def _refused(key: str, name: str) -> LocalProtocolError:
    return LocalProtocolError(
        f"the row with key {key} has the property {name!r}: a delayed or transactional message "
        "lands later than those sent after it, so it cannot be sent in order"
    )


def _key(keys: pa.Array | None, row: int) -> str:
    """A key as an error shows it."""
    key = None if keys is None else keys[row].as_py()
    return "null" if key is None else f"{key!r:.200}"
