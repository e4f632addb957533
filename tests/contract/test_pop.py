"""Popping: hidden until acknowledged, back when its time is over."""

from dataclasses import replace

import pytest
from tests.contract.divergences import diverges
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, FilterKind, OrderedProducer, PopConsumer, Subscription
from rmq_ordered.errors import BrokerError, OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.pops import (
    PoppedMessage,
    ack_request,
    batch_ack_request,
    change_invisible_request,
    pop_request,
)

SOON_S = 60
NO_MESSAGE = 208


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("popped", 1)


@pytest.fixture
def group(broker: Broker) -> str:
    return broker.unique("poppers")


def pop_all(consumer: PopConsumer, count: int) -> list[PoppedMessage]:
    """Pop until so many came."""
    found: list[PoppedMessage] = []

    def more() -> bool:
        found.extend(consumer.pop(wait_ms=1_000))
        return len(found) >= count

    wait_until(more, f"{count} messages were popped", SOON_S)
    return found


@proves("popped-is-hidden")
def test_popped_messages_are_hidden_and_do_not_come_again_once_acknowledged(
    client: Client, topic: str, group: str
) -> None:
    producer = OrderedProducer(client, topic)
    for number in range(5):
        producer.send("key", b"%d" % number)
    one, other = PopConsumer(client, group, topic), PopConsumer(client, group, topic)
    popped = pop_all(one, 5)
    assert [each.message.body for each in popped] == [b"%d" % number for number in range(5)]
    assert [each.handle.queue_offset for each in popped] == list(range(5))
    assert other.pop() == ()
    for each in popped:
        one.ack(each)
    producer.send("key", b"next")
    (after,) = pop_all(other, 1)
    assert after.message.body == b"next"
    other.ack(after)


@proves("popped-is-hidden")
def test_a_message_whose_time_is_over_comes_again(client: Client, topic: str, group: str) -> None:
    OrderedProducer(client, topic).send("key", b"again")
    consumer = PopConsumer(client, group, topic, invisible_ms=60_000)
    (popped,) = pop_all(consumer, 1)
    shortened = consumer.change_invisible_time(popped, 1_000)
    assert shortened.handle != popped.handle
    (back,) = pop_all(consumer, 1)
    assert back.message.body == b"again"
    assert back.message.reconsume_times == 1
    consumer.ack(back)
    assert consumer.pop() == ()


def test_only_the_tags_that_were_asked_for_are_popped(
    client: Client, topic: str, group: str
) -> None:
    producer = OrderedProducer(client, topic)
    # "Aa" and "BB" have the same hash code in Java: a broker cannot tell them apart.
    for number, tag in enumerate(["Aa", "BB", "C", "Aa"]):
        producer.send("key", b"%d" % number, tags=tag)
    consumer = PopConsumer(client, group, Subscription(topic, "Aa || D"))
    popped = pop_all(consumer, 2)
    assert [each.message.body for each in popped] == [b"0", b"3"]
    consumer.ack_all(popped)
    assert PopConsumer(client, group, topic).pop() == (), "the others are done with"


def test_an_sql_condition_chooses_what_is_popped(client: Client, topic: str, group: str) -> None:
    producer = OrderedProducer(client, topic)
    sized = [producer.message(b"%d" % n, properties={"size": str(n)}) for n in range(6)]
    producer.send_all({producer.queues[0]: sized})
    wanted = Subscription(topic, "size BETWEEN 2 AND 3", FilterKind.SQL92)
    popped = pop_all(PopConsumer(client, group, wanted), 2)
    assert [each.message.body for each in popped] == [b"2", b"3"]


def test_an_sql_condition_that_cannot_be_read_is_refused(
    client: Client, topic: str, group: str
) -> None:
    consumer = PopConsumer(client, group, Subscription(topic, "size >", FilterKind.SQL92))
    with pytest.raises(BrokerError, match=f"a pop of topic {topic}"):
        consumer.pop()


def test_more_than_the_broker_gives_at_once_is_refused_before_it_is_asked(
    client: Client, group: str
) -> None:
    consumer = PopConsumer(client, group, "any topic")
    for count in (0, 33):
        with pytest.raises(OptionError, match="1 to 32"):
            consumer.pop(count)


def test_messages_are_acknowledged_together(client: Client, topic: str, group: str) -> None:
    producer = OrderedProducer(client, topic)
    for number in range(5):
        producer.send("key", b"%d" % number)
    consumer = PopConsumer(client, group, topic, invisible_ms=5_000)
    popped = pop_all(consumer, 5)
    consumer.ack_all(popped[:2] + popped[3:])
    (back,) = pop_all(consumer, 1)
    assert back.message.body == b"2"
    consumer.ack_all([back])
    assert consumer.pop() == ()


