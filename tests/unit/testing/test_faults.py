"""Each fault does what its name says, once, and tells the truth about what was served."""

from collections.abc import Callable

import pytest

from rmq_ordered.protocol.command import (
    FLAG_RESPONSE,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rmq_ordered.protocol.frame import FrameDecoder
from rmq_ordered.testing import (
    AnswerAs,
    CutMidFrame,
    DelayReply,
    DropReply,
    Fault,
    Garble,
    HangUp,
    ManualClock,
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import reply_to

REQUEST = RemotingCommand(11, opaque=7)
SERVED = RemotingCommand(0, remark="served")


class Strike:
    """What came of a fault: the bytes sent, and how often the request was served."""

    def __init__(self, fault: Fault) -> None:
        self.served = 0
        transport = ScriptedTransport("b:1")
        fault.strike(transport, REQUEST, self._serve)
        transport.hang_up()
        buffer = bytearray(10_000)
        self.data = bytes(buffer[: transport.receive_into(buffer)])

    def _serve(self, request: RemotingCommand) -> RemotingCommand:
        assert request is REQUEST
        self.served += 1
        return SERVED

    @property
    def answers(self) -> list[RemotingCommand]:
        return [decode_command(frame) for frame in FrameDecoder().receive_data(self.data)]


def test_a_reply_has_the_request_s_id_and_the_response_bit() -> None:
    reply = reply_to(REQUEST, SERVED)
    assert (reply.opaque, reply.flag, reply.remark) == (7, FLAG_RESPONSE, "served")


def test_a_refusal_answers_and_serves_nothing() -> None:
    strike = Strike(Refuse(2, "busy", {"a": "b"}))
    (answer,) = strike.answers
    assert (answer.code, answer.remark, answer.opaque) == (2, "busy", 7)
    assert answer.ext_fields == {"a": "b"}
    assert strike.served == 0


@pytest.mark.parametrize("is_served", [True, False])
def test_a_dropped_reply_lets_time_pass_in_silence(is_served: bool) -> None:
    clock = ManualClock(monotonic_ms=0)
    strike = Strike(DropReply(clock, 3_000, is_served=is_served))
    assert strike.data == b""
    assert strike.served == int(is_served)
    assert clock.monotonic_ms() == 3_000


def test_a_delayed_reply_comes_later() -> None:
    clock = ManualClock(monotonic_ms=0)
    strike = Strike(DelayReply(clock, 2_000))
    assert strike.answers == [reply_to(REQUEST, SERVED)]
    assert (strike.served, clock.monotonic_ms()) == (1, 2_000)


@pytest.mark.parametrize(
    ("fault", "served"), [(HangUp(), 0), (HangUp(is_served=True), 1)], ids=repr
)
def test_hanging_up_says_nothing(fault: HangUp, served: int) -> None:
    strike = Strike(fault)
    assert (strike.data, strike.served) == (b"", served)


def test_a_cut_frame_is_the_beginning_of_the_answer() -> None:
    strike = Strike(CutMidFrame(keep_bytes=13))
    assert strike.data == encode_command(reply_to(REQUEST, SERVED))[:13]
    assert strike.answers == []
    assert strike.served == 1


def test_an_answer_under_another_id_is_otherwise_right() -> None:
    (answer,) = Strike(AnswerAs(opaque=8)).answers
    assert (answer.opaque, answer.remark) == (8, "served")


def test_garbage_is_sent_as_it_is() -> None:
    assert Strike(Garble(b"\xff\xff")).data == b"\xff\xff"


@pytest.mark.parametrize("make", [HangUp, CutMidFrame], ids=lambda make: make.__name__)
def test_faults_that_end_the_stream_really_end_it(make: Callable[[], Fault]) -> None:
    transport = ScriptedTransport("b:1")
    make().strike(transport, REQUEST, lambda _: SERVED)
    transport.deliver(b"more")
    buffer = bytearray(1_000)
    while transport.receive_into(buffer) > 0:
        assert b"more" not in buffer
