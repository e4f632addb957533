"""What is to be done with rows, given what landed before."""

import pytest

from rmq_ordered.errors import BatchSuperseded, LocalProtocolError, StreamGap
from rmq_ordered.model import LandedStamp, MessageQueue, SendStream
from rmq_ordered.ordering.stream import (
    Decision,
    Diverged,
    ReadBack,
    Recovery,
    Send,
    Skip,
    StampedStream,
)

QUEUE = MessageQueue("orders", "broker-a", 0)
STREAM = SendStream("sink", 7, 3)


def digest(sequence: int) -> int:
    return 1_000 + sequence


def stream(recovery: Recovery = Recovery.READ_BACK, *, is_known: bool = True) -> StampedStream:
    return StampedStream(QUEUE, STREAM, recovery, is_known=is_known)


def last(sequence: int, *, batch: int = 7, shift: int = 0) -> LandedStamp:
    return LandedStamp(batch, sequence, digest(sequence) + shift, 100 + sequence)


def judge(state: StampedStream, first: int, count: int) -> Decision:
    return state.judge(first, count, digest)


def test_rows_of_a_first_attempt_are_sent_one_piece_after_the_other() -> None:
    state = stream()
    assert judge(state, 0, 10) == Send()
    state.acknowledged(0, 10)
    assert judge(state, 10, 5) == Send()
    assert state.landed_count == 10
    assert state.finish(10) is None


def test_rows_that_nobody_gave_before_cannot_be_left_out() -> None:
    with pytest.raises(LocalProtocolError, match="rows from 5 on are to be sent, but only 0"):
        judge(stream(), 5, 1)


def test_a_replay_reads_back_first_then_skips_and_trims_what_landed() -> None:
    state = stream(is_known=False)
    assert judge(state, 0, 10) == ReadBack()
    state.learned(last(14))
    assert judge(state, 0, 10) == Skip()
    assert judge(state, 10, 10) == Send(skip=5)
    state.acknowledged(15, 5)
    assert judge(state, 20, 1) == Send()


@pytest.mark.parametrize("found", [None, last(99, batch=6)], ids=["nothing", "an older batch"])
def test_a_replay_of_which_nothing_landed_is_sent_from_the_beginning(
    found: LandedStamp | None,
) -> None:
    state = stream(is_known=False)
    state.learned(found)
    assert judge(state, 0, 10) == Send()


def test_rows_are_not_skipped_when_the_digest_says_that_they_are_others() -> None:
    state = stream(is_known=False)
    state.learned(last(14, shift=1))
    assert judge(state, 0, 10) == Skip(), "the digest can be compared only where it was taken"
    assert judge(state, 10, 10) == Diverged(
        14, "digest 00000000000003f7 landed at offset 114, not 00000000000003f6"
    )


def test_an_attempt_with_fewer_rows_than_landed_has_diverged() -> None:
    state = stream(is_known=False)
    state.learned(last(14))
    assert judge(state, 0, 10) == Skip()
    assert state.finish(10) == Diverged(14, "15 rows landed then, and this attempt has only 10")
    assert state.finish(15) is None


def test_a_lost_answer_is_read_back_before_anything_is_sent() -> None:
    state = stream()
    state.acknowledged(0, 10)
    state.lost_answer()
    assert judge(state, 10, 10) == ReadBack()
    state.learned(None)
    assert judge(state, 10, 10) == Send()
    state.lost_answer()
    state.learned(last(19))
    assert judge(state, 10, 10) == Skip()


@pytest.mark.parametrize("recovery", [Recovery.BROKER, Recovery.REPEAT])
def test_where_nothing_is_read_back_a_lost_answer_is_simply_repeated(recovery: Recovery) -> None:
    state = stream(recovery, is_known=False)
    assert judge(state, 0, 10) == Send()
    state.lost_answer()
    assert judge(state, 0, 10) == Send()


def test_a_broker_that_knows_more_makes_the_rest_be_skipped() -> None:
    state = stream(Recovery.BROKER)
    state.learned(last(29))
    assert judge(state, 10, 10) == Skip()
    assert judge(state, 20, 20) == Send(skip=10)


def test_a_later_batch_ends_an_old_attempt() -> None:
    with pytest.raises(BatchSuperseded, match="batch 8 of the same sink and partition has landed"):
        stream().learned(last(0, batch=8))


def test_a_broker_that_lost_acknowledged_rows_is_found_out() -> None:
    state = stream(Recovery.BROKER)
    state.acknowledged(0, 10)
    with pytest.raises(StreamGap, match=r"10 rows .* were acknowledged, but the broker has 6"):
        state.learned(last(5))


def test_a_late_repeat_in_a_read_back_is_not_taken_for_the_end() -> None:
    state = stream()
    state.acknowledged(0, 30)
    state.lost_answer()
    state.learned(last(19))
    assert judge(state, 30, 5) == Send()
