"""One queue's sends: what is waited for, what is given up, and why."""

import numpy as np
import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer, SendSettings
from rmq_ordered.client.pieces import Piece
from rmq_ordered.columnar.digest import running_digests
from rmq_ordered.columnar.outgoing import rows_from_messages
from rmq_ordered.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    QueueLayoutChanged,
    RemoteProtocolError,
)
from rmq_ordered.model import MessageQueue, OutgoingMessage
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.testing import BrokerDouble, ClusterDouble, Refuse

SEND = RequestCode.SEND_MESSAGE_V2
QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble(brokers=2)
    for broker in cluster.brokers:
        broker.add_topic("orders", 2)
    return cluster


@pytest.fixture
def sender(client: Client) -> OrderedProducer:
    settings = SendSettings(send_timeout_ms=5_000)
    return OrderedProducer(client, "orders", settings=settings)


def message(text: bytes = b"x") -> OutgoingMessage:
    return OutgoingMessage(text, {})


def test_a_piece_knows_its_digests_after_it_was_cut() -> None:
    rows = rows_from_messages([message(bytes([number])) for number in range(5)])
    digests = running_digests(rows.hashes(), 10, 0)
    piece = Piece(rows, 10, digests)
    rest = piece.after(2)
    assert (rest.first, rest.end, len(rest.rows)) == (12, 15, 3)
    assert rest.digest_at(13) == piece.digest_at(13) == int(digests[3])
    assert piece.after(0) is piece
    assert Piece(rows, 10, None).after(1).digest_at(11) == 0
    assert piece.nbytes == 5
    assert np.array_equal(rest.rows.hashes(), rows.hashes()[2:])


def test_a_broker_that_is_starting_is_waited_for(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SERVICE_NOT_AVAILABLE), SEND, times=2)
    assert sender.send("order-1", b"x").first_offset == 0
    assert cluster.clock.pauses == [20, 40]


def test_a_broker_that_stays_away_is_an_error_in_the_end(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SERVICE_NOT_AVAILABLE, "disk full"), SEND, times=99)
    with pytest.raises(BrokerBusy, match="disk full"):
        sender.send("order-1", b"x")


@pytest.mark.parametrize(
    "remark",
    [
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
        "create mapped file failed, server is busy or broken.",
    ],
)
def test_a_store_that_puts_a_send_off_is_waited_for_whatever_code_it_uses(
    cluster: ClusterDouble, sender: OrderedProducer, remark: str
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR, remark), SEND, times=2)
    assert sender.send("order-1", b"x").first_offset == 0
    assert cluster.clock.pauses == [20, 40]


@proves("repeat-only-unstored")
@pytest.mark.parametrize("remark", ["in-sync replicas not enough", "UNKNOWN_ERROR", None])
def test_an_error_after_which_the_rows_may_be_there_is_not_repeated(
    cluster: ClusterDouble, sender: OrderedProducer, remark: str | None
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR, remark), SEND)
    with pytest.raises(BrokerError, match="with code 1"):
        sender.send("order-1", b"x")
    assert len(cluster.network.requests(SEND)) == 1


def test_an_empty_body_alone_goes_as_a_batch(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    sender.send_all({QUEUE: [message(b"")]})
    sender.send_all({QUEUE: [message(b"x")]})
    assert cluster.brokers[0].queues[QUEUE].bodies == [b"", b"x"]
    assert len(cluster.network.requests(RequestCode.SEND_BATCH_MESSAGE)) == 1
    assert len(cluster.network.requests(SEND)) == 1


def test_an_answer_that_lacks_a_field_names_broker_queue_and_key(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SUCCESS), SEND)
    expected = r"broker-[ab]:10911 answered a send of 1 messages to orders@.*'order-1'.*queueOffset"
    with pytest.raises(RemoteProtocolError, match=expected):
        sender.send("order-1", b"x")


def test_after_an_error_nothing_old_is_sent_with_the_next_call(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(Refuse(ResponseCode.MESSAGE_ILLEGAL, "no"), SEND)
    with pytest.raises(BrokerError, match="no"):
        sender.send_all({QUEUE: [message(b"old")]})
    sender.send_all({QUEUE: [message(b"new")]})
    assert cluster.brokers[0].queues[QUEUE].bodies == [b"new"]


def lost(cluster: ClusterDouble) -> BrokerDouble:
    """The second broker leaves the cluster for good."""
    gone = cluster.brokers[1]
    cluster.network.take_down(gone.address)
    cluster.name_server.brokers.remove(gone)
    return gone


@proves("queues-pinned")
def test_a_broker_that_left_is_a_changed_layout_and_no_key_moves(
    cluster: ClusterDouble, client: Client, sender: OrderedProducer
) -> None:
    lost(cluster)
    client.routes.forget("orders")
    queue = MessageQueue("orders", "broker-b", 1)
    with pytest.raises(QueueLayoutChanged, match="orders@broker-b#1 can no longer be written"):
        sender.send_all({queue: [message()]})
    assert all(not data.messages for data in cluster.brokers[0].queues.values())


def test_a_broker_that_is_only_out_of_reach_is_not_a_changed_layout(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.take_down(cluster.brokers[1].address)
    with pytest.raises(ConnectFailed):
        sender.send_all({MessageQueue("orders", "broker-b", 1): [message()]})


@proves("broker-death-is-local")
def test_when_a_broker_is_gone_the_queues_of_the_other_go_on_and_its_own_are_named(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.take_down(cluster.brokers[1].address)
    here, there = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)
    sender.send_all({here: [message()]})
    with pytest.raises(ConnectFailed, match=cluster.brokers[1].address):
        sender.send_all({there: [message()]})
    sender.send_all({here: [message()]})
    assert sum(len(data.messages) for data in cluster.brokers[0].queues.values()) == 2
    assert not any(data.messages for data in cluster.brokers[1].queues.values())


def test_a_topic_that_shrank_is_a_changed_layout(
    cluster: ClusterDouble, client: Client, sender: OrderedProducer
) -> None:
    cluster.brokers[1].add_topic("orders", 1)
    queue = MessageQueue("orders", "broker-b", 1)
    with pytest.raises(QueueLayoutChanged, match="orders@broker-b#1"):
        sender.send_all({queue: [message()]})


def test_a_refusal_has_nothing_to_do_with_the_layout_while_the_queue_is_there(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(Refuse(ResponseCode.NO_PERMISSION, "read only"), SEND)
    with pytest.raises(BrokerError, match="read only"):
        sender.send_all({QUEUE: [message()]})


def test_when_the_name_server_is_away_too_the_first_error_stands(
    cluster: ClusterDouble, client: Client, sender: OrderedProducer
) -> None:
    for address in (*cluster.name_servers, cluster.brokers[0].address):
        cluster.network.take_down(address)
    with pytest.raises(ConnectFailed, match="broker-a"):
        sender.send_all({QUEUE: [message()]})
