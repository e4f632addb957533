"""Runs of popping queries that end anywhere and begin again: nothing lost, batches repeated."""

from collections import defaultdict
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.support.calls import Engine, NewReader
from tests.support.examples import examples
from tests.support.popping import PoppingDouble, popping
from tests.support.promises import proves

from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.popping.stream import PoppingStreamReader
from rmq_ordered.testing import ClusterDouble

PHASES = ["planned", "logged", "read"]
GIVEN = {
    "nameServer": "names-1:9876",
    "subscribe": "orders",
    "group": "packing",
    "consumeMode": "pop",
}
Places = dict[tuple[str, int], list[int]]


class World:
    """Two brokers, and the engines of two queries of one group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
        self.cluster = ClusterDouble(brokers=2)
        for broker in self.cluster.brokers:
            broker.add_topic("orders", 2)
        self.doubles: list[PoppingDouble] = popping(self.cluster)
        for module in ("run", "executor"):
            monkeypatch.setattr(
                f"rmq_ordered.spark.popping.{module}.open_client",
                lambda options: self.cluster.client(),
            )
        self._options = SourceOptions.parse(GIVEN | {"popOrder": order}, streaming=True)
        make = cast("NewReader", self._reader)
        self.engines = [Engine(make, limit=ReadMaxRows(limit)) for limit in (5, 40)]

    def fill(self, count: int) -> None:
        for broker in self.cluster.brokers:
            for queue in broker.queues:
                broker.fill(queue, count)

    def let_times_run_out(self) -> None:
        for double in self.doubles:
            double.let_times_run_out()

    def found(self) -> Places:
        """The offsets of the rows of all finished batches, by broker and queue."""
        found: Places = defaultdict(list)
        for engine in self.engines:
            for row in engine.rows:
                found[row["broker"], row["queue"]].append(row["offset"])
        return found

    def stored(self) -> Places:
        return {
            (queue.broker_name, queue.queue_id): list(range(one.maximum))
            for broker in self.cluster.brokers
            for queue, one in broker.queues.items()
            if one.maximum
        }

    def _reader(self, **_: Any) -> PoppingStreamReader:
        assert self._options.popping is not None
        return PoppingStreamReader(self._options, self._options.popping)


@proves("pop-query-loses-nothing")
@pytest.mark.generated
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    order=st.sampled_from(["none", "queue"]),
    story=st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from([None, *PHASES]), st.integers(0, 12), st.booleans()
        ),
        max_size=8,
    ),
)
def test_whenever_queries_are_killed_every_message_is_in_a_finished_batch(
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    story: list[tuple[int, str | None, int, bool]],
) -> None:
    world = World(monkeypatch, order)
    for number, die_at, count, is_time_over in story:
        world.fill(count)
        world.engines[number].run(die_at)
        if is_time_over:
            world.let_times_run_out()
    # In the end all come back, and the last times run out.
    for _ in range(2):
        world.let_times_run_out()
        for engine in world.engines:
            engine.run()
    assert {place: sorted(set(offsets)) for place, offsets in world.found().items()} == (
        world.stored()
    )
    for engine in world.engines:
        for attempts in engine.attempts.values():
            assert all(attempt == attempts[0] for attempt in attempts)
    assert all(not out for double in world.doubles for out in double.out.values())


@pytest.mark.parametrize("order", ["none", "queue"])
def test_without_a_kill_every_message_comes_once(
    monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    world = World(monkeypatch, order)
    for count in (7, 0, 90, 1):
        world.fill(count)
        for engine in world.engines:
            engine.run()
    assert {place: sorted(found) for place, found in world.found().items()} == world.stored()


@proves("pop-killed-query")
@pytest.mark.parametrize("phase", PHASES)
def test_a_batch_that_is_killed_comes_once_more_and_no_oftener(
    monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    world = World(monkeypatch, "none")
    world.fill(1)
    engine = world.engines[0]
    engine.run(die_at=phase)
    world.let_times_run_out()
    engine.run()
    engine.run()
    times = 1 if phase == "planned" else 2
    assert {place: sorted(found) for place, found in world.found().items()} == {
        place: sorted(offsets * times) for place, offsets in world.stored().items()
    }
