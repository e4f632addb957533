"""The columnar encoder and digest beside definitions that do one row at a time."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.columnar.digest import running_digests
from rmq_ordered.columnar.outgoing import rows_from_columns
from rmq_ordered.columnar.records import RecordIdentity, encode_records
from rmq_ordered.columnar.routing import consistent_indexes, hash_indexes
from rmq_ordered.model import MessageQueue, OutgoingMessage
from rmq_ordered.ordering.selector import consistent_index, hash_index
from rmq_ordered.protocol.message import encode_batch
from rmq_ordered.protocol.properties import encode_properties

QUEUE = MessageQueue("orders", "broker-a", 0)
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), max_size=12
)
NAMES = TEXTS.filter(lambda name: name and not name.isupper())
MOST_ROWS = 20
ROWS = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.none() | TEXTS,
        st.none() | TEXTS,
        st.none() | st.dictionaries(NAMES, TEXTS, max_size=3),
    ),
    min_size=1,
    max_size=MOST_ROWS,
)
# The last row's number is part of the message id: 40 bits.
FIRSTS = st.integers(0, 2**40 - MOST_ROWS)
MASK = 2**64 - 1
GOLDEN = 0x9E37_79B9_7F4A_7C15


def mixed(value: int) -> int:
    value = ((value ^ value >> 30) * 0xBF58_476D_1CE4_E5B9) & MASK
    value = ((value ^ value >> 27) * 0x94D0_49BB_1331_11EB) & MASK
    return value ^ value >> 31


def row_hash(body: bytes, properties: bytes) -> int:
    data = len(body).to_bytes(4, "little") + bytes(4) + body + properties
    data += bytes(-len(data) % 8)
    words = (int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8))
    placed = ((word + (n + 1) * GOLDEN) & MASK for n, word in enumerate(words))
    return mixed(sum((word & 0xFFFF_FFFF) * (word >> 32) for word in placed) & MASK)


@given(ROWS, FIRSTS, st.integers(0, MASK))
def test_columns_are_encoded_and_digested_as_defined(
    given_rows: list[tuple[bytes, str | None, str | None, dict[str, str] | None]],
    first: int,
    before: int,
) -> None:
    bodies, keys, tags, maps = zip(*given_rows, strict=True)
    batch = pa.record_batch(
        {
            "value": pa.array(bodies, pa.binary()),
            "key": pa.array(keys, pa.string()),
            "tags": pa.array(tags, pa.string()),
            "properties": pa.array(
                [None if m is None else list(m.items()) for m in maps],
                pa.map_(pa.string(), pa.string()),
            ),
        }
    )
    rows = rows_from_columns(batch)
    identity = RecordIdentity.of("s/1/2", QUEUE, "s/1/2/")
    digests = identity.told(running_digests(rows.hashes(), first, before))
    expected, digest = [], before
    for number, (body, key, tag, extra) in enumerate(given_rows, first):
        named = {"TAGS": tag, "__SHARDINGKEY": key}
        properties = {**(extra or {}), **{n: v for n, v in named.items() if v is not None}}
        row = row_hash(body, encode_properties(properties))
        digest = (digest + mixed((row + (number + 1) * GOLDEN) & MASK)) & MASK
        told = digest % 16**10
        if number == first:
            properties["RMQO_STAMP"] = f"s/1/2/{number}/{told:016x}"
        properties["UNIQ_KEY"] = f"{identity.unique_prefix}{number:010X}{told:010X}"
        expected.append(OutgoingMessage(body, properties))
    assert encode_records(rows, identity, first, digests) == encode_batch(expected)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20), st.integers(1, 99))
def test_columns_of_keys_go_where_single_keys_go(keys: list[str], count: int) -> None:
    column = pa.array(keys, pa.string())
    assert hash_indexes(column, count).tolist() == [hash_index(key, count) for key in keys]
    expected = [consistent_index(key, count) for key in keys]
    assert consistent_indexes(column, count).tolist() == expected
    assert np.all(hash_indexes(column, count) < count)
