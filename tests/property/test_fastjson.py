"""fastjson's dialect: agrees with strict JSON where that is legal, and never fails strangely."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol import fastjson
from rmq_ordered.protocol.fastjson import _Dialect

unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | unicode_text
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(unicode_text, inner, max_size=4),
    max_leaves=10,
)
# Pieces that a grammar-blind mutation of a real body would be made of.
fragments = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ":", ",", '"', '"a"', "0", "-1", "01", "1.5", "1e9", "e", ".", "-",
         "true", "null", "nul", "\\", '"\\ud800"', " ", "\n", "٣", "é", "NaN"]
    ),
    max_size=20,
).map("".join)  # fmt: skip


@given(documents)
def test_strict_json_means_the_same_in_the_dialect(document: object) -> None:
    text = json.dumps(document)
    assert _Dialect(text).document() == document
    assert fastjson.loads(text.encode()) == document


@given(st.dictionaries(st.integers(0, 2**31), documents, min_size=1, max_size=4))
def test_integer_keys_are_read_as_their_text(table: dict[int, object]) -> None:
    text = "{" + ",".join(f"{key}:{json.dumps(value)}" for key, value in table.items()) + "}"
    assert fastjson.loads(text.encode()) == {str(key): value for key, value in table.items()}


@given(st.lists(st.dictionaries(unicode_text, scalars, max_size=3), max_size=4))
def test_object_keys_are_read_as_their_json_text(keys: list[dict[str, object]]) -> None:
    text = "{" + ",".join(f"{json.dumps(key)}:1" for key in keys) + "}"
    parsed = fastjson.loads(text.encode())
    assert set(parsed) == {json.dumps(key, separators=(",", ":")) for key in keys}
    assert all(json.loads(name) in keys for name in parsed)


@given(st.binary(max_size=100) | fragments.map(str.encode))
def test_garbage_raises_nothing_but_remote_protocol_errors(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        fastjson.loads(data)
