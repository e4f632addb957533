"""Runs that end anywhere and begin again: the same batches, the same rows, none lost or twice."""

import itertools
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from tests.support.calls import ALL, Engine, NewReader, again, ends, positions, ranges
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.errors import (
    OptionError,
    QueueLeaseLost,
    QueueLeaseUnavailable,
    RequestTimedOut,
)
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.testing import ClusterDouble, DropReply

PHASES = ["planned", "logged", "read"]


def engine_of(
    cluster: ClusterDouble,
    new_reader: NewReader,
    options: dict[str, str] | None = None,
    limit: ReadLimit = ALL,
) -> Engine:
    """An engine that reads nothing while the group stands ahead of its finished batches."""
    return Engine(new_reader, options or {}, limit, committed=cluster.brokers[0].committed)


def assert_exactly_once(engine: Engine, cluster: ClusterDouble) -> None:
    """Every offset of every queue once and in order, and each replayed batch the same."""
    found: dict[int, list[int]] = defaultdict(list)
    for row in engine.rows:
        found[row["queue"]].append(row["offset"])
    stored = {queue.queue_id: one.maximum for queue, one in cluster.brokers[0].queues.items()}
    assert found == {queue_id: list(range(end)) for queue_id, end in stored.items() if end}
    for attempts in engine.attempts.values():
        assert all(attempt == attempts[0] for attempt in attempts)


@pytest.mark.parametrize("start", ["group", "earliest"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_first_batch_that_is_killed_in_any_phase_is_repeated(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    phase: str,
    start: str,
) -> None:
    engine = engine_of(cluster, new_reader, {"startingOffsets": start}, ReadMaxRows(5))
    engine.run(die_at=phase)
    cluster.brokers[0].fill(queues[1], 7)
    engine.run()
    assert_exactly_once(engine, cluster)


@proves("first-batch-repeated")
@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": "latest", "leaseMode": "none"},
        {"startingOffsetsFallback": "latest", "leaseMode": "shared"},
        {"startingOffsets": "earliest", "startingOffsetsFallback": "latest"},
        {"startingOffsets": '{"orders":{"broker-a":{"0":5,"1":-1}}}'},
        {"startingOffsets": '{"orders":{"broker-a":{"0":5}}}', "startingOffsetsFallback": "latest"},
        {"startingTimestamp": "1"},
    ],
)
def test_a_first_batch_is_repeated_from_where_it_began_wherever_its_group_stands(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    options: dict[str, str],
) -> None:
    broker = cluster.brokers[0]
    broker.committed["billing", queues[0]] = 8
    reader = new_reader(**options)
    start = again(reader.initialOffset())
    for queue in queues:
        broker.fill(queue, 5)
    end = again(reader.latestOffset(start, ALL))
    planned = ranges(reader.partitions(start, end))
    assert planned
    reader.stop()
    for queue in queues:
        broker.fill(queue, 5)
    recovered = new_reader(**options)
    begins = again(recovered.initialOffset())
    assert ranges(recovered.partitions(begins, end)) == planned


@pytest.mark.parametrize("phase", PHASES)
def test_a_later_batch_that_is_killed_in_any_phase_is_repeated(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader, phase: str
) -> None:
    engine = engine_of(cluster, new_reader)
    engine.run()
    cluster.brokers[0].fill(queues[0], 7)
    engine.run(die_at=phase)
    engine.run(die_at=phase)
    cluster.brokers[0].fill(queues[1], 7)
    engine.run()
    assert_exactly_once(engine, cluster)
    assert cluster.brokers[0].committed["billing", queues[0]] == 17


@proves("added-queues-from-beginning")
@pytest.mark.parametrize("phase", PHASES)
def test_a_topic_that_grows_while_the_query_is_dead_loses_nothing(
    cluster: ClusterDouble, new_reader: NewReader, phase: str
) -> None:
    engine = engine_of(cluster, new_reader, limit=ReadMaxRows(8))
    engine.run(die_at=phase)
    for queue in cluster.brokers[0].add_topic("orders", 4)[2:]:
        cluster.brokers[0].fill(queue, 6)
    cluster.clock.advance_ms(60_000)
    engine.run()
    assert_exactly_once(engine, cluster)


