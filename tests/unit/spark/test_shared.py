"""A group that is shared: queries and other members side by side, queues changing hands."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.calls import ALL, NewReader, again, positions, ranges, read_all
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.errors import OptionError, QueueLeaseLost
from rmq_ordered.model import MessageQueue
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.stream import OrderedStreamReader
from rmq_ordered.testing import ClusterDouble

SHARED = {"leaseMode": "shared", "leaseTimeout": "5s"}


class Query:
    """One query: batch after batch, as Spark would run it."""

    def __init__(self, new_reader: NewReader, start: dict[str, Any] | None = None) -> None:
        self.reader: OrderedStreamReader = new_reader(**SHARED)
        self.offset = start
        self.rows: list[tuple[int, int]] = []

    def batch(self) -> list[tuple[int, int, int]]:
        """Plan and read one batch; the ranges."""
        if self.offset is None:
            self.offset = again(self.reader.initialOffset())
        end = again(self.reader.latestOffset(self.offset, ALL))
        planned = self.reader.partitions(self.offset, end)
        self.rows += [(row["queue"], row["offset"]) for row in read_all(self.reader, planned)]
        self.offset = end
        return ranges(planned)


@pytest.fixture
def wide(cluster: ClusterDouble) -> tuple[MessageQueue, ...]:
    """Four queues of ten messages."""
    names = cluster.brokers[0].add_topic("orders", 4)
    for queue in names[2:]:
        cluster.brokers[0].fill(queue, 10)
    return names


def pass_time(cluster: ClusterDouble) -> None:
    """Long enough for the members to be asked for again, short enough for leases."""
    cluster.clock.advance_ms(1_500)


def sharing(cluster: ClusterDouble, new_reader: NewReader) -> tuple[Query, Query]:
    """Two queries: the first has just given half of the queues back, for the second to take."""
    one = Query(new_reader)
    one.batch()
    two = Query(new_reader)
    two.batch()
    pass_time(cluster)
    one.batch()
    return one, two


def test_a_query_alone_owns_every_queue(
    wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    assert Query(new_reader).batch() == [(n, 0, 10) for n in range(4)]


@proves("shared-mode")
def test_a_second_query_takes_its_share_between_two_batches_and_nothing_is_read_twice(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    one = Query(new_reader)
    one.batch()
    two = Query(new_reader)
    # The first one has not noticed yet: the second waits its five seconds and owns nothing.
    assert two.batch() == []
    for queue in wide:
        cluster.brokers[0].fill(queue, 5)
    pass_time(cluster)
    first = one.batch()
    second = two.batch()
    assert sorted([*first, *second]) == [(n, 10, 15) for n in range(4)]
    assert len(first) == len(second) == 2
    assert sorted(one.rows + two.rows) == [(n, o) for n in range(4) for o in range(15)]


def test_the_lag_of_a_query_is_about_the_queues_that_it_owns(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    one, _ = sharing(cluster, new_reader)
    for queue in wide:
        cluster.brokers[0].fill(queue, 5)
    mine = {str(queue) for queue, _, _ in one.batch()}
    latest = one.reader.reportLatestOffset()
    assert positions(latest or {}, "orders") == dict.fromkeys(sorted(mine), 15)
    # What was given back stays in the offsets, where it stood.
    assert len(positions(one.offset or {}, "orders")) == 4


def test_what_a_query_leaves_behind_is_taken_over_where_it_stopped(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    one, two = sharing(cluster, new_reader)
    two.batch()
    for queue in wide:
        cluster.brokers[0].fill(queue, 5)
    one.batch()
    one.batch()  # the next plan commits what was finished
    one.reader.stop()
    pass_time(cluster)
    two.batch()
    two.batch()
    assert sorted(one.rows + two.rows) == [(n, o) for n in range(4) for o in range(15)]
    per_queue: dict[int, list[int]] = defaultdict(list)
    for queue, offset in two.rows:
        per_queue[queue].append(offset)
    assert all(offsets == sorted(offsets) for offsets in per_queue.values())


@proves("shared-mode")
def test_a_gained_queue_is_recorded_with_both_ends_and_read_again_the_same(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    for queue in wide:
        cluster.brokers[0].committed["billing", queue] = 4
    query = Query(new_reader, {"topics": {"orders": {"broker-a": {"0": 2}}}, "version": 1})
    before = query.offset
    assert query.batch() == [(n, 4, 10) for n in range(4)]
    assert positions(query.offset or {}, "orders") == {str(n): [4, 10] for n in range(4)}
    query.reader.stop()
    # Somebody else owns one of the queues now and has moved on: it is read without a lease.
    with cluster.client() as client:
        client.broker.heartbeat("java", "billing", ["orders"])
        client.broker.lock("billing", "java", [wide[0]])
        cluster.brokers[0].committed["billing", wide[0]] = 9
        again_reader = new_reader(**SHARED)
        planned = again_reader.partitions(before, query.offset)
        assert ranges(planned) == [(n, 4, 10) for n in range(4)]
        assert [one.plan.lease is None for one in planned] == [True, False, False, False]
        assert len(read_all(again_reader, planned)) == 24
        again_reader.latestOffset(query.offset, ALL)
    assert cluster.brokers[0].committed["billing", wide[0]] == 9


def test_an_idle_poll_gives_the_start_back_to_the_letter(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    query = Query(new_reader)
    query.batch()
    for _ in range(3):
        pass_time(cluster)
        assert query.reader.latestOffset(query.offset, ALL) == query.offset


def test_a_member_that_stops_leaves_the_group_and_its_locks(
    client: Client, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    query = Query(new_reader)
    query.batch()
    assert len(client.broker.group_members("billing", ["orders"])) == 1
    query.reader.stop()
    assert client.broker.group_members("billing", ["orders"]) == ()
    assert all(answer.granted for answer in client.broker.lock("billing", "next", wide))


def test_a_topic_that_was_deleted_does_not_cost_the_membership(
    cluster: ClusterDouble, client: Client, new_reader: NewReader
) -> None:
    cluster.brokers[0].add_topic("audit", 1)
    reader = new_reader(**SHARED, subscribe="orders,audit")
    reader.initialOffset()
    (member,) = cluster.brokers[0].members["billing"]
    client.broker.delete_topic("audit")
    cluster.clock.advance_ms(31_000)
    cluster.brokers[0].members.clear()
    reader._open()._membership.heartbeat()
    assert cluster.brokers[0].members["billing"] == {member}


def test_a_member_that_lost_a_queue_fails(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    query = Query(new_reader)
    query.batch()
    cluster.clock.advance_ms(31_000)
    with pytest.raises(QueueLeaseLost):
        query.reader.latestOffset(query.offset, ALL)


@pytest.mark.parametrize(
    "options",
    [{"startingOffsets": "latest"}, {"startingTimestamp": "5"}, {"instanceId": "a"},
     {"subscribe": None, "assign": '{"orders":{"broker-a":[0]}}'}],
)  # fmt: skip
def test_what_makes_no_sense_for_a_member_is_refused(
    new_reader: NewReader, options: dict[str, str | None]
) -> None:
    with pytest.raises(OptionError, match="leaseMode=shared"):
        new_reader(**SHARED, **options)


def test_a_queue_that_others_moved_on_after_a_repeated_batch_goes_on_where_the_group_stands(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    query = Query(new_reader)
    before = again(query.reader.initialOffset())
    query.batch()
    query.reader.stop()
    for queue in wide:
        cluster.brokers[0].fill(queue, 5)
        cluster.brokers[0].committed["billing", queue] = 12
    recovered = Query(new_reader, query.offset)
    assert ranges(recovered.reader.partitions(before, query.offset)) == [
        (n, 0, 10) for n in range(4)
    ]
    assert recovered.batch() == [(n, 12, 15) for n in range(4)]


def test_a_first_batch_is_repeated_whole_although_the_share_is_another_one(
    cluster: ClusterDouble, wide: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    reader = new_reader(**SHARED)
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ALL))
    assert len(reader.partitions(start, end)) == 4
    reader.stop()
    other = Query(new_reader)
    other.reader.initialOffset()  # a member that owns everything when the query comes back
    recovered = new_reader(**SHARED)
    begins = again(recovered.initialOffset())
    assert begins["topics"] == {}
    assert ranges(recovered.partitions(begins, end)) == [(n, 0, 10) for n in range(4)]


@pytest.mark.generated
@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("fill"), st.integers(0, 3), st.integers(1, 5)),
            st.tuples(st.just("batch"), st.integers(0, 2), st.just(0)),
            st.tuples(st.just("stop"), st.integers(0, 2), st.just(0)),
        ),
        max_size=25,
    )
)
def test_however_members_come_and_go_everything_is_read_and_each_reads_in_order(
    monkeypatch: pytest.MonkeyPatch, story: list[tuple[str, int, int]]
) -> None:
    cluster = ClusterDouble()
    queues = cluster.brokers[0].add_topic("orders", 4)
    for module in ("ownership", "executor"):
        monkeypatch.setattr(
            f"rmq_ordered.spark.{module}.open_client", lambda options: cluster.client()
        )

    def new_reader(**options: str) -> OrderedStreamReader:
        given_options = {"nameServer": "n:1", "subscribe": "orders", "group": "billing"} | options
        return OrderedStreamReader(SourceOptions.parse(given_options, streaming=True))

    running: dict[int, Query] = {}
    checkpoints: dict[int, dict[str, Any] | None] = {}
    runs: list[Query] = []
    for what, number, count in [*story, *(("batch", n % 2, 0) for n in range(8))]:
        pass_time(cluster)
        for query in running.values():
            # As the keeper's own thread would.
            query.reader._open()._keeper.renew()
        if what == "fill":
            cluster.brokers[0].fill(queues[number], count)
        elif what == "stop" and number in running:
            checkpoints[number] = running[number].offset
            running.pop(number).reader.stop()
        elif what == "batch":
            if number not in running:
                running[number] = Query(new_reader, checkpoints.get(number))
                runs.append(running[number])
            running[number].batch()
    if 2 in running:
        running.pop(2).reader.stop()
    for _ in range(2):
        for query in running.values():
            pass_time(cluster)
            query.batch()
    for query in running.values():
        query.reader.stop()
    everything = {
        (q.queue_id, o) for q in queues for o in range(cluster.brokers[0].queues[q].maximum)
    }
    assert {row for query in runs for row in query.rows} == everything
    for query in runs:
        for queue in queues:
            offsets = [offset for queue_id, offset in query.rows if queue_id == queue.queue_id]
            assert offsets == sorted(set(offsets))
