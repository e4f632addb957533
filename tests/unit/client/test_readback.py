"""Reading a queue back: the last row of a stream, whatever else lies there."""

from itertools import repeat

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.client.readback import StreamTrace, end_of_queue, floor_of, read_back
from rmq_ordered.errors import BrokerBusy, OffsetOutOfRange, RemoteProtocolError
from rmq_ordered.model import LandedStamp, MessageQueue, OutgoingMessage, SendStream
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.stamps import SendStamp, format_stamp
from rmq_ordered.testing import BrokerDouble, ClusterDouble, Refuse

STREAM = SendStream("my.sink", 4, 2)
PREFIX = "0123456789AB"
TRACE = StreamTrace.of_stamped(STREAM, PREFIX)


@pytest.fixture
def cluster() -> ClusterDouble:
    return ClusterDouble()


@pytest.fixture
def queue(broker: BrokerDouble) -> MessageQueue:
    (queue,) = broker.add_topic("orders", 1)
    return queue


def append(broker: BrokerDouble, queue: MessageQueue, *properties: dict[str, str]) -> None:
    for values in properties:
        broker.queues[queue].append(OutgoingMessage(b"x", values), 0)


def stamp(
    sequence: int, *, batch: int = 4, sink: str = "my.sink", partition: int = 2
) -> dict[str, str]:
    made = SendStamp(sink, batch, partition, sequence, 1_000 + sequence)
    return {"RMQO_STAMP": format_stamp(made)}


def row(sequence: int, prefix: str = PREFIX) -> dict[str, str]:
    return {"UNIQ_KEY": f"{prefix}{sequence:010X}{1_000 + sequence:010X}"}


