"""Popping from a broker that plays along."""

import json

import pytest
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, FilterKind, PopConsumer, Subscription
from rmq_ordered.errors import BrokerError, OptionError, RemoteProtocolError, TransportError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import encode_message
from rmq_ordered.protocol.pops import PoppedMessage
from rmq_ordered.testing import BrokerDouble, ClusterDouble, Refuse, SpoilBody

FIELDS = {"popTime": "1700000000000", "invisibleTime": "60000", "reviveQid": "3"}


class PoppingBroker:
    """Gives the same messages each time, and remembers what it was asked."""

    def __init__(self, double: BrokerDouble) -> None:
        self._double = double
        self.asked: list[RemotingCommand] = []
        self.code = ResponseCode.SUCCESS
        self.tags = {7: "A"}
        self.pop_time_ms = 1_700_000_000_000
        # Offsets that it will not hide anew.
        self.expired: set[int] = set()

    def serve(self, request: RemotingCommand) -> RemotingCommand:
        if request.code < RequestCode.POP_MESSAGE:
            return self._double.serve(request)
        self.asked.append(request)
        fields = FIELDS | {"popTime": str(self.pop_time_ms)}
        if request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            self.pop_time_ms += 1
            is_expired = request.ext_int("offset") in self.expired
            code = ResponseCode.MESSAGE_ILLEGAL if is_expired else self.code
            return RemotingCommand(code, ext_fields=FIELDS | {"popTime": str(self.pop_time_ms)})
        if request.code != RequestCode.POP_MESSAGE:
            return RemotingCommand(self.code, ext_fields=fields)
        host, queue = "10.0.0.1:10911", MessageQueue("orders", self._double.name, 1)
        body = b"".join(
            encode_message(Message(queue, offset, 0, b"popped", {"TAGS": tag}, 1, 2, host, host))
            for offset, tag in self.tags.items()
        )
        return RemotingCommand(self.code, ext_fields=fields, body=body)

    def of(self, code: int) -> list[RemotingCommand]:
        return [one for one in list(self.asked) if one.code == code]


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


def test_a_left_out_message_that_cannot_be_acknowledged_is_warned_of(
    client: Client,
    brokers: list[PoppingBroker],
    cluster: ClusterDouble,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR), RequestCode.BATCH_ACK_MESSAGE)
    assert PopConsumer(client, "billing", Subscription("orders", "paid")).pop() == ()
    assert "messages that do not match were not acknowledged" in caplog.text


def test_many_messages_are_hidden_anew_at_once_and_an_absent_broker_is_asked_once(
    client: Client, brokers: list[PoppingBroker], cluster: ClusterDouble
) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    popped = [consumer.pop(broker_name=name)[0] for name in ("broker-a", "broker-b") * 300]
    cluster.network.take_down(cluster.brokers[1].address)
    outcomes = consumer.try_hide(popped, 5_000)
    assert renewals(brokers[0]) == 300
    assert renewals(brokers[1]) == 0
    assert all(isinstance(outcome, PoppedMessage) for outcome in outcomes[::2])
    assert all(isinstance(outcome, TransportError) for outcome in outcomes[1::2])
    assert len(set(map(id, outcomes[1::2]))) == 1, "one attempt to reach it serves for all"


def test_acknowledgements_go_in_handfuls_and_one_absent_broker_keeps_back_no_other(
    client: Client, brokers: list[PoppingBroker], cluster: ClusterDouble
) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    (first,), (second,) = (consumer.pop(broker_name=name) for name in ("broker-a", "broker-b"))
    cluster.network.take_down(cluster.brokers[0].address)
    with pytest.raises(TransportError):
        consumer.ack_all([first] * 1_500 + [second] * 1_500)
    assert len(brokers[1].of(RequestCode.BATCH_ACK_MESSAGE)) == 2


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
    return len(broker.of(RequestCode.CHANGE_MESSAGE_INVISIBLETIME))


def renewed_offsets(broker: PoppingBroker) -> list[int]:
    return [one.ext_int("offset") for one in broker.of(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)]


@proves("pop-hold")
def test_a_message_that_cannot_be_hidden_anew_costs_no_other_its_time(
    client: Client, brokers: list[PoppingBroker], caplog: pytest.LogCaptureFixture
) -> None:
    brokers[0].tags = dict.fromkeys((7, 8, 9), "A")
    brokers[0].expired = {7}
    consumer = PopConsumer(client, "billing", "orders", invisible_ms=30)
    popped = consumer.pop()
    with consumer.hold(popped) as held:
        wait_until(lambda: renewed_offsets(brokers[0]).count(9) >= 2, "the last is renewed", 30)
        with pytest.raises(BrokerError, match="another invisible time of 7 "):
            held.renew()
        assert held.messages[0] == popped[0]
        assert all(held.messages[n].handle != popped[n].handle for n in (1, 2))
    assert "could not be hidden anew" in caplog.text


