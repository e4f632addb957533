"""A channel over a scripted stream: answers, time, wrong ids, broken streams."""

import threading
from collections.abc import Iterator

import pytest
from tests.support.waiting import wait_until

from rmq_ordered.errors import (
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
)
from rmq_ordered.net.channel import Channel, PendingAnswer
from rmq_ordered.net.transport import STALL_TIMEOUT_MS
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import (
    FLAG_ONE_WAY,
    FLAG_RESPONSE,
    RemotingCommand,
    encode_command,
)
from rmq_ordered.testing import ManualClock, ScriptedTransport

PULL = RemotingCommand(11)
GO_AWAY = ResponseCode.GO_AWAY


class Rig:
    """A channel, the peer's end of its stream, and its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.peer = ScriptedTransport("b:1")
        self.asked: list[RemotingCommand] = []
        self.reply: RemotingCommand | None = None
        self.channel = Channel("b:1", self.peer, self.clock, self._on_request)

    def _on_request(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        assert address == "b:1"
        self.asked.append(request)
        return self.reply

    def start(self, timeout_ms: int = 3_000) -> PendingAnswer:
        return self.channel.start(PULL, "a pull", timeout_ms)

    def response(self, opaque: int, code: int = 0) -> RemotingCommand:
        return RemotingCommand(code, opaque=opaque, flag=FLAG_RESPONSE)

    def await_failure(self) -> None:
        wait_until(lambda: not self.channel.is_open, "the channel has failed", 5)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.channel.close()


def test_an_answer_reaches_the_one_who_asked(rig: Rig) -> None:
    first, second = rig.start(), rig.start()
    rig.peer.answer(rig.response(second.opaque, code=19))
    rig.peer.answer(rig.response(first.opaque, code=0))
    assert first.result().code == 0
    assert second.result().code == 19
    assert [command.opaque for command in rig.peer.sent] == [first.opaque, second.opaque]


def test_a_request_that_cannot_be_encoded_is_not_sent_and_costs_nobody_else_anything(
    rig: Rig,
) -> None:
    bad = RemotingCommand(11, ext_fields={"topic": "\ud800"})
    with pytest.raises(LocalProtocolError):
        rig.channel.start(bad, "a pull", 3_000)
    assert rig.peer.sent == []
    assert rig.channel.is_open
    assert not rig.channel.is_waited_for


def test_a_call_waits_for_its_answer(rig: Rig) -> None:
    rig.peer._on_command = lambda peer, request: peer.answer(rig.response(request.opaque, 17))
    assert rig.channel.call(PULL, "a pull", 3_000).code == 17


def test_an_answer_in_single_bytes_is_an_answer(rig: Rig) -> None:
    pending = rig.start()
    for byte in encode_command(rig.response(pending.opaque)):
        rig.peer.deliver(bytes([byte]))
    assert pending.result().code == 0


def test_no_answer_in_time_is_an_unknown_outcome(rig: Rig) -> None:
    pending = rig.start(timeout_ms=500)
    rig.clock.advance_ms(500)
    with pytest.raises(RequestTimedOut, match="a pull within 500 ms"):
        pending.result()
    assert not rig.channel.is_open, "nothing new is sent to a peer that does not answer"
    assert rig.peer.is_closed, "nobody waits any more"


def test_after_a_timeout_the_others_go_on_waiting_and_the_last_one_closes(rig: Rig) -> None:
    late, patient = rig.start(timeout_ms=500), rig.start(timeout_ms=9_000)
    rig.clock.advance_ms(500)
    with pytest.raises(RequestTimedOut):
        late.result()
    assert (rig.channel.is_open, rig.channel.is_waited_for) == (False, True)
    rig.peer.answer(rig.response(late.opaque))
    rig.peer.answer(rig.response(patient.opaque))
    assert patient.result().code == 0
    wait_until(lambda: rig.peer.is_closed, "the unused connection is closed", 5)


def test_an_answer_that_is_there_counts_even_if_it_is_asked_for_late(rig: Rig) -> None:
    pending = rig.start(timeout_ms=500)
    rig.peer.answer(rig.response(pending.opaque))
    wait_until(pending.future.done, "the answer has arrived", 5)
    rig.clock.advance_ms(10_000)
    assert pending.result().code == 0


def test_an_abandoned_answer_is_dropped(rig: Rig) -> None:
    pending = rig.start()
    pending.abandon()
    rig.peer.answer(rig.response(pending.opaque))
    next_one = rig.start()
    rig.peer.answer(rig.response(next_one.opaque))
    assert next_one.result().code == 0
    assert not pending.future.done()


def test_an_answer_to_a_request_never_sent_ends_the_connection(rig: Rig) -> None:
    pending = rig.start()
    rig.peer.answer(rig.response(4_711))
    with pytest.raises(
        RemoteProtocolError, match=r"b:1 did not answer a pull.*4711, which was never"
    ):
        pending.result()
    assert rig.peer.is_closed
    with pytest.raises(RemoteProtocolError, match="4711"):
        rig.start()


def test_garbage_ends_the_connection(rig: Rig) -> None:
    pending = rig.start()
    rig.peer.deliver(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(RemoteProtocolError, match="HTTP port"):
        pending.result()
    assert not rig.channel.is_open


def test_a_header_that_cannot_be_read_ends_the_connection(rig: Rig) -> None:
    pending = rig.start()
    rig.peer.deliver(bytes.fromhex("00000005 00000001 ff"))
    with pytest.raises(RemoteProtocolError):
        pending.result()


@pytest.mark.parametrize(
    ("kept", "words"), [(0, "wants TLS; it had not answered a pull"), (10, "in mid-frame")]
)
def test_a_peer_that_hangs_up_fails_everyone_who_waits(rig: Rig, kept: int, words: str) -> None:
    waiting = [rig.start(), rig.start()]
    rig.peer.deliver(encode_command(rig.response(waiting[0].opaque))[:kept])
    rig.peer.hang_up()
    for pending in waiting:
        with pytest.raises(ConnectionLost, match=words):
            pending.result()


def test_a_broken_stream_fails_everyone_who_waits(rig: Rig) -> None:
    pending = rig.start()
    rig.peer.fail("no route to host")
    with pytest.raises(ConnectionLost, match="no route to host"):
        pending.result()


def test_a_send_that_fails_closes_the_channel_for_good(rig: Rig) -> None:
    waiting = rig.start()
    rig.peer.fail("reset")
    rig.await_failure()
    with pytest.raises(ConnectionLost):
        rig.start()
    with pytest.raises(ConnectionLost):
        rig.channel.send_one_way(PULL)
    with pytest.raises(ConnectionLost):
        waiting.result()


def test_a_send_error_is_raised_to_the_sender_and_to_those_who_wait() -> None:
    class BrokenSend(ScriptedTransport):
        def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
            if self.sent:
                raise ConnectionLost(self.address, "send failed: pipe")
            super().send_all(data, timeout_ms)

    channel = Channel("b:1", BrokenSend("b:1"), ManualClock())
    waiting = channel.start(PULL, "a pull", 3_000)
    with pytest.raises(ConnectionLost, match="pipe"):
        channel.start(PULL, "a pull", 3_000)
    with pytest.raises(ConnectionLost, match="pipe"):
        waiting.result()
    assert not channel.is_open
    channel.close()


def test_closing_fails_those_who_wait_and_ends_the_reader(rig: Rig) -> None:
    pending = rig.start()
    rig.channel.close()
    with pytest.raises(ConnectionLost, match="closed by this client"):
        pending.result()
    assert not rig.channel._reader.is_alive()
    rig.channel.close()


def test_the_first_failure_is_the_one_that_is_told(rig: Rig) -> None:
    rig.peer.fail("reset")
    rig.await_failure()
    rig.channel.close()
    with pytest.raises(ConnectionLost, match="reset"):
        rig.start()


def test_an_answer_that_arrives_after_the_failure_changes_nothing(rig: Rig) -> None:
    pending = rig.start()
    rig.channel.close()
    rig.channel._deliver(memoryview(encode_command(rig.response(pending.opaque))))
    with pytest.raises(ConnectionLost, match="closed by this client"):
        pending.result()


def test_a_request_that_cannot_be_encoded_harms_nobody(rig: Rig) -> None:
    with pytest.raises(LocalProtocolError):
        rig.channel.start(RemotingCommand(11, remark="\ud800"), "a pull", 3_000)
    assert rig.channel.is_open


def test_one_way_requests_are_sent_and_not_waited_for(rig: Rig) -> None:
    rig.channel.send_one_way(PULL)
    assert [command.is_one_way for command in rig.peer.sent] == [True]


def test_a_request_that_was_sent_away_goes_to_where_it_can_be_repeated(rig: Rig) -> None:
    elsewhere = Rig()
    elsewhere.peer._on_command = lambda peer, request: peer.answer(
        rig.response(request.opaque, code=17)
    )
    left: list[int] = []

    def repeat(left_ms: int) -> PendingAnswer:
        left.append(left_ms)
        return elsewhere.start(left_ms)

    pending = rig.channel.start(PULL, "a pull", 3_000, repeat)
    waits_still = rig.start()
    rig.clock.advance_ms(1_000)
    rig.peer.answer(rig.response(pending.opaque, GO_AWAY))
    assert pending.result().code == 17
    assert left == [2_000], "the deadline stays the same"
    assert (rig.channel.is_open, rig.channel.is_waited_for) == (False, True)
    rig.peer.answer(rig.response(waits_still.opaque))
    assert waits_still.result().code == 0
    wait_until(lambda: rig.peer.is_closed, "the connection that nobody needs is closed", 5)
    elsewhere.channel.close()


def test_a_request_that_is_sent_away_again_is_a_lost_connection(rig: Rig) -> None:
    pending = rig.start()
    rig.peer.answer(rig.response(pending.opaque, GO_AWAY))
    with pytest.raises(ConnectionLost, match=r"b:1.*go away instead of answering a pull.*stopping"):
        pending.result()


def test_what_the_peer_asks_is_handed_on_and_answers_still_arrive(rig: Rig) -> None:
    pending = rig.start()
    rig.peer.answer(RemotingCommand(40, opaque=99))
    rig.peer.answer(rig.response(pending.opaque))
    assert pending.result().code == 0
    assert [request.code for request in rig.asked] == [40]


def test_requests_of_the_peer_may_be_ignored() -> None:
    peer = ScriptedTransport("b:1")
    channel = Channel("b:1", peer, ManualClock())
    pending = channel.start(PULL, "a pull", 3_000)
    peer.answer(RemotingCommand(40, opaque=99))
    peer.answer(RemotingCommand(0, opaque=pending.opaque, flag=FLAG_RESPONSE))
    assert pending.result().code == 0
    channel.close()


def test_a_channel_may_be_closed_from_within_a_callback() -> None:
    peer = ScriptedTransport("b:1")
    closed = threading.Event()

    def on_request(address: str, request: RemotingCommand) -> None:
        channel.close()
        closed.set()

    channel = Channel("b:1", peer, ManualClock(), on_request)
    peer.answer(RemotingCommand(40, opaque=99))
    assert closed.wait(5)
    channel.close()


def test_many_threads_share_a_channel(rig: Rig) -> None:
    rig.peer._on_command = lambda peer, request: peer.answer(
        rig.response(request.opaque, request.opaque)
    )
    failures: list[tuple[int, int]] = []

    def ask() -> None:
        for _ in range(50):
            pending = rig.start()
            if (code := pending.result().code) != pending.opaque:
                failures.append((pending.opaque, code))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert failures == []
    assert len(rig.peer.sent) == 200


def test_a_request_of_the_peer_is_answered_under_its_own_id(rig: Rig) -> None:
    rig.reply = RemotingCommand(0, body=b"here I am")
    rig.peer.answer(RemotingCommand(307, opaque=77))
    wait_until(lambda: rig.peer.sent, "the answer was sent", 5)
    (answer,) = rig.peer.sent
    assert (answer.opaque, answer.is_response, answer.body) == (77, True, b"here I am")


def test_a_one_way_request_of_the_peer_gets_no_answer(rig: Rig) -> None:
    rig.reply = RemotingCommand(0)
    rig.peer.answer(RemotingCommand(40, opaque=77, flag=FLAG_ONE_WAY))
    pending = rig.start()
    rig.peer.answer(rig.response(pending.opaque))
    pending.result()
    assert [one.code for one in rig.asked] == [40]
    assert [one.code for one in rig.peer.sent] == [PULL.code]


def test_an_error_nobody_thought_of_ends_the_channel_and_not_only_its_reader() -> None:
    def stumble(address: str, request: RemotingCommand) -> RemotingCommand | None:
        raise RecursionError("too deep")

    peer = ScriptedTransport("b:1")
    channel = Channel("b:1", peer, ManualClock(), stumble)
    waiting = channel.start(PULL, "a pull", 600_000)
    peer.answer(RemotingCommand(40, opaque=1))
    with pytest.raises(ConnectionLost, match=r"b:1.*RecursionError: too deep.*a pull"):
        waiting.result()
    assert not channel.is_open
    assert peer.is_closed
    channel.close()


class StuckSend(ScriptedTransport):
    """A peer that takes nothing: a send stays until it is let go."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.timeouts: list[int] = []
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def send_all(self, data: bytes, timeout_ms: int = STALL_TIMEOUT_MS) -> None:
        self.timeouts.append(timeout_ms)
        self.has_begun.set()
        assert self.may_end.wait(10)


def test_a_request_waits_no_longer_for_another_one_s_send_than_for_an_answer() -> None:
    peer = StuckSend("b:1")
    channel = Channel("b:1", peer, ManualClock())
    first = threading.Thread(target=channel.start, args=(PULL, "a long send", 60_000))
    first.start()
    assert peer.has_begun.wait(10)
    with pytest.raises(RequestTimedOut, match="a pull within 20 ms"):
        channel.start(PULL, "a pull", 20)
    peer.may_end.set()
    first.join(10)
    assert peer.timeouts == [60_000]
    assert channel.start(PULL, "a pull", 20).timeout_ms == 20
    channel.close()