@proves("pop-hold")
def test_held_messages_stay_hidden_longer_than_their_time(
    client: Client, topic: str, group: str
) -> None:
    producer = OrderedProducer(client, topic)
    producer.send("key", b"held")
    consumer = PopConsumer(client, group, topic, invisible_ms=1_500)
    with consumer.hold(pop_all(consumer, 1)) as held:
        before = held.messages[0].handle
        wait_until(
            lambda: held.messages[0].handle.pop_time_ms > before.pop_time_ms + 3_000,
            "the message was hidden anew",
            SOON_S,
        )
        assert consumer.pop() == ()
        held.ack()
    producer.send("key", b"next")
    (after,) = pop_all(consumer, 1)
    assert after.message.body == b"next"
    consumer.ack(after)


@proves("pop-orderly-waits")
def test_an_orderly_queue_waits_until_everything_popped_is_settled(
    client: Client, topic: str, group: str
) -> None:
    producer = OrderedProducer(client, topic)
    for number in range(3):
        producer.send("key", b"%d" % number)
    consumer = PopConsumer(client, group, topic, is_orderly=True)
    first = consumer.pop(2, wait_ms=5_000, attempt_id="one")
    assert [each.message.body for each in first] == [b"0", b"1"]
    assert consumer.pop(2) == ()
    again = consumer.pop(2, attempt_id="one")
    assert [each.message.body for each in again] == [b"0", b"1"]
    consumer.ack(again[1])
    assert consumer.pop(2) == ()
    consumer.ack(again[0])
    (last,) = pop_all(consumer, 1)
    assert last.message.body == b"2"
    consumer.ack(last)
    assert consumer.pop() == ()


def test_an_orderly_message_that_times_out_comes_again_in_place_and_counted(
    client: Client, topic: str, group: str
) -> None:
    producer = OrderedProducer(client, topic)
    for number in range(2):
        producer.send("key", b"%d" % number)
    consumer = PopConsumer(client, group, topic, is_orderly=True, invisible_ms=2_000)
    first = consumer.pop(1, wait_ms=5_000)
    assert [each.message.body for each in first] == [b"0"]
    (again,) = pop_one(consumer)
    assert (again.message.body, again.message.reconsume_times) == (b"0", 1)
    consumer.ack(again)
    (last,) = pop_one(consumer)
    assert (last.message.body, last.message.reconsume_times) == (b"1", 0)
    consumer.ack(last)


def pop_one(consumer: PopConsumer) -> tuple[PoppedMessage, ...]:
    """Pop a single message, once there is one."""
    found: list[PoppedMessage] = []

    def more() -> bool:
        found.extend(consumer.pop(1, wait_ms=1_000))
        return bool(found)

    wait_until(more, "a message was popped", SOON_S)
    return tuple(found)


def test_what_was_acknowledged_in_order_does_not_come_again_behind_a_time_out(
    request: pytest.FixtureRequest, broker: Broker, client: Client, topic: str, group: str
) -> None:
    diverges(request, broker, "pop acks")
    producer = OrderedProducer(client, topic)
    for number in range(3):
        producer.send("key", b"%d" % number)
    consumer = PopConsumer(client, group, topic, is_orderly=True, invisible_ms=1_000)
    first = consumer.pop(3, wait_ms=5_000)
    consumer.ack(first[1])
    again = pop_all(consumer, 2)
    assert [each.message.body for each in again] == [b"0", b"2"]


@proves("pop-bad-handle-changes-nothing")
def test_handles_that_mean_nothing_change_nothing(client: Client, topic: str, group: str) -> None:
    OrderedProducer(client, topic).send("key", b"kept")
    consumer = PopConsumer(client, group, topic, invisible_ms=3_000)
    (popped,) = pop_all(consumer, 1)
    forged = replace(popped, handle=replace(popped.handle, pop_time_ms=1))
    consumer.ack(forged)
    PopConsumer(client, group + "-other", topic).ack(popped)
    (back,) = pop_all(consumer, 1)
    assert back.message.body == b"kept"
    # Expired, and for the second time: answered, and without effect.
    consumer.ack(popped)
    consumer.ack(back)
    consumer.ack(back)
    assert consumer.pop() == ()


@proves("pop-bad-handle-changes-nothing")
def test_handles_that_mean_nothing_change_nothing_together_either(
    client: Client, topic: str, group: str
) -> None:
    OrderedProducer(client, topic).send("key", b"kept")
    consumer = PopConsumer(client, group, topic, invisible_ms=3_000)
    (popped,) = pop_all(consumer, 1)
    forged = replace(popped, handle=replace(popped.handle, pop_time_ms=1))
    beyond = replace(popped, handle=replace(popped.handle, queue_offset=99))
    consumer.ack_all([forged, beyond])
    PopConsumer(client, group + "-other", topic).ack_all([popped])
    (back,) = pop_all(consumer, 1)
    assert back.message.body == b"kept"
    # Expired, and twice in one request.
    consumer.ack_all([popped, back, back])
    assert consumer.pop() == ()


def test_a_batch_without_acks_is_refused(client: Client, topic: str, group: str) -> None:
    (queue,) = client.routes.readable(topic)
    request = batch_ack_request(group, topic, queue.broker_name, [])
    answer = client.broker.start(queue, request, "no acks", 10_000).result()
    assert answer.code == NO_MESSAGE