def test_an_empty_queue_and_one_without_the_stream_hold_nothing(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    assert read_back(client, queue, 0, TRACE) is None
    append(broker, queue, {}, stamp(5, sink="my-sink"), stamp(6, partition=1), {"RMQO_STAMP": "?"})
    append(broker, queue, row(7, "F" * 12), {"UNIQ_KEY": PREFIX}, {"UNIQ_KEY": PREFIX + "0" * 21})
    assert read_back(client, queue, 0, TRACE) is None


def test_the_rows_after_a_stamp_are_known_by_their_unique_keys(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    append(broker, queue, {}, stamp(0) | row(0), row(1), row(2), row(9, "F" * 12))
    found = read_back(client, queue, 0, TRACE)
    assert found is not None
    assert found.last == LandedStamp(4, 2, 1_002, 3)
    assert found.first_offset == 1
    after = read_back(client, queue, 2, TRACE)
    assert after is not None, "a floor may lie behind the stamp"
    assert (after.last, after.first_offset) == (found.last, 2)


def test_of_a_longer_digest_in_a_stamp_the_digits_of_a_unique_key_count(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    whole = SendStamp("my.sink", 4, 2, 6, 0xFEDC_BA98_7654_3210)
    append(broker, queue, {"RMQO_STAMP": format_stamp(whole)})
    found = read_back(client, queue, 0, TRACE)
    assert found is not None
    assert found.last == LandedStamp(4, 6, 0x98_7654_3210, 0)


def test_what_is_left_of_a_later_batch_is_known_by_its_stamp(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    append(broker, queue, stamp(0) | row(0), row(1), stamp(0, batch=5) | row(0, "F" * 12))
    append(broker, queue, row(1, "F" * 12), row(2))
    found = read_back(client, queue, 0, TRACE)
    assert found is not None
    assert found.last == LandedStamp(5, 0, 1_000, 2)


def test_the_last_row_of_the_stream_is_found_among_others(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    append(broker, queue, stamp(9, batch=3), {}, stamp(0), {}, stamp(1), stamp(8, sink="other"))
    found = read_back(client, queue, 0, TRACE)
    assert found is not None
    assert found.last == LandedStamp(4, 1, 1_001, 4)
    assert found.first_offset == 2


def test_nothing_below_the_floor_is_looked_at(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    append(broker, queue, stamp(0), stamp(1), {})
    assert read_back(client, queue, 2, TRACE) is None


def test_a_late_repeat_behind_later_rows_is_not_the_last(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    append(broker, queue, *(row(n) for n in (0, 1, 2, 3, 1)))
    found = read_back(client, queue, 0, TRACE)
    assert found is not None
    assert (found.last.sequence, found.last.queue_offset) == (3, 3)


def test_many_batches_of_rows_are_put_together(
    monkeypatch: pytest.MonkeyPatch, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    monkeypatch.setattr("rmq_ordered.client.reader._CHUNK_OFFSETS", 2)
    broker.pull_caps = repeat(1)
    append(broker, queue, stamp(7, batch=3), {}, *(row(n) for n in range(5)), {}, {}, row(2))
    found = read_back(client, queue, 0, TRACE)
    assert found is not None
    assert found.last == LandedStamp(4, 4, 1_004, 6)
    assert found.first_offset == 2


def test_messages_without_stamps_are_known_by_their_unique_keys(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    prefix = "0123456789ABCDEF0123"
    keys = [prefix + f"{number:012X}" for number in (9, 10, 11)]
    append(broker, queue, *({"UNIQ_KEY": key} for key in keys), {"UNIQ_KEY": "F" * 32})
    found = read_back(client, queue, 0, StreamTrace.of_unique_keys(STREAM, prefix))
    assert found is not None
    assert found.last == LandedStamp(4, 11, 0, 2)


@pytest.mark.parametrize("floor", [0, 9])
def test_a_floor_that_the_queue_does_not_reach_fails(
    client: Client, broker: BrokerDouble, queue: MessageQueue, floor: int
) -> None:
    append(broker, queue, *(stamp(n) for n in range(5)))
    broker.queues[queue].minimum = 2
    with pytest.raises(OffsetOutOfRange, match=f"offset {floor} was asked for"):
        read_back(client, queue, floor, TRACE)


@proves("readback-waits")
def test_what_was_appended_but_cannot_be_read_yet_is_waited_for(
    cluster: ClusterDouble, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    broker.behind = 200
    pause = cluster.clock.pause_ms

    def pause_and_dispatch(duration_ms: int) -> None:
        pause(duration_ms)
        broker.behind -= 100
        append(broker, queue, {})

    cluster.clock.pause_ms = pause_and_dispatch  # type: ignore[method-assign]
    assert end_of_queue(client, queue) == 2
    assert cluster.clock.pauses == [50, 50]


def test_what_is_appended_after_the_question_is_not_waited_for(
    cluster: ClusterDouble, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    broker.behind = 100
    pause = cluster.clock.pause_ms

    def pause_while_others_send(duration_ms: int) -> None:
        pause(duration_ms)
        broker.log_bytes += 100

    cluster.clock.pause_ms = pause_while_others_send  # type: ignore[method-assign]
    assert end_of_queue(client, queue) == 0
    assert cluster.clock.pauses == [50], "it is as far behind as before, but further"


def test_a_broker_that_never_lets_it_be_read_is_an_error(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    broker.behind = 7
    with pytest.raises(BrokerBusy, match="1000 bytes were appended, but only 993 dispatched"):
        end_of_queue(client, queue)


@proves("readback-without-permission")
def test_who_may_not_ask_the_broker_waits_instead(
    cluster: ClusterDouble,
    client: Client,
    broker: BrokerDouble,
    queue: MessageQueue,
    caplog: pytest.LogCaptureFixture,
) -> None:
    append(broker, queue, {})
    denied = Refuse(ResponseCode.NO_PERMISSION, "not yours")
    cluster.network.arm(denied, RequestCode.GET_BROKER_RUNTIME_INFO)
    assert end_of_queue(client, queue) == 1
    assert cluster.clock.pauses == [1_000]
    assert "not yours" in caplog.text


def test_a_floor_is_asked_for_once(
    cluster: ClusterDouble, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    append(broker, queue, {}, {})
    assert floor_of(client, queue) == 2
    assert len(cluster.network.requests(RequestCode.GET_MAX_OFFSET)) == 1


def test_an_end_that_cannot_be_read_names_broker_and_queue(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SUCCESS), RequestCode.GET_MAX_OFFSET)
    expected = "broker-a:10911 answered the end of orders@broker-a#0 .*'offset'"
    with pytest.raises(RemoteProtocolError, match=expected):
        floor_of(client, queue)
