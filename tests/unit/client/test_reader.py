"""Reading a range: whole batches in order, no hole unseen, whatever comes in between."""

from collections.abc import Callable
from itertools import repeat

import pytest
from tests.support.promises import proves
from tests.unit.client.reading import read

from rmq_ordered.client import Client, QueueReader, ReadPlan, pulls, reader
from rmq_ordered.columnar import DecodeOptions, bodies
from rmq_ordered.errors import (
    ClientClosed,
    OffsetOutOfRange,
    QueueGap,
    QueueLeaseLost,
    RemoteProtocolError,
)
from rmq_ordered.model import MessageQueue, OutgoingMessage, QueueRange
from rmq_ordered.protocol.codes import (
    FEATURE_LEASE_EPOCH,
    RequestCode,
)
from rmq_ordered.protocol.compression import ZLIB_FLAGS, compress_body
from rmq_ordered.testing import (
    BrokerDouble,
    ClusterDouble,
    CutMidFrame,
    ScriptedTransport,
    SpoilBody,
)

PULL = RequestCode.PULL_MESSAGE


@pytest.fixture
def cluster() -> ClusterDouble:
    return ClusterDouble(features=frozenset({FEATURE_LEASE_EPOCH}))


@pytest.fixture
def pull_by_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are handed on as soon as a pull is answered."""
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(reader, "_MIN_ROWS", 1)


@pytest.fixture
def queue(broker: BrokerDouble) -> MessageQueue:
    (queue,) = broker.add_topic("orders", 1)
    broker.fill(queue, 500)
    return queue


def test_large_answers_leave_room_for_few_pulls_in_flight(
    cluster: ClusterDouble, client: Client, broker: BrokerDouble
) -> None:
    (queue,) = broker.add_topic("large", 1)
    for _ in range(200):
        broker.queues[queue].append(OutgoingMessage(b"x" * 3_000_000, {}), 0)
    broker.pull_caps = repeat(1)
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 200)))
    assert next(rows).num_rows < 20, "a batch is bounded by its bytes"
    asked = [pull.ext_int("queueOffset") for pull in cluster.network.requests(PULL)]
    rows.close()  # type: ignore[attr-defined]
    assert max(asked[8:]) < 20, "after the first answer few are in flight"


def test_tags_are_compared_again_because_the_broker_compares_hashes(
    client: Client, broker: BrokerDouble
) -> None:
    (queue,) = broker.add_topic("tagged", 1)
    # "Aa" and "BB" have one hash in Java.
    for number, tag in enumerate(["Aa", "BB", "Aa", "cc"]):
        broker.queues[queue].append(OutgoingMessage(b"%d" % number, {"TAGS": tag}), 0)
    assert read(client, queue, 0, 4, expression="Aa") == [0, 2]
    assert read(client, queue, 0, 4, expression=" BB || cc || ") == [1, 3]


def test_small_batches_are_joined_to_a_thousand_rows(
    monkeypatch: pytest.MonkeyPatch, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 1)
    broker.fill(queue, 2_500)
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 3_000)))
    assert [batch.num_rows for batch in rows] == [1_024, 1_024, 952]


def test_few_but_large_rows_are_not_kept_back(
    monkeypatch: pytest.MonkeyPatch, client: Client, queue: MessageQueue
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(reader, "_MAX_JOINED_BYTES", 1)
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 96)))
    assert [batch.num_rows for batch in rows] == [32, 32, 32]


@pytest.mark.usefixtures("pull_by_pull")
@pytest.mark.parametrize("away", [(), ("broker-a:10911",), ("broker-a:10911", "names-1:9876")])
def test_a_read_whose_client_is_closed_meanwhile_ends_at_once(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, away: tuple[str, ...]
) -> None:
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500)))
    next(rows)
    for address in away:
        cluster.network.take_down(address)
    client.close()
    before_ms = cluster.clock.monotonic_ms()
    with pytest.raises(ClientClosed, match=r"this client is closed"):
        for _ in rows:
            pass
    # A pause or two at most: the first error is that of a connection which ended.
    assert cluster.clock.monotonic_ms() - before_ms < 1_000


@pytest.mark.usefixtures("pull_by_pull")
def test_a_long_read_asks_every_ten_seconds_whether_it_may_go_on(
    cluster: ClusterDouble,
    client: Client,
    queue: MessageQueue,
) -> None:
    asked: list[int] = []

    def recheck() -> None:
        asked.append(cluster.clock.monotonic_ms())
        if len(asked) == 2:
            raise QueueLeaseLost("billing", queue, "me#1", "another consumer was there")

    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500)), recheck=recheck)
    for _ in range(6):
        assert next(rows).num_rows == 32
        cluster.clock.advance_ms(4_000)
    assert len(asked) == 1
    with pytest.raises(QueueLeaseLost, match="another consumer was there"):
        next(rows)
    assert asked[1] - asked[0] >= 10_000


@proves("hole-in-range-fails")
@pytest.mark.parametrize(
    ("missing", "expected", "found"),
    [({100, 101}, 100, 102), (set(range(40)), 0, 40), ({499}, 499, 500)],
    ids=["in the middle", "at the beginning", "at the end"],
)
def test_without_a_filter_a_hole_is_lost_data(
    client: Client,
    broker: BrokerDouble,
    queue: MessageQueue,
    missing: set[int],
    expected: int,
    found: int,
) -> None:
    broker.is_matching = lambda offset: offset not in missing
    with pytest.raises(QueueGap, match=f"expected queue offset {expected}, found {found}"):
        read(client, queue, 0, 500)


def test_a_hole_at_the_end_of_a_chunk_is_no_longer_than_it_is(
    monkeypatch: pytest.MonkeyPatch, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_OFFSETS", 64)
    broker.is_matching = lambda offset: offset != 63
    with pytest.raises(QueueGap, match="expected queue offset 63, found 64"):
        read(client, queue, 0, 500)


def test_rows_that_the_client_s_own_filter_drops_make_no_batch(
    client: Client, queue: MessageQueue
) -> None:
    nothing = QueueReader(client, DecodeOptions(tag_filter=frozenset({"no such tag"})))
    assert list(nothing.read(ReadPlan(QueueRange(queue, 0, 500)))) == []


def test_a_long_range_comes_in_several_batches(
    monkeypatch: pytest.MonkeyPatch, client: Client, queue: MessageQueue
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_OFFSETS", 100)
    monkeypatch.setattr(reader, "_MIN_ROWS", 1)
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500)))
    sizes = [batch.num_rows for batch in rows]
    assert sum(sizes) == 500
    assert len(sizes) == 4


def test_messages_that_expire_while_they_are_read_end_the_read(
    monkeypatch: pytest.MonkeyPatch, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_OFFSETS", 1)
    monkeypatch.setattr(reader, "_MIN_ROWS", 1)
    monkeypatch.setattr(pulls, "_STOCK_DEPTH", 1)
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500)))
    assert next(rows).num_rows == 32
    broker.queues[queue].minimum = 200
    with pytest.raises(OffsetOutOfRange, match=r"offset 32 was asked for.*\[200, 500\)"):
        next(rows)


@proves("slow-reader-keeps-its-place")
@pytest.mark.usefixtures("pull_by_pull")
def test_a_reader_whose_rows_nobody_takes_for_long_asks_for_nothing_twice(
    cluster: ClusterDouble,
    client: Client,
    queue: MessageQueue,
) -> None:
    offsets: list[int] = []
    for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500))):
        offsets += batch.column("offset").to_pylist()
        cluster.clock.advance_ms(60_000)
    assert offsets == list(range(500))
    asked = [pull.ext_int("queueOffset") for pull in cluster.network.requests(PULL)]
    assert len(asked) == len(set(asked))


IDLE_MS = 130_000  # Both brokers close connections on which nothing moves for 120 s.


def hang_up(stream: ScriptedTransport) -> None:
    stream.hang_up()


def reset(stream: ScriptedTransport) -> None:
    stream.fail("reset")


@proves("slow-reader-keeps-its-place")
@pytest.mark.usefixtures("pull_by_pull")
@pytest.mark.parametrize("end", [hang_up, reset])
def test_connections_that_the_broker_closes_while_nobody_takes_rows_cost_no_row(
    cluster: ClusterDouble,
    client: Client,
    queue: MessageQueue,
    end: Callable[[ScriptedTransport], None],
) -> None:
    offsets: list[int] = []
    for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500))):
        offsets += batch.column("offset").to_pylist()
        cluster.clock.advance_ms(IDLE_MS)
        end(cluster.network.transports[-1])
    assert offsets == list(range(500))


@proves("slow-reader-keeps-its-place")
@pytest.mark.usefixtures("pull_by_pull")
@pytest.mark.parametrize("answered", [2, 3, 5])
def test_what_an_idle_connection_was_closed_with_is_asked_for_again_and_nothing_before_it(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, answered: int
) -> None:
    # The broker has so many answers through, the next one in part, then it closes.
    cluster.network.arm(CutMidFrame(), PULL, after=answered)
    offsets: list[int] = []
    for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500))):
        offsets += batch.column("offset").to_pylist()
        cluster.clock.advance_ms(IDLE_MS)
    assert offsets == list(range(500))
    first, second = [stream for stream in cluster.network.transports if asked_on(stream)]
    assert asked_on(second)[0] == answered * 32
    assert sorted({*asked_on(first), *asked_on(second)}) == list(range(0, 500, 32))


def asked_on(stream: ScriptedTransport) -> list[int]:
    """Where the pulls of a connection began."""
    return [sent.ext_int("queueOffset") for sent in stream.sent if sent.code == PULL]


def test_a_connection_lost_in_the_middle_continues_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch,
    cluster: ClusterDouble,
    client: Client,
    queue: MessageQueue,
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_OFFSETS", 1)
    monkeypatch.setattr(reader, "_MIN_ROWS", 1)
    monkeypatch.setattr(pulls, "_STOCK_DEPTH", 2)
    offsets: list[int] = []
    for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500))):
        offsets += batch.column("offset").to_pylist()
        if offsets[-1] in (31, 223):
            cluster.network.transports[-1].fail("reset")
    assert offsets == list(range(500))
    asked = [pull.ext_int("queueOffset") for pull in cluster.network.requests(PULL)]
    assert asked.count(0) == 1, "what was delivered is not fetched again"


def test_a_read_that_is_abandoned_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    monkeypatch.setattr(reader, "_CHUNK_OFFSETS", 1)
    monkeypatch.setattr(reader, "_MIN_ROWS", 1)
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 500)))
    assert next(rows).num_rows == 32
    assert not cluster.network.transports[-1].is_closed
    rows.close()  # type: ignore[attr-defined]
    assert cluster.network.transports[-1].is_closed


def test_a_record_that_cannot_be_read_names_broker_queue_and_offset(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(SpoilBody(-1), PULL)
    expected = r"broker-a:10911 answered pulls of orders@broker-a#0: .* queue offset 4 "
    with pytest.raises(RemoteProtocolError, match=expected):
        read(client, queue, 3, 5)


def test_bodies_that_expand_to_too_much_together_come_in_several_parts(
    monkeypatch: pytest.MonkeyPatch, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    sent = [bytes([n]) * 10_000 for n in range(10)]
    for body in sent:
        stored = compress_body(body, ZLIB_FLAGS)
        broker.queues[queue].append(OutgoingMessage(stored), 0, ZLIB_FLAGS)
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", 30_000)
    monkeypatch.setattr(reader, "_MIN_ROWS", 1)
    batches = list(QueueReader(client).read(ReadPlan(QueueRange(queue, 500, 510))))
    assert [row for batch in batches for row in batch.column("value").to_pylist()] == sent
    assert [batch.num_rows for batch in batches] == [2, 3, 2, 3]


def test_a_hole_between_parts_is_lost_data(
    monkeypatch: pytest.MonkeyPatch, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    for _ in range(10):
        stored = compress_body(bytes(10_000), ZLIB_FLAGS)
        broker.queues[queue].append(OutgoingMessage(stored), 0, ZLIB_FLAGS)
    broker.is_matching = lambda offset: offset != 505
    monkeypatch.setattr(bodies, "_MAX_COLUMN_BYTES", 45_000)
    with pytest.raises(QueueGap, match="expected queue offset 505, found 506"):
        list(QueueReader(client).read(ReadPlan(QueueRange(queue, 500, 510))))
