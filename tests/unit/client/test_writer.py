"""Columns to queues: routing, bounded memory, replays, and what a replay may not do."""

from typing import Any

import pyarrow as pa
import pytest
from tests.support.promises import proves

from rmq_ordered.client import (
    Client,
    Compression,
    OnDivergence,
    OrderedProducer,
    SendSettings,
)
from rmq_ordered.errors import (
    AccessDenied,
    BatchSuperseded,
    LocalProtocolError,
    ReplayDiverged,
    StreamGap,
)
from rmq_ordered.model import MessageQueue, QueueReceipt, Selector, SendStream
from rmq_ordered.ordering.selector import consistent_index, hash_index
from rmq_ordered.protocol.codes import (
    FEATURE_IDEMPOTENT_SEND,
    FEATURE_STAMPED_REQUEST,
    RequestCode,
    ResponseCode,
)
from rmq_ordered.protocol.compression import COMPRESSION_FLAGS
from rmq_ordered.testing import ClusterDouble, DropReply, HangUp, Refuse

SEND, SEND_BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
STREAM = SendStream("sink", 3, 1)
EMBEDDED = frozenset({FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST})


@pytest.fixture(params=[EMBEDDED, frozenset()], ids=["embedded", "rocketmq"])
def cluster(request: pytest.FixtureRequest) -> ClusterDouble:
    cluster = ClusterDouble(brokers=2, features=request.param)
    for broker in cluster.brokers:
        broker.add_topic("orders", 2)
    return cluster


def producer(client: Client, **settings: Any) -> OrderedProducer:
    return OrderedProducer(
        client, "orders", settings=SendSettings(**({"batch_rows": 4} | settings))
    )


def rows(count: int, *, keys: int = 10, salt: str = "", **columns: Any) -> pa.RecordBatch:
    made: dict[str, Any] = {
        "key": [f"key-{number % keys}" for number in range(count)],
        "value": pa.array([f"{number}{salt}".encode() for number in range(count)], pa.binary()),
    }
    return pa.record_batch(made | columns)


def stored(cluster: ClusterDouble) -> dict[MessageQueue, list[bytes]]:
    return {
        queue: data.bodies for broker in cluster.brokers for queue, data in broker.queues.items()
    }


def all_floors(sender: OrderedProducer) -> dict[MessageQueue, int]:
    return dict.fromkeys(sender.queues, 0)


def write(
    sender: OrderedProducer, batch: pa.RecordBatch, stream: SendStream | None = STREAM
) -> dict[MessageQueue, QueueReceipt]:
    with sender.writer(stream, floors=all_floors(sender) if stream else None) as writer:
        writer.write(batch)
        return writer.finish()


@pytest.mark.parametrize(
    ("selector", "index"), [(Selector.HASH, hash_index), (Selector.CONSISTENT, consistent_index)]
)
def test_keys_go_to_the_queues_of_several_brokers_in_order(
    cluster: ClusterDouble, client: Client, selector: Selector, index: Any
) -> None:
    sender = producer(client, selector=selector)
    receipts = write(sender, rows(50))
    expected: dict[MessageQueue, list[bytes]] = {queue: [] for queue in sender.queues}
    for number in range(50):
        queue = sender.queues[index(f"key-{number % 10}", 4)]
        assert queue == sender.queue_of(f"key-{number % 10}")
        expected[queue].append(str(number).encode())
    assert stored(cluster) == expected
    for queue, receipt in receipts.items():
        count = len(expected[queue])
        assert receipt == QueueReceipt(queue, count, 0, 0, count - 1)


