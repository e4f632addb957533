"""Addresses without sockets: who is reached, which request a fault strikes."""

import pytest

from rmq_ordered.errors import ConnectFailed, ConnectionLost
from rmq_ordered.protocol.command import (
    FLAG_ONE_WAY,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rmq_ordered.protocol.frame import FrameDecoder
from rmq_ordered.testing import Refuse, ScriptedNetwork, ScriptedTransport

BUSY = Refuse(2)


@pytest.fixture
def network() -> ScriptedNetwork:
    network = ScriptedNetwork()
    network.listen("a:1", lambda request: RemotingCommand(0, remark=f"served {request.code}"))
    return network


def ask(transport: ScriptedTransport, code: int) -> int:
    """The code of the answer to one request."""
    transport.send_all(encode_command(RemotingCommand(code, opaque=1)))
    buffer = bytearray(1_000)
    count = transport.receive_into(buffer)
    (frame,) = FrameDecoder().receive_data(bytes(buffer[:count]))
    return decode_command(frame).code


def test_a_request_is_served_and_remembered(network: ScriptedNetwork) -> None:
    transport = network.connect("a:1")
    assert ask(transport, 11) == 0
    assert [(seen.address, seen.command.code) for seen in network.seen] == [("a:1", 11)]
    assert len(network.requests(11)) == 1
    assert network.requests(12) == []


def test_nobody_is_reached_where_nobody_listens(network: ScriptedNetwork) -> None:
    with pytest.raises(ConnectFailed, match=r"b:1.*nobody listens there"):
        network.connect("b:1")


def test_a_server_that_is_down_breaks_its_streams_and_takes_no_new_ones(
    network: ScriptedNetwork,
) -> None:
    network.listen("b:1", lambda request: RemotingCommand(0))
    broken, other = network.connect("a:1"), network.connect("b:1")
    network.take_down("a:1")
    with pytest.raises(ConnectionLost, match="down"):
        broken.receive_into(bytearray(1))
    with pytest.raises(ConnectFailed):
        network.connect("a:1")
    assert ask(other, 11) == 0
    network.bring_up("a:1")
    assert ask(network.connect("a:1"), 11) == 0


def test_a_server_that_takes_no_new_streams_goes_on_with_the_old_ones(
    network: ScriptedNetwork,
) -> None:
    old = network.connect("a:1")
    network.refuse("a:1")
    with pytest.raises(ConnectFailed):
        network.connect("a:1")
    assert ask(old, 11) == 0


def test_a_server_that_is_frozen_takes_requests_and_answers_none(network: ScriptedNetwork) -> None:
    old = network.connect("a:1")
    network.freeze("a:1")
    for transport in (old, network.connect("a:1")):
        transport.send_all(encode_command(RemotingCommand(11, opaque=1)))
        transport.hang_up()
        assert transport.receive_into(bytearray(1)) == 0, "the end, and nothing before it"
    assert len(network.requests(11)) == 2


def test_a_fault_strikes_the_next_request_of_its_code_once(network: ScriptedNetwork) -> None:
    transport = network.connect("a:1")
    network.arm(BUSY, 11)
    assert [ask(transport, code) for code in (12, 11, 11)] == [0, 2, 0]


def test_a_fault_without_a_code_strikes_any_request(network: ScriptedNetwork) -> None:
    transport = network.connect("a:1")
    network.arm(BUSY)
    assert [ask(transport, code) for code in (12, 11)] == [2, 0]


def test_a_fault_may_strike_several_times_after_some_have_passed(network: ScriptedNetwork) -> None:
    transport = network.connect("a:1")
    network.arm(BUSY, 11, times=2, after=1)
    assert [ask(transport, 11) for _ in range(5)] == [0, 2, 2, 0, 0]


def test_a_one_way_request_is_served_without_an_answer(network: ScriptedNetwork) -> None:
    transport = network.connect("a:1")
    transport.send_all(encode_command(RemotingCommand(15, flag=FLAG_ONE_WAY)))
    assert len(network.requests(15)) == 1
    assert ask(transport, 11) == 0, "the first bytes to come back are those of the second request"
