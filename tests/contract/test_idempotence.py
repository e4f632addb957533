"""Stamped sends: a repeat adds nothing. Apache RocketMQ knows no stamps and stores everything."""

import struct
from collections.abc import Iterable

import pytest
from tests.contract.divergences import diverges
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.promises import proves

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.model import MessageQueue, OutgoingMessage, QueueRange
from rmq_ordered.protocol.codes import (
    FEATURE_IDEMPOTENT_SEND,
    FEATURE_STAMPED_REQUEST,
    RequestCode,
    ResponseCode,
)
from rmq_ordered.protocol.message import encode_batch
from rmq_ordered.protocol.sends import send_batch_request, send_stamped_request
from rmq_ordered.protocol.stamps import STAMP_PROPERTY, SendStamp, format_stamp

SINK = "contract"


@pytest.fixture(autouse=True)
def _only_embedded(request: pytest.FixtureRequest, broker: Broker) -> None:
    diverges(request, broker, "idempotent sends")


@pytest.fixture
def queue(broker: Broker, client: Client) -> MessageQueue:
    return client.routes.readable(broker.create_topic("stamped", 1))[0]


def digest(batch: int, sequence: int) -> int:
    return batch * 1_000_003 + sequence


def stamped(batch: int, sequence: int, *, shift: int = 0) -> OutgoingMessage:
    stamp = SendStamp(SINK, batch, 0, sequence, digest(batch, sequence) + shift)
    return OutgoingMessage(f"{batch}/{sequence}".encode(), {STAMP_PROPERTY: format_stamp(stamp)})


def send(broker: Broker, queue: MessageQueue, messages: Iterable[OutgoingMessage]) -> frames.Reply:
    request = send_batch_request(
        queue, encode_batch(list(messages)), producer_group="contract", born_ms=1
    )
    return frames.ask(broker.broker_address, request.code, request.ext_fields or {}, request.body)


def landed(client: Client, queue: MessageQueue) -> list[str]:
    plan = ReadPlan(QueueRange(queue, 0, client.broker.max_offset(queue)))
    batches = QueueReader(client).read(plan)
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


@proves("stamped-send-repeated")
def test_a_repeated_send_is_a_success_that_adds_nothing(
    broker: Broker, client: Client, queue: MessageQueue
) -> None:
    piece = [stamped(1, sequence) for sequence in range(3)]
    first, again = send(broker, queue, piece), send(broker, queue, piece)
    assert (first.code, first.fields["duplicate"]) == (0, "false")
    assert (again.code, again.fields["duplicate"]) == (0, "true")
    assert again.fields["msgId"] == first.fields["msgId"]
    assert again.fields["queueOffset"] == "0"
    assert landed(client, queue) == ["1/0", "1/1", "1/2"]


def test_what_landed_is_cut_off_and_the_rest_appended(
    broker: Broker, client: Client, queue: MessageQueue
) -> None:
    send(broker, queue, [stamped(1, 0), stamped(1, 1)])
    answer = send(broker, queue, [stamped(1, 1), stamped(1, 2)])
    assert (answer.code, answer.fields["duplicate"], answer.fields["landed"]) == (0, "partial", "1")
    assert answer.fields["lastSequence"] == "2"
    assert landed(client, queue) == ["1/0", "1/1", "1/2"]


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([stamped(2, 3)], ResponseCode.SEQUENCE_GAP),
        ([stamped(3, 1)], ResponseCode.SEQUENCE_GAP),
        ([stamped(1, 0)], ResponseCode.STALE_BATCH),
        ([stamped(2, 1, shift=1), stamped(2, 2, shift=1)], ResponseCode.REPLAY_DIVERGED),
        ([stamped(2, 2), OutgoingMessage(b"bare", {})], ResponseCode.MESSAGE_ILLEGAL),
    ],
    ids=["a gap", "a batch begun in the middle", "an old batch", "another replay", "half stamped"],
)
def test_a_refused_send_adds_nothing(
    broker: Broker,
    client: Client,
    queue: MessageQueue,
    messages: list[OutgoingMessage],
    code: ResponseCode,
) -> None:
    send(broker, queue, [stamped(2, 0), stamped(2, 1)])
    answer = send(broker, queue, messages)
    assert answer.code == code
    assert answer.remark
    if code != ResponseCode.MESSAGE_ILLEGAL:
        assert answer.fields["lastBatch"] == "2"
        assert answer.fields["lastSequence"] == "1"
        assert int(answer.fields["lastDigest"], 16) == digest(2, 1)
        assert answer.fields["lastOffset"] == "1"
    assert landed(client, queue) == ["2/0", "2/1"]