def test_a_column_can_name_the_queue(cluster: ClusterDouble, client: Client) -> None:
    sender = producer(client, selector=Selector.QUEUE)
    write(sender, rows(4, queue=[0, 1, 1, 0], broker=["broker-a", "broker-b"] * 2))
    found = {str(queue): bodies for queue, bodies in stored(cluster).items() if bodies}
    assert found == {
        "orders@broker-a#0": [b"0"],
        "orders@broker-b#1": [b"1"],
        "orders@broker-a#1": [b"2"],
        "orders@broker-b#0": [b"3"],
    }


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "needs the column 'queue'"),
        ({"queue": [0]}, "needs the column 'broker' as well.*broker-a, broker-b"),
        ({"queue": [7], "broker": ["broker-a"]}, "key 'key-0' names queue 7 of broker 'broker-a'"),
    ],
)
def test_a_queue_that_is_not_there_is_refused(
    client: Client, columns: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(LocalProtocolError, match=sentence):
        write(producer(client, selector=Selector.QUEUE), rows(1, **columns))


def test_rows_without_keys_go_round(cluster: ClusterDouble, client: Client) -> None:
    sender = producer(client, selector=Selector.ROUND_ROBIN)
    with sender.writer() as writer:
        for number in range(6):
            writer.write(pa.record_batch({"value": [str(number)]}))
        writer.finish()
    assert list(stored(cluster).values()) == [[b"0", b"4"], [b"1", b"5"], [b"2"], [b"3"]]


def test_going_round_with_keys_would_lose_their_order(client: Client) -> None:
    with pytest.raises(LocalProtocolError, match=r"roundrobin is for rows without keys.*'key-0'"):
        write(producer(client, selector=Selector.ROUND_ROBIN), rows(1))


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"value": ["x"]}),
        pa.record_batch({"value": ["x"], "key": pa.nulls(1, pa.string())}),
    ],
    ids=["no column", "null"],
)
def test_a_row_without_a_key_has_no_queue(client: Client, batch: pa.RecordBatch) -> None:
    with pytest.raises(LocalProtocolError, match="expected a key in every row"):
        write(producer(client), batch)


def test_nothing_written_is_nothing_sent(cluster: ClusterDouble, client: Client) -> None:
    with producer(client).writer(STREAM) as writer:
        writer.write(rows(0))
        assert writer.finish() == {}
    assert cluster.network.requests(SEND_BATCH) == []


def test_a_full_buffer_is_emptied_before_more_is_taken(
    cluster: ClusterDouble, client: Client
) -> None:
    sender = producer(client, buffer_bytes=2_000)
    with sender.writer(STREAM) as writer:
        for _ in range(10):
            writer.write(rows(40))
            waiting = sum(lane.waiting_bytes for lane in writer._lanes.values())
            assert waiting <= 2_000
        assert sum(map(len, stored(cluster).values())) > 300
        writer.finish()
    assert sum(map(len, stored(cluster).values())) == 400


def test_giving_up_sends_no_more(cluster: ClusterDouble, client: Client) -> None:
    with producer(client).writer(STREAM) as writer:
        writer.write(rows(5))
    assert sum(map(len, stored(cluster).values())) == 0


def test_a_replay_adds_nothing_and_says_so(cluster: ClusterDouble, client: Client) -> None:
    sender = producer(client)
    write(sender, rows(50))
    before = stored(cluster)
    receipts = write(sender, rows(50))
    assert stored(cluster) == before
    for queue, receipt in receipts.items():
        count = len(before[queue])
        assert (receipt.count, receipt.duplicates) == (0, count)
        assert receipt.last_offset in (count - 1, None)


def test_a_replay_of_a_part_adds_the_rest(cluster: ClusterDouble, client: Client) -> None:
    sender = producer(client)
    write(sender, rows(20))
    write(producer(client, batch_rows=3), rows(50))
    whole = ClusterDouble(brokers=2)
    for broker in whole.brokers:
        broker.add_topic("orders", 2)
    with whole.client() as other:
        write(producer(other), rows(50))
    assert stored(cluster) == stored(whole)


def test_the_next_batch_of_the_sink_is_new(cluster: ClusterDouble, client: Client) -> None:
    sender = producer(client)
    write(sender, rows(10))
    write(sender, rows(10), SendStream("sink", 4, 1))
    write(sender, rows(10), SendStream("sink", 4, 2))
    assert sum(map(len, stored(cluster).values())) == 30


def test_messages_carry_their_stamps_and_derived_ids(
    cluster: ClusterDouble, client: Client
) -> None:
    write(producer(client), rows(9, keys=1))
    (messages,) = [
        data.messages
        for broker in cluster.brokers
        for data in broker.queues.values()
        if data.messages
    ]
    stamps = {
        n: m.properties["RMQO_STAMP"]
        for n, m in enumerate(messages)
        if "RMQO_STAMP" in m.properties
    }
    is_told = bool(cluster.brokers[0].features)
    # Three requests: the embedded broker marks their last messages, the client the first ones.
    prefix, width, marked = (20, 12, [3, 7, 8]) if is_told else (12, 10, [0, 4, 8])
    assert list(stamps) == marked
    assert all(stamp.startswith(f"sink/3/1/{number}/") for number, stamp in stamps.items())
    ids = [message.properties["UNIQ_KEY"] for message in messages]
    assert [key[prefix : prefix + width] for key in ids] == [f"{n:0{width}X}" for n in range(9)]
    assert len({key[:prefix] for key in ids}) == 1
    assert {len(key) for key in ids} == {32}


