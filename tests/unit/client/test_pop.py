"""Popping from a broker that plays along."""

import pytest
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, PopConsumer
from rmq_ordered.errors import BrokerError, OptionError, TransportError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import encode_message
from rmq_ordered.testing import BrokerDouble, ClusterDouble, Refuse

FIELDS = {"popTime": "1700000000000", "invisibleTime": "60000", "reviveQid": "3"}


class PoppingBroker:
    """Gives one message once, and remembers what it was asked."""

    def __init__(self, double: BrokerDouble) -> None:
        self._double = double
        self.asked: list[RemotingCommand] = []
        self.code = ResponseCode.SUCCESS
        self.properties: dict[str, str] = {}

    def serve(self, request: RemotingCommand) -> RemotingCommand:
        if request.code < RequestCode.POP_MESSAGE:
            return self._double.serve(request)
        self.asked.append(request)
        if request.code != RequestCode.POP_MESSAGE:
            return RemotingCommand(self.code, ext_fields=FIELDS)
        host, queue = "10.0.0.1:10911", MessageQueue("orders", self._double.name, 1)
        body = encode_message(Message(queue, 7, 0, b"popped", self.properties, 1, 2, host, host))
        return RemotingCommand(self.code, ext_fields=FIELDS, body=body)


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble(brokers=2)
    for double in cluster.brokers:
        double.add_topic("orders", 2)
    return cluster


@pytest.fixture
def brokers(cluster: ClusterDouble) -> list[PoppingBroker]:
    popping = [PoppingBroker(double) for double in cluster.brokers]
    for double, broker in zip(cluster.brokers, popping, strict=True):
        cluster.network.listen(double.address, broker.serve)
    return popping


def test_brokers_are_popped_in_turn(client: Client, brokers: list[PoppingBroker]) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    names = [consumer.pop()[0].handle.broker_name for _ in range(4)]
    assert names == ["broker-a", "broker-b", "broker-a", "broker-b"]
    assert [len(broker.asked) for broker in brokers] == [2, 2]


def test_a_message_is_acknowledged_and_hidden_at_its_own_broker(
    client: Client, brokers: list[PoppingBroker]
) -> None:
    consumer = PopConsumer(client, "billing", "orders", invisible_ms=5)
    (popped,) = consumer.pop(1, wait_ms=10)
    consumer.ack(popped)
    changed = consumer.change_invisible_time(popped, 1_000)
    assert changed.handle.start_offset == 7
    pop, ack, change = brokers[0].asked
    assert (pop.ext("invisibleTime"), pop.ext("pollTime"), pop.ext("maxMsgNums")) == (
        "5",
        "10",
        "1",
    )
    assert ack.ext("extraInfo") == str(popped.handle)
    assert change.ext("invisibleTime") == "1000"
    assert brokers[1].asked == []


@pytest.mark.parametrize(
    "code", [ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND]
)
def test_nothing_to_pop_is_no_error(
    client: Client, brokers: list[PoppingBroker], code: ResponseCode
) -> None:
    brokers[0].code = code
    assert PopConsumer(client, "billing", "orders").pop() == ()


def test_a_refusal_is_an_error(client: Client, brokers: list[PoppingBroker]) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    (popped,) = consumer.pop()
    brokers[0].code = ResponseCode.MESSAGE_ILLEGAL
    with pytest.raises(BrokerError, match="the acknowledgement of 7 1700000000000"):
        consumer.ack(popped)


def test_a_topic_that_nobody_may_read_has_nothing_to_pop(
    client: Client, cluster: ClusterDouble
) -> None:
    for double in cluster.brokers:
        double.permissions["orders"] = 2
    assert PopConsumer(client, "billing", "orders").pop() == ()


def test_settings_that_cannot_work_are_refused(client: Client) -> None:
    with pytest.raises(OptionError, match="invisible_ms"):
        PopConsumer(client, "billing", "orders", invisible_ms=0)
    with pytest.raises(OptionError, match="1 to 32"):
        PopConsumer(client, "billing", "orders").pop(33)


def test_messages_are_acknowledged_together_with_one_request_per_broker(
    client: Client, brokers: list[PoppingBroker]
) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    popped = [consumer.pop()[0] for _ in range(4)]
    consumer.ack_all(popped)
    consumer.ack_all([])
    for broker in brokers:
        acks = [one for one in broker.asked if one.code == RequestCode.BATCH_ACK_MESSAGE]
        assert len(acks) == 1


def test_held_messages_are_hidden_anew_until_they_are_acknowledged(
    client: Client, brokers: list[PoppingBroker]
) -> None:
    consumer = PopConsumer(client, "billing", "orders", invisible_ms=30)
    with consumer.hold(consumer.pop()) as held:
        wait_until(lambda: renewals(brokers[0]) >= 2, "the message was hidden anew", 30)
        held.ack()
        assert held.messages == ()
        before = renewals(brokers[0])
        held.renew()
        assert renewals(brokers[0]) == before
    assert brokers[0].asked[-1].code == RequestCode.BATCH_ACK_MESSAGE