def test_a_broker_that_is_away_costs_a_hold_no_message_of_another(
    client: Client, brokers: list[PoppingBroker], cluster: ClusterDouble
) -> None:
    brokers[0].tags = dict.fromkeys((7, 8), "A")
    consumer = PopConsumer(client, "billing", "orders")
    here, there = consumer.pop(), consumer.pop()
    cluster.network.take_down(cluster.brokers[0].address)
    with consumer.hold(here + there) as held:
        with pytest.raises(TransportError):
            held.renew()
        assert held.messages[:2] == here
        assert held.messages[2].handle != there[0].handle
        with pytest.raises(TransportError):
            held.ack()
        assert held.messages == here, "the others are done with"
    with pytest.raises(TransportError):
        consumer.ack_all(here + there)
    assert len(brokers[1].of(RequestCode.BATCH_ACK_MESSAGE)) == 2


def test_a_held_message_is_acknowledged_by_the_handle_that_counts_and_then_left_alone(
    client: Client, brokers: list[PoppingBroker]
) -> None:
    brokers[0].tags = dict.fromkeys((7, 8, 9, 10), "A")
    consumer = PopConsumer(client, "billing", "orders")
    popped = consumer.pop()
    with consumer.hold(popped) as held:
        held.renew()
        counts = {one.handle.pop_time_ms for one in held.messages}
        consumer.ack(popped[0])
        consumer.ack_all(popped[1:2])
        held.ack(popped[2])
        held.ack(popped[2])
        acks = [json.loads(one.body) for one in brokers[0].of(RequestCode.BATCH_ACK_MESSAGE)]
        assert [ack["acks"][0]["so"] for ack in acks] == [7, 8, 9]
        assert {ack["acks"][0]["pt"] for ack in acks} <= counts
        assert [one.handle.queue_offset for one in held.messages] == [10]
        held.renew()
    assert renewed_offsets(brokers[0]) == [7, 8, 9, 10, 10]
    consumer.ack(popped[3])
    assert len(brokers[0].of(RequestCode.ACK_MESSAGE)) == 1, "what is not held goes as it is"


def test_a_message_that_was_popped_again_is_not_the_one_that_is_held(
    client: Client, brokers: list[PoppingBroker]
) -> None:
    consumer = PopConsumer(client, "billing", "orders", is_orderly=True)
    with consumer.hold(consumer.pop()) as held:
        brokers[0].pop_time_ms += 60_000
        consumer.pop()
        (again,) = consumer.pop()
        assert not held.has(again)
        consumer.ack(again)
        assert len(held.messages) == 1
    (ack,) = brokers[0].of(RequestCode.ACK_MESSAGE)
    assert ack.ext("extraInfo") == str(again.handle)


def test_a_filter_goes_with_every_pop(client: Client, brokers: list[PoppingBroker]) -> None:
    wanted = Subscription("orders", "size > 3", FilterKind.SQL92)
    assert len(PopConsumer(client, "billing", wanted).pop()) == 1
    (asked,) = brokers[0].asked
    assert (asked.ext("exp"), asked.ext("expType")) == ("size > 3", "SQL92")
    PopConsumer(client, "billing", "orders").pop()
    assert (brokers[0].asked[1].ext("exp"), brokers[0].asked[1].ext("expType")) == ("*", "TAG")


def test_tags_whose_hashes_collide_are_told_apart_here_and_done_with(
    client: Client, brokers: list[PoppingBroker], caplog: pytest.LogCaptureFixture
) -> None:
    brokers[0].tags = {7: "BB", 8: "Aa", 9: "BB"}
    consumer = PopConsumer(client, "billing", Subscription("orders", "Aa || C"))
    assert consumer.topic == "orders"
    (popped,) = consumer.pop()
    assert popped.handle.queue_offset == 8
    (ack,) = brokers[0].of(RequestCode.BATCH_ACK_MESSAGE)
    assert [each["so"] for each in json.loads(ack.body)["acks"]] == [7]
    assert caplog.text == ""


def test_what_does_not_match_and_cannot_be_acknowledged_is_a_warning(
    client: Client,
    brokers: list[PoppingBroker],
    cluster: ClusterDouble,
    caplog: pytest.LogCaptureFixture,
) -> None:
    brokers[0].tags = {7: "BB", 8: "Aa"}
    refusal = Refuse(ResponseCode.SYSTEM_ERROR, "no")
    cluster.network.arm(refusal, RequestCode.BATCH_ACK_MESSAGE)
    (popped,) = PopConsumer(client, "billing", Subscription("orders", "Aa")).pop()
    assert popped.handle.queue_offset == 8
    assert "messages that do not match were not acknowledged" in caplog.text


def test_an_answer_that_cannot_be_read_names_broker_and_topic(
    client: Client, cluster: ClusterDouble, brokers: list[PoppingBroker]
) -> None:
    consumer = PopConsumer(client, "billing", "orders")
    cluster.network.arm(SpoilBody(0), RequestCode.POP_MESSAGE)
    with pytest.raises(RemoteProtocolError, match="broker-a:10911 answered a pop of topic orders"):
        consumer.pop(broker_name="broker-a")
    (popped,) = consumer.pop(broker_name="broker-a")
    cluster.network.arm(Refuse(ResponseCode.SUCCESS), RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    expected = "broker-a:10911 answered another invisible time of 7 .*'popTime'"
    with pytest.raises(RemoteProtocolError, match=expected):
        consumer.change_invisible_time(popped, 1_000)
