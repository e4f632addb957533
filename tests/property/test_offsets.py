"""Source offsets: what Spark compares as text is equal exactly when the positions are."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.offsets import SourceOffset, decode_offset, encode_offset

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from("ab")
queues = st.builds(MessageQueue, names, names, st.integers(0, 1_000))
counts = st.integers(0, 2**63 - 1)
positions = st.dictionaries(queues, counts, max_size=12)


@st.composite
def source_offsets(draw: st.DrawFn) -> SourceOffset:
    reached = draw(positions)
    entries = {q: draw(st.integers(0, end)) for q, end in reached.items() if draw(st.booleans())}
    return SourceOffset(reached, entries, draw(counts), draw(counts))


def text(value: SourceOffset) -> str:
    return json.dumps(encode_offset(value))


@given(source_offsets())
def test_what_was_written_is_read_back_through_json(value: SourceOffset) -> None:
    assert decode_offset(json.loads(text(value))) == value


@given(source_offsets(), st.randoms(use_true_random=False))
def test_the_text_does_not_depend_on_the_order_of_the_queues(
    value: SourceOffset, random: object
) -> None:
    shuffled = list(value.positions.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert text(replace(value, positions=dict(shuffled))) == text(value)


@given(source_offsets(), source_offsets())
def test_different_positions_have_different_texts(
    first: SourceOffset, second: SourceOffset
) -> None:
    assert (text(first) == text(second)) == (first == second)


@given(source_offsets())
def test_reading_and_writing_again_changes_nothing(value: SourceOffset) -> None:
    assert text(decode_offset(json.loads(text(value)))) == text(value)
