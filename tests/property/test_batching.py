"""Batches: joined they are the input, and each keeps to the limits."""

from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.model import OutgoingMessage
from rmq_ordered.ordering.batching import message_bytes, split_batches
from rmq_ordered.protocol.message import encode_batch

texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=10
)
messages = st.builds(
    OutgoingMessage, st.binary(max_size=300), st.dictionaries(texts, texts, max_size=3)
)


@given(st.lists(messages, max_size=30), st.integers(1, 2_000), st.integers(1, 10))
def test_batches_keep_order_and_limits(
    given_messages: list[OutgoingMessage], max_bytes: int, max_messages: int
) -> None:
    batches = list(split_batches(given_messages, max_bytes, max_messages))
    assert [message for batch in batches for message in batch] == given_messages
    for batch in batches:
        assert 1 <= len(batch) <= max_messages
        assert len(batch) == 1 or len(encode_batch(batch)) <= max_bytes


@given(messages)
def test_the_estimate_is_never_too_small(message: OutgoingMessage) -> None:
    assert message_bytes(message) >= len(encode_batch([message]))
