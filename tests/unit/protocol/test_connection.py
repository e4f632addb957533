"""One connection without a socket: whose answer is whose."""

import pytest

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.protocol.command import (
    FLAG_RESPONSE,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rmq_ordered.protocol.connection import (
    RemotingConnection,
    RequestReceived,
    ResponseReceived,
)
from rmq_ordered.protocol.frame import FrameDecoder
from rmq_ordered.protocol.inflight import MAX_OPAQUE

PULL = RemotingCommand(11, ext_fields={"topic": "orders"})


def answer(opaque: int, code: int = 0) -> bytes:
    return encode_command(RemotingCommand(code, opaque=opaque, flag=FLAG_RESPONSE))


def decode(data: bytes) -> RemotingCommand:
    (frame,) = FrameDecoder().receive_data(data)
    return decode_command(frame)


def test_requests_get_rising_ids_and_are_in_flight_until_answered() -> None:
    connection = RemotingConnection()
    first, data = connection.send_request(PULL)
    second, _ = connection.send_request(PULL)
    assert (first, second) == (1, 2)
    assert decode(data).opaque == 1
    assert decode(data).ext_fields == PULL.ext_fields
    assert connection.in_flight == 2


def test_answers_are_matched_by_id_in_any_order() -> None:
    connection = RemotingConnection()
    connection.send_request(PULL)
    connection.send_request(PULL)
    events = connection.receive_data(answer(2, code=19) + answer(1, code=0))
    assert [(e.opaque, e.response.code) for e in events if isinstance(e, ResponseReceived)] == [
        (2, 19),
        (1, 0),
    ]
    assert connection.in_flight == 0


def test_every_split_of_two_answers_gives_the_same_events() -> None:
    data = answer(1) + answer(2, code=19)

    def events(*chunks: bytes) -> list[object]:
        connection = RemotingConnection()
        connection.send_request(PULL)
        connection.send_request(PULL)
        return [event for chunk in chunks for event in connection.receive_data(chunk)]

    whole = events(data)
    assert len(whole) == 2
    assert all(events(data[:cut], data[cut:]) == whole for cut in range(len(data) + 1))
    assert events(*(data[i : i + 1] for i in range(len(data)))) == whole


def test_an_answer_that_comes_after_it_was_given_up_is_dropped() -> None:
    connection = RemotingConnection()
    opaque, _ = connection.send_request(PULL)
    connection.forget(opaque)
    connection.forget(opaque)
    assert connection.receive_data(answer(opaque)) == []


def test_a_second_answer_to_the_same_request_is_dropped() -> None:
    connection = RemotingConnection()
    opaque, _ = connection.send_request(PULL)
    assert len(connection.receive_data(answer(opaque))) == 1
    assert connection.receive_data(answer(opaque)) == []


@pytest.mark.parametrize("opaque", [0, -1, 2, 2**31 - 1])
def test_an_answer_to_a_request_never_sent_is_a_protocol_error(opaque: int) -> None:
    connection = RemotingConnection()
    connection.send_request(PULL)
    with pytest.raises(RemoteProtocolError, match=f"request {opaque}, which was never sent"):
        connection.receive_data(answer(opaque))


def test_a_one_way_request_has_the_bit_and_waits_for_nothing() -> None:
    connection = RemotingConnection()
    sent = decode(connection.send_one_way(PULL))
    assert sent.is_one_way
    assert connection.in_flight == 0
    assert connection.receive_data(answer(sent.opaque)) == []


def test_what_the_peer_asks_is_told_apart_from_answers() -> None:
    connection = RemotingConnection()
    notification = RemotingCommand(40, opaque=99, ext_fields={"consumerGroup": "billing"})
    (event,) = connection.receive_data(encode_command(notification))
    assert event == RequestReceived(notification)


def test_ids_wrap_before_the_sign_bit_and_skip_those_in_flight() -> None:
    connection = RemotingConnection()
    connection.send_request(PULL)
    connection._in_flight._next = MAX_OPAQUE
    assert connection.send_request(PULL)[0] == MAX_OPAQUE
    assert connection.send_request(PULL)[0] == 2, "1 is still in flight"
    assert connection.receive_data(answer(12_345)) == [], "given out before the wrap"


def test_the_end_of_the_stream_tells_whether_a_frame_was_cut() -> None:
    connection = RemotingConnection()
    connection.receive_data(encode_command(RemotingCommand(40)))
    assert connection.receive_eof() == "closed by the peer"
    connection = RemotingConnection()
    connection.receive_data(b"\x00")
    assert connection.receive_eof() == "closed by the peer in mid-frame"


def test_a_peer_that_hangs_up_without_a_word_may_want_tls_or_be_no_rocketmq() -> None:
    connection = RemotingConnection()
    connection.send_request(PULL)
    assert "whether it wants TLS" in connection.receive_eof()


def test_a_closed_connection_takes_nothing_more() -> None:
    connection = RemotingConnection()
    connection.receive_eof()
    with pytest.raises(LocalProtocolError, match="open a new one"):
        connection.send_request(PULL)
    with pytest.raises(LocalProtocolError):
        connection.send_one_way(PULL)
    with pytest.raises(LocalProtocolError):
        connection.receive_data(b"")


def test_a_request_that_cannot_be_encoded_is_not_in_flight() -> None:
    connection = RemotingConnection()
    with pytest.raises(LocalProtocolError):
        connection.send_request(RemotingCommand(11, remark="\ud800"))
    assert connection.in_flight == 0