def test_a_topic_that_grows_while_the_query_runs_is_read_from_the_new_queues_beginning(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    reader = new_reader(startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    (_, _, joined) = cluster.brokers[0].add_topic("orders", 3)
    cluster.brokers[0].fill(joined, 6)
    # Routes are believed for half a minute, leases too: renew as the keeper's thread would.
    for _ in range(2):
        cluster.clock.advance_ms(16_000)
        reader._open()._keeper.renew()
    end = reader.latestOffset(again(start), ALL)
    assert positions(end, "orders") == {"0": [10, 10], "1": [10, 10], "2": [0, 6]}


@pytest.mark.parametrize(
    "changed",
    [
        {"startingOffsets": "latest"},
        {"maxOffsetsPerTrigger": "3"},
        {"instanceId": "other"},
        {"leaseMode": "none"},
        {"failOnDataLoss": "false"},
        {"includeProperties": "true"},
        {"group": "other"},
        {"leaseMode": "shared"},
        {"subscribe": None, "subscribePattern": "ord.*"},
        {"subscribe": None, "assign": '{"orders":{"broker-a":[0,1]}}'},
    ],
)
def test_a_changed_option_does_not_change_what_was_planned(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    changed: dict[str, str | None],
) -> None:
    engine = engine_of(cluster, new_reader)
    engine.run()
    cluster.brokers[0].fill(queues[0], 4)
    engine.run(die_at="logged")
    cluster.brokers[0].fill(queues[0], 4)
    engine.options = changed
    engine.run()
    offsets = [row["offset"] for row in engine.rows if row["queue"] == 0]
    assert offsets == list(range(18))
    assert len(engine.attempts[1][-1]) == 4


@pytest.mark.parametrize("changed", [{"tags": "paid"}, {"sql92": "amount > 5"}])
def test_another_filter_reads_the_same_ranges_and_filters_what_is_repeated_too(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    changed: dict[str, str],
) -> None:
    engine = Engine(new_reader)
    engine.run()
    cluster.brokers[0].fill(queues[0], 4)
    engine.run(die_at="logged")
    reader = new_reader(**changed)
    planned = reader.partitions(again(engine.ends[0]), again(engine.ends[1]))
    assert ranges(planned) == [(0, 10, 14)]
    assert [planned[0].plan.expression] == list(changed.values())
    assert positions(reader.latestOffset(engine.ends[1], ALL), "orders") == {"0": 14, "1": 10}


@pytest.mark.parametrize("modes", [("shared", "exclusive"), ("exclusive", "shared")])
@pytest.mark.parametrize("phase", [*PHASES, None])
def test_a_query_may_become_a_member_of_its_group_and_own_everything_again(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    modes: tuple[str, str],
    phase: str | None,
) -> None:
    engine = Engine(new_reader)
    for mode in (*modes, *modes):
        engine.options = {"leaseMode": mode}
        engine.run()
        cluster.brokers[0].fill(queues[0], 4)
        engine.run(die_at=phase)
    engine.run()
    assert_exactly_once(engine, cluster)


def test_a_smaller_assignment_leaves_the_checkpoint_as_it_is_unless_it_may_lose_data(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    engine = Engine(new_reader, {"subscribe": None, "assign": '{"orders":{"broker-a":[0,1]}}'})
    engine.run()
    before = again(engine.ends[-1])
    engine.options = {"subscribe": None, "assign": '{"orders":{"broker-a":[0]}}'}
    with pytest.raises(OptionError, match=r"checkpoint of the assigned queues .*orders@broker-a#1"):
        engine.run()
    assert engine.ends[-1] == before
    cluster.brokers[0].fill(queues[0], 4)
    engine.options["failOnDataLoss"] = "false"
    engine.run()
    assert positions(engine.ends[-1], "orders") == {"0": 14}


def test_a_checkpoint_of_a_newer_version_is_refused(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    engine = engine_of(cluster, new_reader)
    engine.run()
    engine.ends[-1]["version"] = 2
    before = again(engine.ends[-1])
    with pytest.raises(OptionError, match=r"offset version 1 .*newer rmq-ordered"):
        engine.run()
    assert engine.ends[-1] == before


@proves("killed-batch-repeated", "commit-finished-only")
@pytest.mark.generated
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*PHASES, None]), st.integers(1, 9), st.integers(0, 1), st.booleans()
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whenever_runs_are_killed_and_whatever_arrives_every_row_comes_once(
    monkeypatch: pytest.MonkeyPatch, story: list[tuple[str | None, int, int, bool]]
) -> None:
    cluster = ClusterDouble()
    queues = cluster.brokers[0].add_topic("orders", 2)
    engine = engine_of(cluster, _readers_of(cluster, monkeypatch))
    for phase, count, queue_id, is_expanding in story:
        cluster.brokers[0].fill(queues[queue_id], count)
        if is_expanding and len(cluster.brokers[0].queues) < 4:
            (*_, joined) = cluster.brokers[0].add_topic(
                "orders", len(cluster.brokers[0].queues) + 1
            )
            cluster.brokers[0].fill(joined, count)
            cluster.clock.advance_ms(60_000)
        engine.limit = ReadMaxRows(count)
        engine.run(die_at=phase)
    engine.run()
    assert_exactly_once(engine, cluster)


def _readers_of(cluster: ClusterDouble, monkeypatch: pytest.MonkeyPatch) -> NewReader:
    from rmq_ordered.options import SourceOptions
    from rmq_ordered.spark.stream import OrderedStreamReader

    for module in ("ownership", "executor"):
        monkeypatch.setattr(
            f"rmq_ordered.spark.{module}.open_client", lambda options: cluster.client()
        )
    given_options = {"nameServer": "names-1:9876", "subscribe": "orders", "group": "billing"}
    return lambda **changes: OrderedStreamReader(
        SourceOptions.parse(given_options | changes, streaming=True)
    )


@proves("held-while-in-flight")
def test_nothing_is_given_back_while_a_batch_is_planned_or_read(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    steps = itertools.chain([None], reader.read(reader.partitions(start, end)[0]))
    other = new_reader(leaseTimeout="1s")
    for _ in steps:
        with pytest.raises(QueueLeaseUnavailable):
            other.initialOffset()
    reader.commit(end)
    with pytest.raises(QueueLeaseUnavailable):
        other.initialOffset()
    reader.stop()
    assert ends(other.initialOffset(), "orders") == {"0": 0, "1": 0}


@proves("sleeping-driver-no-harm")
def test_a_driver_that_slept_past_its_lease_fails_and_moves_nothing_back(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    zombie = new_reader()
    start = zombie.initialOffset()
    end = again(zombie.latestOffset(start, ReadMaxRows(6)))
    planned = zombie.partitions(start, end)
    cluster.clock.advance_ms(61_000)
    successor = engine_of(cluster, new_reader)
    successor.run()
    committed = dict(cluster.brokers[0].committed)
    with pytest.raises(QueueLeaseLost):
        zombie.latestOffset(end, ALL)
    with pytest.raises(QueueLeaseLost):
        zombie.partitions(start, end)
    with pytest.raises(QueueLeaseLost):
        list(zombie.read(planned[0]))
    assert dict(cluster.brokers[0].committed) == committed
    assert set(committed.values()) == {10}


def test_a_driver_that_slept_in_the_middle_of_a_question_says_that_its_leases_are_lost(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    cluster.network.arm(DropReply(cluster.clock, 60_000), RequestCode.GET_TOPIC_STATS_INFO)
    with pytest.raises(QueueLeaseLost):
        reader.latestOffset(start, ALL)


def test_a_question_without_an_answer_is_told_as_it_is_while_the_leases_hold(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    silence = DropReply(cluster.clock, 3_000)
    cluster.network.arm(silence, RequestCode.GET_TOPIC_STATS_INFO, times=20)
    with pytest.raises(RequestTimedOut, match="statistics of topic orders"):
        reader.latestOffset(start, ALL)
