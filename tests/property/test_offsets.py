"""Source offsets: what Spark compares as text is equal exactly when the positions are."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import decode_positions, encode_positions

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from("ab")
queues = st.builds(MessageQueue, names, names, st.integers(0, 1_000))
positions = st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=12)


def text(value: dict[MessageQueue, int]) -> str:
    return json.dumps(encode_positions(value))


@given(positions)
def test_what_was_written_is_read_back_through_json(value: dict[MessageQueue, int]) -> None:
    assert decode_positions(json.loads(text(value))) == value


@given(positions, st.randoms(use_true_random=False))
def test_the_text_does_not_depend_on_the_order_of_the_queues(
    value: dict[MessageQueue, int], random: object
) -> None:
    shuffled = list(value.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert text(dict(shuffled)) == text(value)


@given(positions, positions)
def test_different_positions_have_different_texts(
    first: dict[MessageQueue, int], second: dict[MessageQueue, int]
) -> None:
    assert (text(first) == text(second)) == (first == second)


@given(positions)
def test_reading_and_writing_again_changes_nothing(value: dict[MessageQueue, int]) -> None:
    assert text(decode_positions(json.loads(text(value)))) == text(value)