@proves("pop-nonsense-refused")
def test_another_time_for_what_cannot_be_is_refused_and_changes_nothing(
    client: Client, topic: str, group: str
) -> None:
    OrderedProducer(client, topic).send("key", b"kept")
    consumer = PopConsumer(client, group, topic)
    (popped,) = pop_all(consumer, 1)
    (queue,) = client.routes.readable(topic)

    def code(asked: str = topic, **strange: int) -> int:
        handle = replace(popped.handle, **strange)
        request = change_invisible_request(group, asked, handle, 1)
        return client.broker.start(queue, request, "another time", 10_000).result().code

    assert code("nowhere") == ResponseCode.TOPIC_NOT_EXIST
    assert code(queue_id=7) == ResponseCode.MESSAGE_ILLEGAL
    assert code(queue_id=-1) == ResponseCode.MESSAGE_ILLEGAL
    assert code(queue_offset=99) == NO_MESSAGE
    assert code(queue_offset=-1) == NO_MESSAGE
    # Still out, under its old handle.
    consumer.ack(popped)
    assert consumer.pop() == ()


@proves("pop-nonsense-refused")
@pytest.mark.parametrize("text", ["nonsense", "1 2 3", "a b c d e f g h"])
def test_text_that_is_no_handle_is_refused_and_changes_nothing(
    client: Client, topic: str, group: str, text: str
) -> None:
    OrderedProducer(client, topic).send("key", b"kept")
    consumer = PopConsumer(client, group, topic, invisible_ms=3_000)
    (popped,) = pop_all(consumer, 1)
    (queue,) = client.routes.readable(topic)
    for request in (
        ack_request(group, topic, popped.handle),
        change_invisible_request(group, topic, popped.handle, 60_000),
    ):
        fields = dict(request.ext_fields or {}) | {"extraInfo": text}
        strange = replace(request, ext_fields=fields)
        answer = client.broker.start(queue, strange, "no handle", 10_000).result()
        assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER)
    (back,) = pop_all(consumer, 1)
    assert back.message.body == b"kept"
    consumer.ack(back)


@proves("pop-nonsense-refused")
def test_acks_that_cannot_be_are_refused(client: Client, topic: str, group: str) -> None:
    OrderedProducer(client, topic).send("key", b"kept")
    consumer = PopConsumer(client, group, topic)
    (popped,) = pop_all(consumer, 1)
    beyond = replace(popped, handle=replace(popped.handle, queue_offset=99))
    with pytest.raises(BrokerError) as no_message:
        consumer.ack(beyond)
    assert no_message.value.code == NO_MESSAGE
    strange = replace(popped, handle=replace(popped.handle, queue_id=7))
    with pytest.raises(BrokerError) as no_queue:
        consumer.ack(strange)
    assert no_queue.value.code == 13
    with pytest.raises(BrokerError) as no_topic:
        PopConsumer(client, group, "nowhere").ack(popped)
    assert no_topic.value.code == ResponseCode.TOPIC_NOT_EXIST
    consumer.ack(popped)


def test_pops_that_cannot_be_are_refused(client: Client, topic: str, group: str) -> None:
    (queue,) = client.routes.readable(topic)

    def code(asked: MessageQueue, count: int = 1) -> int:
        request = pop_request(asked, group=group, max_messages=count, invisible_ms=5_000)
        return client.broker.start(queue, request, "a pop", 10_000).result().code

    assert code(replace(queue, topic="nowhere")) == ResponseCode.TOPIC_NOT_EXIST
    assert code(replace(queue, queue_id=7)) == ResponseCode.INVALID_PARAMETER
    assert code(queue, count=33) == ResponseCode.INVALID_PARAMETER


def test_a_time_that_is_no_time_is_refused(
    request: pytest.FixtureRequest, broker: Broker, client: Client, topic: str, group: str
) -> None:
    diverges(request, broker, "pop times")
    OrderedProducer(client, topic).send("key", b"kept")
    consumer = PopConsumer(client, group, topic)
    (popped,) = pop_all(consumer, 1)
    for wrong_ms in (0, -1, 10**15):
        with pytest.raises(BrokerError, match="invisibleTime"):
            consumer.change_invisible_time(popped, wrong_ms)
    consumer.ack(popped)


def test_what_is_popped_can_be_seen(
    request: pytest.FixtureRequest, broker: Broker, client: Client, topic: str, group: str
) -> None:
    diverges(request, broker, "pop state")
    producer = OrderedProducer(client, topic)
    for number in range(3):
        producer.send("key", b"%d" % number)
    consumer = PopConsumer(client, group, topic)
    popped = pop_all(consumer, 3)
    consumer.ack(popped[0])
    ((_, state),) = client.broker.pop_state(group)
    assert (state.topic, state.in_flight, state.next_offset) == (topic, 2, 3)
    assert state.oldest_pop_ms == popped[0].handle.pop_time_ms