@proves("stream-adds-missing-only")
@pytest.mark.parametrize(
    "replay",
    [rows(30, salt="!"), rows(30).take(list(reversed(range(30)))), rows(10), rows(0)],
    ids=["other rows", "another order", "fewer rows", "no rows at all"],
)
def test_a_replay_with_other_rows_fails(client: Client, replay: pa.RecordBatch) -> None:
    sender = producer(client)
    write(sender, rows(30))
    if replay.num_rows == 0:
        assert write(sender, replay) == {}, "a queue that gets no row is not looked at"
        return
    with pytest.raises(ReplayDiverged, match=r"batch 3, partition 1 of sink 'sink'.*=resend"):
        write(sender, replay)


@proves("stream-adds-missing-only")
@pytest.mark.parametrize("cluster", [frozenset()], ids=["rocketmq"], indirect=True)
def test_whatever_a_crash_leaves_of_a_request_is_recognised(
    cluster: ClusterDouble, client: Client
) -> None:
    sender = producer(client, batch_rows=100)
    queue = sender.queue_of("key-0")
    data = next(b for b in cluster.brokers if b.name == queue.broker_name).queues[queue]
    for left in range(10):
        stream = SendStream("sink", left, 1)
        before = data.maximum
        write(sender, rows(9, keys=1), stream)
        del data.messages[before + left :]
        if left:
            with pytest.raises(ReplayDiverged):
                write(sender, rows(9, keys=1, salt="!"), stream)
        receipts = write(sender, rows(9, keys=1), stream)
        assert data.bodies[before:] == [str(number).encode() for number in range(9)]
        assert (receipts[queue].count, receipts[queue].duplicates) == (9 - left, left)
        # What is left of the next batch, too: an attempt of this one comes too late for it.
        later = SendStream("sink", left + 1, 1)
        write(sender, rows(9, keys=1), later)
        del data.messages[before + 10 :]
        with pytest.raises(BatchSuperseded):
            write(sender, rows(9, keys=1), stream)
        del data.messages[before + 9 :]


