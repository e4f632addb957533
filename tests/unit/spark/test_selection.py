"""Which queues are read: topics by name, by pattern, queues one by one; missing and closed ones."""

import pytest
from tests.support.calls import ALL, Engine, NewReader, again, ends, positions
from tests.support.promises import proves

from rmq_ordered.errors import BrokerError, OptionError, TopicNotFound
from rmq_ordered.options import Selection
from rmq_ordered.spark.selection import Subscription
from rmq_ordered.testing import ClusterDouble


def test_several_topics_are_read_together(cluster: ClusterDouble, new_reader: NewReader) -> None:
    cluster.brokers[0].add_topic("audit", 1)
    initial = new_reader(subscribe="orders,audit").initialOffset()
    assert sorted(initial["topics"]) == ["audit", "orders"]


def test_a_pattern_reads_what_matches_and_nothing_of_the_brokers_own(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    broker = cluster.brokers[0]
    for name in ("order-items", "reorders", "%RETRY%billing", "%DLQ%billing", "rmq_sys_TRACE",
                 "broker-a", "TBW102", "DefaultCluster_REPLY_TOPIC"):  # fmt: skip
        broker.add_topic(name, 1)
    everything = new_reader(subscribe=None, subscribePattern=".*").initialOffset()
    assert sorted(everything["topics"]) == ["order-items", "orders", "reorders"]
    some = new_reader(subscribe=None, subscribePattern="order.*", group="g").initialOffset()
    assert sorted(some["topics"]) == ["order-items", "orders"]


# When the messages of orders were stored.
THEN_MS = 1_700_000_000_000
ORDERS_FROM_THE_END = '{"orders":{"broker-a":{"0":-1,"1":-1}}}'


@proves("new-topic-of-pattern")
@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsetsFallback": "latest"},
        {"startingOffsets": ORDERS_FROM_THE_END, "startingOffsetsFallback": "latest"},
        {"startingTimestamp": str(THEN_MS)},
        {"startingTimestamp": str(THEN_MS), "startingTimestampNoMatch": "error"},
        {"startingOffsetsFallback": "latest", "leaseMode": "shared"},
    ],
)
def test_a_topic_that_begins_to_match_is_read_from_its_beginning(
    cluster: ClusterDouble, new_reader: NewReader, options: dict[str, str]
) -> None:
    given = {"subscribePattern": "ord.*"} | options
    engine = Engine(lambda **changes: new_reader(subscribe=None, **changes), given)
    engine.run()
    # One of its queues is still empty.
    (joined, _) = cluster.brokers[0].add_topic("ord2", 2)
    # Before the query's time, if it has one: by a broker whose clock is behind.
    cluster.clock.jump_wall_ms(-60_000)
    cluster.brokers[0].fill(joined, 5)
    cluster.clock.jump_wall_ms(60_000)
    engine.run()
    assert offsets_of(engine, "ord2") == list(range(5))


def test_a_topic_that_begins_to_match_while_a_member_runs_is_read_from_its_beginning(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    shared = {"leaseMode": "shared", "startingOffsetsFallback": "latest"}
    reader = new_reader(subscribe=None, subscribePattern="ord.*", **shared)
    start = again(reader.initialOffset())
    assert ends(reader.latestOffset(start, ALL), "orders") == {"0": 10, "1": 10}
    (joined,) = cluster.brokers[0].add_topic("ord2", 1)
    cluster.brokers[0].fill(joined, 5)
    cluster.clock.advance_ms(11_000)
    end = reader.latestOffset(start, ALL)
    assert positions(end, "ord2") == {"0": [0, 5]}


def test_a_topic_that_begins_to_match_goes_on_where_the_group_stands_in_it(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    given = {"subscribePattern": "ord.*", "startingOffsetsFallback": "latest"}
    engine = Engine(lambda **changes: new_reader(subscribe=None, **changes), given)
    engine.run()
    (joined,) = cluster.brokers[0].add_topic("ord2", 1)
    cluster.brokers[0].fill(joined, 5)
    cluster.brokers[0].committed["billing", joined] = 3
    engine.run()
    assert offsets_of(engine, "ord2") == [3, 4]


def offsets_of(engine: Engine, topic: str) -> list[int]:
    return [row["offset"] for row in engine.rows if row["topic"] == topic]


def test_a_pattern_that_matches_nothing_is_an_error(new_reader: NewReader) -> None:
    with pytest.raises(TopicNotFound, match="matching nothing"):
        new_reader(subscribe=None, subscribePattern="nothing.*").initialOffset()


def test_only_assigned_queues_are_read_and_owned(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    assigned = {"subscribe": None, "assign": '{"orders":{"broker-a":[1]}}'}
    one = new_reader(**assigned)
    assert ends(one.initialOffset(), "orders") == {"1": 0}
    other = new_reader(subscribe=None, assign='{"orders":{"broker-a":[0]}}')
    assert ends(other.initialOffset(), "orders") == {"0": 0}


def test_an_assigned_queue_that_is_not_there_is_named(new_reader: NewReader) -> None:
    reader = new_reader(subscribe=None, assign='{"orders":{"broker-a":[0,7]}}')
    with pytest.raises(OptionError, match=r"one of orders@broker-a#0.*found 'orders@broker-a#7'"):
        reader.initialOffset()


def test_a_missing_topic_is_an_error_at_once(new_reader: NewReader) -> None:
    with pytest.raises(TopicNotFound, match="topic create absent"):
        new_reader(subscribe="absent").initialOffset()


def test_a_missing_topic_can_be_waited_for(cluster: ClusterDouble) -> None:
    with cluster.client() as client:
        subscription = Subscription(client, Selection(("absent",)), 60_000)
        pause = cluster.clock.pause_ms

        def create_during_the_third_pause(duration_ms: int) -> None:
            pause(duration_ms)
            if len(cluster.clock.pauses) == 3:
                cluster.brokers[0].add_topic("absent", 1)

        cluster.clock.pause_ms = create_during_the_third_pause  # type: ignore[method-assign]
        assert [queue.topic for queue in subscription.spans()] == ["absent"]
        with pytest.raises(TopicNotFound):
            Subscription(client, Selection(("never",)), 60_000).spans()
    assert sum(cluster.clock.pauses) >= 60_000


def test_a_topic_that_may_not_be_read_is_refused_with_the_reason(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    cluster.brokers[0].permissions["orders"] = 2
    with pytest.raises(BrokerError, match=r"no readable queue .* check the topic's permission"):
        new_reader().initialOffset()


@proves("planning-one-request")
def test_planning_costs_one_request_per_broker_however_many_queues(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    broker = cluster.brokers[0]
    broker.add_topic("wide", 1_024)
    reader = new_reader(subscribe="wide")
    start = again(reader.initialOffset())
    asked: list[int] = []
    serve = broker.serve
    cluster.network.listen(
        broker.address, lambda request: asked.append(request.code) or serve(request)
    )
    assert reader.latestOffset(start, ALL) == start
    # Only the first time is the beginning of every queue committed.
    assert len(asked) > 1_024
    asked.clear()
    assert reader.latestOffset(start, ALL) == start
    assert len(asked) == 1