def test_a_stream_nobody_knows_begins_at_its_beginning(broker: Broker, queue: MessageQueue) -> None:
    assert send(broker, queue, [stamped(1, 5)]).code == ResponseCode.STREAM_UNKNOWN


def test_the_broker_can_be_asked_what_landed(broker: Broker, queue: MessageQueue) -> None:
    asked = {"topic": queue.topic, "queueId": 0, "sink": SINK, "partition": 0}
    before = frames.ask(broker.broker_address, RequestCode.GET_SEND_STREAM, asked)
    assert before.code == ResponseCode.QUERY_NOT_FOUND
    send(broker, queue, [stamped(4, 0)])
    answer = frames.ask(broker.broker_address, RequestCode.GET_SEND_STREAM, asked)
    assert (answer.code, answer.fields["lastBatch"], answer.fields["lastSequence"]) == (0, "4", "0")


def test_the_route_says_that_sends_are_idempotent(broker: Broker, queue: MessageQueue) -> None:
    route = frames.route(broker.name_server, queue.topic).body
    assert FEATURE_IDEMPOTENT_SEND.encode() in route
    assert FEATURE_STAMPED_REQUEST.encode() in route


def send_once(
    broker: Broker,
    queue: MessageQueue,
    batch: int,
    sequences: range,
    *,
    digests: int | None = None,
    shift: int = 0,
) -> frames.Reply:
    """The same with one stamp for all messages."""
    bodies = [OutgoingMessage(f"{batch}/{number}".encode(), {}) for number in sequences]
    count = len(bodies) if digests is None else digests
    numbers = [digest(batch, sequences.start + n) + shift for n in range(count)]
    request = send_stamped_request(
        queue,
        encode_batch(bodies) + struct.pack(f">{count}Q", *numbers),
        f"{SINK}/{batch}/0/{sequences.start}",
        count,
        producer_group="contract",
        born_ms=1,
    )
    return frames.ask(broker.broker_address, request.code, request.ext_fields or {}, request.body)


def test_one_stamp_stands_for_all_messages_of_a_request(
    broker: Broker, client: Client, queue: MessageQueue
) -> None:
    first, again = (send_once(broker, queue, 1, range(3)) for _ in range(2))
    assert (first.code, first.fields["duplicate"]) == (0, "false")
    assert (again.code, again.fields["duplicate"], again.fields["landed"]) == (0, "true", "3")
    more = send_once(broker, queue, 1, range(1, 5))
    assert (more.code, more.fields["duplicate"], more.fields["landed"]) == (0, "partial", "2")
    assert int(more.fields["lastDigest"], 16) == digest(1, 4)
    assert send(broker, queue, [stamped(1, 4), stamped(1, 5)]).fields["landed"] == "1"
    assert landed(client, queue) == [f"1/{number}" for number in range(6)]


def test_a_request_whose_stamp_does_not_fit_adds_nothing(
    broker: Broker, client: Client, queue: MessageQueue
) -> None:
    send_once(broker, queue, 2, range(3))
    refused = {
        send_once(broker, queue, 2, range(3, 5), digests=1).code: ResponseCode.MESSAGE_ILLEGAL,
        send_once(broker, queue, 2, range(2, 5), shift=1).code: ResponseCode.REPLAY_DIVERGED,
        send_once(broker, queue, 2, range(4, 5)).code: ResponseCode.SEQUENCE_GAP,
        send_once(broker, queue, 1, range(1)).code: ResponseCode.STALE_BATCH,
    }
    assert list(refused) == list(refused.values())
    assert landed(client, queue) == ["2/0", "2/1", "2/2"]