def test_a_replay_with_other_rows_can_be_sent_again_as_a_whole_once(
    cluster: ClusterDouble, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    sender = producer(client, on_divergence=OnDivergence.RESEND)
    write(sender, rows(30))
    before = stored(cluster)
    for _ in range(2):
        receipts = write(sender, rows(30, salt="!"))
    assert "a replay differs from what landed and is sent again" in caplog.text
    for queue, bodies in stored(cluster).items():
        assert bodies == before[queue] + [body + b"!" for body in before[queue]]
        assert queue not in receipts or receipts[queue].duplicates == len(before[queue])


def test_an_attempt_that_is_over_is_refused(client: Client) -> None:
    sender = producer(client)
    write(sender, rows(5), SendStream("sink", 4, 1))
    with pytest.raises(BatchSuperseded, match="batch 4 of the same sink"):
        write(sender, rows(5))


def test_without_idempotence_nothing_is_stamped_or_read_back(
    cluster: ClusterDouble, client: Client
) -> None:
    sender = producer(client, idempotent=False)
    cluster.network.arm(HangUp(is_served=True), SEND_BATCH)
    write(sender, rows(4, keys=1))
    (bodies,) = [bodies for bodies in stored(cluster).values() if bodies]
    assert bodies == [b"0", b"1", b"2", b"3"] * 2, "an unknown outcome was simply repeated"
    assert cluster.network.requests(RequestCode.GET_MAX_OFFSET) == []


def test_a_broker_that_lost_acknowledged_rows_ends_the_write(client: Client) -> None:
    cluster = ClusterDouble(features=EMBEDDED)
    (queue,) = cluster.brokers[0].add_topic("orders", 1)
    with cluster.client() as lossy:
        sender = producer(lossy)
        cluster.network.arm(
            Refuse(ResponseCode.STREAM_UNKNOWN, "never heard of"), SEND_BATCH, after=1
        )
        with pytest.raises(StreamGap, match=r"4 rows .* were acknowledged, but the broker has 0"):
            write(sender, rows(8, keys=1))
    assert len(cluster.brokers[0].queues[queue].messages) == 4


def test_an_answer_that_comes_late_is_still_an_answer(client: Client) -> None:
    cluster = ClusterDouble()
    cluster.brokers[0].add_topic("orders", 1)

    class AnswerDuringTheWait:
        """Nothing until the deadline; the answer comes while the request is waited out."""

        def strike(self, transport: Any, request: Any, serve: Any) -> None:
            from rmq_ordered.testing.faults import reply_to

            response = serve(request)
            cluster.clock.advance_ms(3_000)
            pause = cluster.clock.pause_ms

            def answer_then_pause(duration_ms: int) -> None:
                cluster.clock.pause_ms = pause  # type: ignore[method-assign]
                answer = late.lanes[0]._late
                transport.answer(reply_to(request, response))
                assert answer is not None
                answer[0].future.result(5)
                pause(duration_ms)

            cluster.clock.pause_ms = answer_then_pause  # type: ignore[method-assign]

    class late:  # noqa: N801
        lanes: list[Any]

    with cluster.client() as slow:
        sender = producer(slow)
        cluster.network.arm(AnswerDuringTheWait(), SEND_BATCH)
        with sender.writer() as writer:
            writer.write(rows(3, keys=1))
            late.lanes = [writer.lane(sender.queues[0])]
            receipts = writer.finish()
    assert [receipt.count for receipt in receipts.values()] == [3]
    assert cluster.network.requests(RequestCode.PULL_MESSAGE) == [], "nothing had to be read back"
    assert len(cluster.brokers[0].queues[sender.queues[0]].messages) == 3


def test_an_unanswered_send_is_waited_out_before_the_queue_is_read(client: Client) -> None:
    cluster = ClusterDouble()
    cluster.brokers[0].add_topic("orders", 1)
    with cluster.client() as slow:
        cluster.network.arm(DropReply(cluster.clock, 3_000), SEND_BATCH)
        receipts = write(producer(slow, wait_out_ms=700), rows(3, keys=1), None)
    assert cluster.clock.pauses == [700]
    (receipt,) = receipts.values()
    assert (receipt.count, receipt.duplicates, receipt.first_offset, receipt.last_offset) == (
        3,
        0,
        0,
        2,
    )


@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.LZ4, Compression.ZSTD])
def test_batches_of_large_bodies_are_compressed_as_a_whole(
    cluster: ClusterDouble, client: Client, compression: Compression
) -> None:
    values = [b"x" * 5_000, b"small", b"y" * 6_000]
    batch = pa.record_batch({"key": ["k"] * 3, "value": pa.array(values, pa.binary())})
    write(producer(client, compression=compression), batch)
    write(producer(client, compression=compression), rows(3, keys=1), SendStream("other", 1, 1))
    requests = cluster.network.requests(SEND_BATCH)
    assert [request.ext_int("f") for request in requests] == [COMPRESSION_FLAGS[compression], 0]
    assert len(requests[0].body) < 2_000
    assert values in stored(cluster).values() or any(
        bodies[:3] == values for bodies in stored(cluster).values()
    )


def test_a_body_that_cannot_be_made_smaller_goes_as_it_is(
    cluster: ClusterDouble, client: Client
) -> None:
    import hashlib

    noise = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(200))
    batch = pa.record_batch({"key": ["k"], "value": pa.array([noise], pa.binary())})
    write(producer(client, compression=Compression.ZLIB), batch)
    (request,) = cluster.network.requests(SEND) + cluster.network.requests(SEND_BATCH)
    assert request.ext_int("f") == 0
    assert noise in request.body


@pytest.mark.parametrize(
    "stream",
    [SendStream("a/b", 0, 0), SendStream("s" * 59, 0, 0), SendStream("s", -1, 0)],
    ids=["characters", "length", "number"],
)
def test_a_stream_that_cannot_be_stamped_is_refused_at_once(
    client: Client, stream: SendStream
) -> None:
    with pytest.raises(LocalProtocolError):
        producer(client).writer(stream)


def test_after_an_error_a_writer_takes_and_sends_nothing_more(
    cluster: ClusterDouble, client: Client
) -> None:
    writer = producer(client).writer()
    writer.write(rows(40))
    cluster.network.arm(Refuse(ResponseCode.NO_PERMISSION), SEND_BATCH)
    with pytest.raises(AccessDenied):
        writer.flush()
    sent = len(cluster.network.seen)
    for call in (writer.flush, writer.finish, lambda: writer.write(rows(1))):
        with pytest.raises(LocalProtocolError, match="given up its rows: open a new one"):
            call()
    assert len(cluster.network.seen) == sent