def test_a_refused_renewal_does_not_end_the_hold(
    client: Client, brokers: list[PoppingBroker]
) -> None:
    consumer = PopConsumer(client, "billing", "orders", invisible_ms=30)
    popped = consumer.pop()
    brokers[0].code = ResponseCode.SYSTEM_ERROR
    with consumer.hold(popped) as held:
        wait_until(lambda: renewals(brokers[0]) >= 2, "it is tried again", 30)
        assert held.messages == popped


def test_an_orderly_pop_says_so(client: Client, brokers: list[PoppingBroker]) -> None:
    PopConsumer(client, "billing", "orders", is_orderly=True).pop(attempt_id="first")
    (asked,) = brokers[0].asked
    assert (asked.ext("order"), asked.ext("attemptId")) == ("true", "first")


def test_a_pop_may_name_its_broker(client: Client, brokers: list[PoppingBroker]) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    assert consumer.brokers() == ("broker-a", "broker-b")
    for _ in range(3):
        consumer.pop(broker_name="broker-b")
    assert [len(broker.asked) for broker in brokers] == [0, 3]


def test_a_filter_goes_to_the_broker(client: Client, brokers: list[PoppingBroker]) -> None:
    consumer = PopConsumer(
        client, "billing", "orders", expression="amount > 5", expression_type="SQL92"
    )
    assert len(consumer.pop()) == 1
    (asked,) = brokers[0].asked
    assert (asked.ext("exp"), asked.ext("expType")) == ("amount > 5", "SQL92")


def test_a_tag_that_only_has_the_same_hash_is_acknowledged_and_left_out(
    client: Client, brokers: list[PoppingBroker], caplog: pytest.LogCaptureFixture
) -> None:
    consumer = PopConsumer(client, "billing", "orders", expression="AaAa || paid")
    brokers[0].properties = {"TAGS": "BBBB"}
    assert consumer.pop(broker_name="broker-a") == ()
    assert brokers[0].asked[-1].code == RequestCode.BATCH_ACK_MESSAGE
    brokers[0].properties = {"TAGS": "paid"}
    assert len(consumer.pop(broker_name="broker-a")) == 1
    assert brokers[0].asked[-1].code == RequestCode.POP_MESSAGE
    assert caplog.records == []


def test_a_left_out_message_that_cannot_be_acknowledged_is_warned_of(
    client: Client,
    brokers: list[PoppingBroker],
    cluster: ClusterDouble,
    caplog: pytest.LogCaptureFixture,
) -> None:
    brokers[0].properties = {"TAGS": "other"}
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR), RequestCode.BATCH_ACK_MESSAGE)
    assert PopConsumer(client, "billing", "orders", expression="paid").pop() == ()
    assert "messages with other tags could not be acknowledged" in caplog.text


def test_many_messages_are_hidden_anew_at_once_and_an_absent_broker_is_asked_once(
    client: Client, brokers: list[PoppingBroker], cluster: ClusterDouble
) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    popped = [consumer.pop(broker_name=name)[0] for name in ("broker-a", "broker-b") * 300]
    cluster.network.take_down(cluster.brokers[1].address)
    now, failures = consumer.change_all(popped, 5_000)
    assert renewals(brokers[0]) == 300
    assert renewals(brokers[1]) == 0
    assert [each.handle.start_offset for each in now] == [7, 7] * 300
    assert now[1::2] == popped[1::2]
    assert len(failures) == 300
    assert all(isinstance(failure, TransportError) for failure in failures)


def test_acknowledgements_go_in_handfuls_and_one_absent_broker_keeps_back_no_other(
    client: Client, brokers: list[PoppingBroker], cluster: ClusterDouble
) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    (first,), (second,) = (consumer.pop(broker_name=name) for name in ("broker-a", "broker-b"))
    cluster.network.take_down(cluster.brokers[0].address)
    with pytest.raises(TransportError):
        consumer.ack_all([first] * 1_500 + [second] * 1_500)
    acks = [one for one in brokers[1].asked if one.code == RequestCode.BATCH_ACK_MESSAGE]
    assert len(acks) == 2


def test_what_could_not_be_acknowledged_is_still_held(
    client: Client, brokers: list[PoppingBroker]
) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    held = consumer.hold([])
    held.add(consumer.pop(broker_name="broker-a"))
    brokers[0].code = ResponseCode.SYSTEM_ERROR
    with pytest.raises(BrokerError):
        held.ack()
    assert len(held.messages) == 1
    brokers[0].code = ResponseCode.SUCCESS
    held.ack()
    assert held.messages == ()


def renewals(broker: PoppingBroker) -> int:
    return sum(one.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME for one in list(broker.asked))
