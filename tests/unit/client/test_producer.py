"""Ordered sends against a broker that refuses, falls silent and hangs up: order always survives."""

import pytest
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OnLayoutChange, OrderedProducer, SendSettings
from rmq_ordered.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    LocalProtocolError,
    OptionError,
    QueueLayoutChanged,
    RemoteProtocolError,
    RequestTimedOut,
    TopicNotFound,
)
from rmq_ordered.model import MessageQueue, OutgoingMessage, Selector
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    AnswerAs,
    BrokerDouble,
    ClusterDouble,
    CutMidFrame,
    DropReply,
    Fault,
    HangUp,
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import Serve, reply_to

SEND, SEND_BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
BUSY = Refuse(ResponseCode.SYSTEM_BUSY, "flow control")


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble()
    cluster.brokers[0].add_topic("orders", 4)
    return cluster


@pytest.fixture
def sender(client: Client) -> OrderedProducer:
    """Two messages in a batch, so that a few messages are several requests."""
    settings = SendSettings(send_timeout_ms=10_000, batch_rows=2)
    return OrderedProducer(client, "orders", settings=settings)


def messages(sender: OrderedProducer, count: int) -> list[OutgoingMessage]:
    return [sender.message(str(number).encode()) for number in range(count)]


def first_copies(stored: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(stored))


def numbers(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_a_message_lands_where_java_would_put_its_key(
    broker: BrokerDouble, sender: OrderedProducer
) -> None:
    result = sender.send("order-1", b"created", tags="new", keys="k1")
    assert result.queue == sender.queue_of("order-1") == MessageQueue("orders", "broker-a", 2)
    assert (result.first_offset, result.count) == (0, 1)
    (stored,) = broker.queues[result.queue].messages
    assert stored.body == b"created"
    found = dict(stored.properties)
    assert len(found.pop("UNIQ_KEY")) == 32
    expected = {"KEYS": "k1", "TAGS": "new", "WAIT": "true", "__SHARDINGKEY": "order-1"}
    assert found == expected


@proves("keys-over-brokers")
def test_a_topic_of_two_brokers_gets_each_key_in_order_where_java_would_put_it() -> None:
    cluster = ClusterDouble(brokers=2)
    for broker in cluster.brokers:
        broker.add_topic("orders", 2)
    with cluster.client() as client:
        sender = OrderedProducer(client, "orders")
        assert [(queue.broker_name, queue.queue_id) for queue in sender.queues] == [
            ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1),
        ]  # fmt: skip
        # What Java's hash of each key chooses among four queues.
        places = {"a": 97 % 4, "b": 98 % 4, "c": 99 % 4, "d": 100 % 4}
        for number in range(3):
            for key, place in places.items():
                sent = sender.send(key, b"%d" % number)
                assert (sent.queue, sent.first_offset) == (sender.queues[place], number)


def test_a_topic_that_does_not_exist_is_refused_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(TopicNotFound):
        OrderedProducer(client, "payments")


def test_own_properties_are_kept_but_the_unique_key_is_the_producers(
    sender: OrderedProducer,
) -> None:
    message = sender.message(b"x", key="", properties={"region": "eu", "UNIQ_KEY": "mine"})
    assert message.properties == {"region": "eu", "__SHARDINGKEY": ""}


def test_a_message_over_rocketmq_s_limit_is_refused_with_its_size(sender: OrderedProducer) -> None:
    with pytest.raises(LocalProtocolError, match="5000000 bytes with key 'k' is over"):
        sender.message(bytes(5_000_000), key="k")


def test_many_messages_go_in_batches_each_queue_in_order(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer
) -> None:
    landed = sender.send_all({queue: messages(sender, 5) for queue in sender.queues})
    for queue in sender.queues:
        assert broker.queues[queue].bodies == numbers(5)
        assert [(result.first_offset, result.count) for result in landed[queue]] == [
            (0, 2),
            (2, 2),
            (4, 1),
        ]
        assert (
            len({message.properties["UNIQ_KEY"] for message in broker.queues[queue].messages}) == 5
        )
    assert len(cluster.network.requests(SEND_BATCH)) == 8
    assert len(cluster.network.requests(SEND)) == 4, "a batch of one is a plain message"


def test_a_busy_broker_is_left_alone_for_a_while_and_order_is_kept(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer
) -> None:
    queue = sender.queues[0]
    cluster.network.arm(BUSY, SEND_BATCH, times=3)
    sender.send_all({queue: messages(sender, 6)})
    assert broker.queues[queue].bodies == numbers(6), "nothing twice, nothing out of order"
    assert cluster.clock.pauses == [20, 40, 80]


