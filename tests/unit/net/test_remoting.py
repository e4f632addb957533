"""All connections of a client: one per address, again after a failure, none after the end."""

import threading
from collections.abc import Iterator

import pytest
from tests.support.promises import proves

from rmq_ordered.errors import ClientClosed, ConnectFailed, ConnectionLost, RequestTimedOut
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.net.transport import Transport
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import DropReply, HangUp, ManualClock, Refuse, ScriptedNetwork

PULL = RemotingCommand(11)


@pytest.fixture
def network() -> ScriptedNetwork:
    network = ScriptedNetwork()
    for address in ("a:1", "b:1"):
        network.listen(address, lambda request: RemotingCommand(0, remark="served"))
    return network


@pytest.fixture
def remoting(network: ScriptedNetwork) -> Iterator[Remoting]:
    remoting = Remoting(ManualClock(), network.connect)
    yield remoting
    remoting.close()


def call(remoting: Remoting, address: str = "a:1") -> RemotingCommand:
    return remoting.call(address, PULL, "a pull", 3_000)


def test_requests_to_one_address_share_a_connection(
    network: ScriptedNetwork, remoting: Remoting
) -> None:
    assert call(remoting).remark == "served"
    assert remoting.start("a:1", PULL, "a pull", 3_000).result().code == 0
    call(remoting, "b:1")
    assert [transport.address for transport in network.transports] == ["a:1", "b:1"]


def test_a_connection_that_failed_is_replaced_at_the_next_request(
    network: ScriptedNetwork, remoting: Remoting
) -> None:
    network.arm(HangUp())
    with pytest.raises(ConnectionLost):
        call(remoting)
    assert call(remoting).code == 0
    assert len(network.transports) == 2


def test_an_address_nobody_listens_at_is_tried_again_each_time(
    network: ScriptedNetwork, remoting: Remoting
) -> None:
    network.take_down("a:1")
    for _ in range(2):
        with pytest.raises(ConnectFailed, match="a:1: nobody listens there, for a pull; check"):
            call(remoting)
    network.bring_up("a:1")
    assert call(remoting).code == 0


def test_a_closed_client_opens_nothing_more(network: ScriptedNetwork, remoting: Remoting) -> None:
    call(remoting)
    remoting.close()
    remoting.close()
    assert all(transport.is_closed for transport in network.transports)
    with pytest.raises(ClientClosed, match="this client is closed"):
        call(remoting)


def test_an_address_that_hangs_does_not_hold_up_the_others(network: ScriptedNetwork) -> None:
    is_connecting, may_go_on = threading.Event(), threading.Event()

    def connect(address: str, /) -> Transport:
        if address == "a:1":
            is_connecting.set()
            assert may_go_on.wait(10)
        return network.connect(address)

    remoting = Remoting(ManualClock(), connect)
    stuck = threading.Thread(target=call, args=(remoting, "a:1"))
    stuck.start()
    assert is_connecting.wait(10)
    assert call(remoting, "b:1").code == 0
    may_go_on.set()
    stuck.join(10)
    remoting.close()


def test_a_connection_made_while_the_client_closes_is_closed_too(network: ScriptedNetwork) -> None:
    remoting: Remoting

    def connect(address: str, /) -> Transport:
        remoting.close()
        return network.connect(address)

    remoting = Remoting(ManualClock(), connect)
    with pytest.raises(ClientClosed, match="this client is closed"):
        call(remoting)
    assert all(transport.is_closed for transport in network.transports)


def test_after_a_timeout_the_next_request_uses_a_new_connection(
    network: ScriptedNetwork,
) -> None:
    clock = ManualClock()
    remoting = Remoting(clock, network.connect)
    patient = remoting.start("a:1", PULL, "a pull", 60_000)
    network.arm(DropReply(clock, 3_000))
    with pytest.raises(RequestTimedOut):
        call(remoting)
    assert patient.result().code == 0
    assert call(remoting).code == 0
    assert len(network.transports) == 2
    remoting.close()
    assert all(transport.is_closed for transport in network.transports)


@proves("go-away-repeated-once")
def test_a_server_that_is_stopping_gets_the_request_once_more_on_a_new_connection(
    network: ScriptedNetwork, remoting: Remoting
) -> None:
    network.arm(Refuse(ResponseCode.GO_AWAY, "please go away"))
    assert call(remoting).remark == "served"
    assert len(network.seen) == 2
    assert [transport.address for transport in network.transports] == ["a:1", "a:1"]
    assert network.transports[0].is_closed
    call(remoting)
    assert len(network.transports) == 2, "the new connection is the one that is used from now on"


def test_a_server_that_sends_a_request_away_twice_is_given_up(
    network: ScriptedNetwork, remoting: Remoting
) -> None:
    network.arm(Refuse(ResponseCode.GO_AWAY), times=2)
    with pytest.raises(ConnectionLost, match=r"a:1.*go away instead of answering a pull"):
        call(remoting)
    assert len(network.seen) == 2
