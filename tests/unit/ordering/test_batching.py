"""Batches: within both limits, in order, nothing lost."""

from collections.abc import Iterator

from rmq_ordered.model import OutgoingMessage
from rmq_ordered.ordering.batching import message_bytes, split_batches
from rmq_ordered.protocol.message import encode_batch


def messages(count: int, size: int = 10) -> list[OutgoingMessage]:
    return [OutgoingMessage(bytes([number % 256]) * size) for number in range(count)]


def test_the_estimate_is_never_below_what_a_batch_record_takes() -> None:
    samples = [
        OutgoingMessage(b""),
        OutgoingMessage(b"x" * 1_000, {"KEYS": "k", "TAGS": "t"}),
        OutgoingMessage(b"x", {"名字": "😀" * 50}),
    ]
    for sample in samples:
        assert message_bytes(sample) >= len(encode_batch([sample]))


def test_batches_have_at_most_so_many_messages_and_keep_their_order() -> None:
    given = messages(10)
    batches = list(split_batches(given, max_bytes=1_000_000, max_messages=4))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert [message for batch in batches for message in batch] == given


def test_batches_have_at_most_so_many_bytes() -> None:
    given = messages(10, size=1_000)
    limit = 3 * message_bytes(given[0])
    assert [len(batch) for batch in split_batches(given, limit, 1_000)] == [3, 3, 3, 1]
    assert [len(batch) for batch in split_batches(given, limit - 1, 1_000)] == [2] * 5


def test_a_message_that_is_too_large_goes_alone() -> None:
    small, large = OutgoingMessage(b"s"), OutgoingMessage(b"L" * 5_000)
    given = [small, large, small, small]
    assert list(split_batches(given, 1_000, 100)) == [[small], [large], [small, small]]


def test_nothing_gives_no_batch() -> None:
    assert list(split_batches([], 1_000, 100)) == []


def test_messages_are_taken_only_when_their_batch_is_wanted() -> None:
    taken: list[int] = []

    def produce() -> Iterator[OutgoingMessage]:
        for number in range(100):
            taken.append(number)
            yield OutgoingMessage(b"x")

    next(split_batches(produce(), 1_000_000, 10))
    assert len(taken) == 11