def test_a_busy_queue_does_not_hold_up_the_others(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(BUSY, SEND_BATCH)
    slow, fast = sender.queues[:2]
    sender.send_all({slow: messages(sender, 4), fast: messages(sender, 4)})
    targets = [int(request.ext("e")) for request in cluster.network.requests(SEND_BATCH)]
    assert targets[:2] == [slow.queue_id, fast.queue_id]
    assert broker.queues[slow].bodies == broker.queues[fast].bodies == numbers(4)


def test_a_broker_that_stays_busy_is_an_error_in_the_end(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(BUSY, SEND, times=100)
    before = cluster.clock.monotonic_ms()
    with pytest.raises(BrokerBusy, match="flow control"):
        sender.send("order-1", b"x")
    assert 10_000 <= cluster.clock.monotonic_ms() - before < 11_100


@pytest.mark.parametrize("is_served", [True, False])
def test_a_send_that_timed_out_is_found_out_and_nothing_is_stored_twice(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer, is_served: bool
) -> None:
    queue = sender.queues[0]
    cluster.network.arm(DropReply(cluster.clock, 3_000, is_served=is_served), SEND_BATCH)
    sender.send_all({queue: messages(sender, 6)})
    assert broker.queues[queue].bodies == numbers(6)
    assert len(cluster.network.requests(SEND_BATCH)) == (3 if is_served else 4)
    streams = [
        stream
        for stream in cluster.network.transports
        if any(sent.code == SEND_BATCH for sent in stream.sent)
    ]
    assert len(streams) == 2
    assert streams[0].is_closed, "whatever the old connection still brings, nobody hears it"


@pytest.mark.parametrize("fault", [HangUp(), HangUp(is_served=True), CutMidFrame()], ids=repr)
@pytest.mark.parametrize("position", range(3))
def test_a_connection_lost_at_any_batch_is_replaced_and_order_is_kept(
    cluster: ClusterDouble,
    broker: BrokerDouble,
    sender: OrderedProducer,
    fault: Fault,
    position: int,
) -> None:
    queue = sender.queues[0]
    cluster.network.arm(fault, SEND_BATCH, after=position)
    sender.send_all({queue: messages(sender, 6)})
    assert first_copies(broker.queues[queue].bodies) == numbers(6)


def test_a_broker_that_is_away_for_a_moment_is_waited_for(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer
) -> None:
    cluster.network.take_down(broker.address)
    pause = cluster.clock.pause_ms

    def pause_then_return(duration_ms: int) -> None:
        pause(duration_ms)
        cluster.network.bring_up(broker.address)

    cluster.clock.pause_ms = pause_then_return  # type: ignore[method-assign]
    assert sender.send("order-1", b"x").first_offset == 0


def test_a_final_refusal_ends_the_send_and_what_landed_is_a_prefix(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer
) -> None:
    queue = sender.queues[0]
    given = [*messages(sender, 4), sender.message(b"illegal")]
    cluster.network.arm(Refuse(ResponseCode.MESSAGE_ILLEGAL, "too large"), SEND)
    with pytest.raises(BrokerError, match="too large"):
        sender.send_all({queue: given})
    assert broker.queues[queue].bodies == numbers(4)
    assert len(cluster.network.requests(SEND)) == 1


def test_stored_without_the_wished_durability_is_stored(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer
) -> None:
    landed = {"msgId": "AA", "queueId": "2", "queueOffset": "7"}
    cluster.network.arm(Refuse(ResponseCode.FLUSH_DISK_TIMEOUT, ext_fields=landed), SEND)
    assert sender.send("order-1", b"x").first_offset == 7
    assert len(cluster.network.requests(SEND)) == 1


def test_an_answer_that_says_nowhere_is_a_remote_protocol_error(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SUCCESS), SEND)
    with pytest.raises(RemoteProtocolError, match="lacks the header field"):
        sender.send("order-1", b"x")


def test_an_answer_under_a_wrong_id_is_a_remote_protocol_error(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(AnswerAs(opaque=4_711), SEND)
    with pytest.raises(RemoteProtocolError, match="4711"):
        sender.send("order-1", b"x")


def test_a_message_that_cannot_be_encoded_stops_before_the_wire(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    with pytest.raises(LocalProtocolError, match="0x01 or 0x02"):
        sender.send("key\x02TAGS\x01injected", b"x")
    assert cluster.network.requests(SEND) == []


def test_sending_nothing_is_done_at_once(cluster: ClusterDouble, sender: OrderedProducer) -> None:
    queue = sender.queues[0]
    assert sender.send_all({}) == {}
    assert sender.send_all({queue: []}) == {queue: []}
    assert cluster.network.requests(SEND) == []


def test_the_list_of_queues_is_pinned_so_that_no_key_moves(
    broker: BrokerDouble, client: Client, sender: OrderedProducer
) -> None:
    before = sender.queue_of("order-1")
    broker.add_topic("orders", 7)
    client.routes.forget("orders")
    assert sender.send("order-1", b"x").queue == before
    assert len(sender.queues) == 4


def test_a_list_of_queues_from_before_must_still_be_there(
    broker: BrokerDouble, client: Client, sender: OrderedProducer
) -> None:
    broker.add_topic("orders", 3)
    client.routes.forget("orders")
    with pytest.raises(QueueLayoutChanged, match=r"orders@broker-a#3 can no .* 3 others can"):
        OrderedProducer(client, "orders", queues=sender.queues)
    rehash = SendSettings(on_layout_change=OnLayoutChange.REHASH)
    moved = OrderedProducer(client, "orders", queues=sender.queues, settings=rehash)
    assert len(moved.queues) == 3


def test_new_queues_are_left_alone_so_that_no_key_moves(
    broker: BrokerDouble, client: Client, sender: OrderedProducer, caplog: pytest.LogCaptureFixture
) -> None:
    assert OrderedProducer(client, "orders", queues=sender.queues).queues == sender.queues
    assert "not used" not in caplog.text
    broker.add_topic("orders", 5)
    client.routes.forget("orders")
    assert OrderedProducer(client, "orders", queues=sender.queues).queues == sender.queues
    assert "new queues are not used, so that no key moves topic=orders used=4" in caplog.text


@pytest.mark.parametrize("selector", [Selector.QUEUE, Selector.ROUND_ROBIN])
def test_a_selector_without_keys_has_no_queue_of_a_key(client: Client, selector: Selector) -> None:
    sender = OrderedProducer(client, "orders", settings=SendSettings(selector=selector))
    with pytest.raises(OptionError, match="hash or consistent"):
        sender.queue_of("order-1")


def test_a_broker_that_never_answers_times_out_for_good(
    cluster: ClusterDouble, sender: OrderedProducer
) -> None:
    cluster.network.arm(DropReply(cluster.clock, 3_000, is_served=False), SEND, times=10)
    with pytest.raises(RequestTimedOut, match="a send of 1 messages to orders@broker-a#2"):
        sender.send("order-1", b"x")


def test_while_one_queue_waits_for_an_answer_another_backs_off(
    cluster: ClusterDouble, broker: BrokerDouble, sender: OrderedProducer
) -> None:
    refused, silent = sender.queues[:2]
    cluster.network.arm(BUSY, SEND)
    cluster.network.arm(DropReply(cluster.clock, 3_000), SEND)
    sender.send_all({refused: messages(sender, 1), silent: messages(sender, 1)})
    assert broker.queues[refused].bodies == numbers(1)
    assert first_copies(broker.queues[silent].bodies) == numbers(1)


def test_an_answer_that_is_already_there_is_not_waited_for(
    cluster: ClusterDouble, broker: BrokerDouble, client: Client, sender: OrderedProducer
) -> None:
    class AwaitTheOtherAnswer:
        def strike(
            self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve
        ) -> None:
            channel = client.remoting._channels[broker.address]
            only_this = {request.opaque}
            wait_until(lambda: set(channel._waiting) == only_this, "the first was answered", 5)
            transport.answer(reply_to(request, serve(request)))

    cluster.network.arm(AwaitTheOtherAnswer(), SEND, after=1)
    first, second = sender.queues[:2]
    sender.send_all({first: messages(sender, 1), second: messages(sender, 1)})
    assert broker.queues[first].bodies == broker.queues[second].bodies == numbers(1)


def test_a_pause_that_is_over_before_it_begins_is_not_waited_for(
    cluster: ClusterDouble, broker: BrokerDouble
) -> None:
    def connect_slowly(address: str) -> ScriptedTransport:
        cluster.clock.advance_ms(100)
        return cluster.network.connect(address)

    with Client(cluster.name_servers, clock=cluster.clock, connect=connect_slowly) as client:
        sender = OrderedProducer(client, "orders", send_timeout_ms=300)
        cluster.network.take_down(broker.address)
        with pytest.raises(ConnectFailed):
            sender.send_all({queue: messages(sender, 1) for queue in sender.queues})
    assert cluster.clock.pauses == [], "connecting took longer than the pause of the first queue"
