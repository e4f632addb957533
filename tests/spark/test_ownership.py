"""One owner: queries that compete for a group, and queries that lose their queues."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.harness import (
    Source,
    assert_in_order,
    collect_available,
    failure_of,
    owners,
    produce,
    start_collecting,
)
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client

OFTEN = {"processingTime": "200 milliseconds"}


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("owned", 2)


@pytest.mark.both_brokers
@proves("one-owner")
def test_the_second_query_of_a_group_waits_then_fails_naming_what_is_held(
    broker: Broker, client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    first, collected = start_collecting(source.stream(), tmp_path / "first", **OFTEN)
    try:
        wait_until(lambda: len(collected.rows) == total or first.exception(), "it reads", 180)
        second, nothing = start_collecting(source.stream(leaseTimeout="2s"), tmp_path / "second")
        text = failure_of(second)
        assert first.isActive
    finally:
        first.stop()
    assert "QueueLeaseUnavailable" in text
    assert f"{topic}@" in text
    assert ("by spark@" in text) == (broker.kind == "embedded")
    assert nothing.rows == []


@proves("stop-frees-queues")
def test_the_second_query_takes_over_when_the_first_one_stops(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    before = produce(client, topic, keys=10, sequences=range(3))
    first, collected = start_collecting(source.stream(), tmp_path / "first", **OFTEN)
    wait_until(lambda: len(collected.rows) == before or first.exception(), "the first reads", 180)
    second, later = start_collecting(
        source.stream(leaseTimeout="60s"), tmp_path / "second", **OFTEN
    )
    try:
        after = produce(client, topic, keys=10, sequences=range(3, 6))
        wait_until(
            lambda: len(collected.rows) == before + after or first.exception(),
            "still the first",
            60,
        )
        assert later.rows == []
        first.stop()
        last = produce(client, topic, keys=10, sequences=range(6, 7))
        wait_until(lambda: len(later.rows) >= last or second.exception(), "the second reads", 180)
    finally:
        first.stop()
        second.stop()
    # The last batch before a stop may not be committed any more: those rows come again, none is
    # missing.
    repeated = {(row.queue, row.offset) for row in collected.rows}
    fresh = [row for row in later.rows if (row.queue, row.offset) not in repeated]
    assert_in_order(collected.rows + fresh, before + after + last)


@pytest.mark.both_brokers
@proves("lost-lease-fails-query")
def test_a_query_whose_queue_is_taken_away_fails_and_commits_nothing_more(
    broker: Broker, client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    query, collected = start_collecting(source.stream(), tmp_path / "cp", **OFTEN)
    wait_until(lambda: len(collected.rows) == total or query.exception(), "it reads", 180)
    queue = client.routes.readable(topic)[0]
    wait_until(
        lambda: client.broker.committed_offset(group, queue) is not None, "it has committed", 60
    )
    if broker.kind == "embedded":
        # A thief with admin rights: the old owner's epoch is stale from here on.
        (row,) = [r for r in client.broker.leases(group=group)[0] if r.queue == queue and r.is_live]
        client.broker.unlock(group, row.client_id, [queue])
        client.broker.lock(group, "thief", [queue])
    client.broker.commit_offset(group, queue, 1)
    produce(client, topic, keys=10, sequences=range(3, 4))
    text = failure_of(query)
    assert "QueueLeaseLost" in text
    assert f"group '{group}'" in text
    assert client.broker.committed_offset(group, queue) == 1


# Takes every queue of a topic as a run of an instance would, and says so.
HOLD = """
import sys
from rmq_ordered.client import Client, LeaseKeeper
from rmq_ordered.client.instances import InstanceRun

names, group, topic, instance, client_id = sys.argv[1:]
client = Client(names, request_timeout_ms=15_000)
InstanceRun(client.kv, group, instance).enter(client_id)
keeper = LeaseKeeper(client.broker, client.clock, group, client_id)
keeper.acquire(client.routes.readable(topic), 10_000)
print("held", flush=True)
sys.stdin.read()
"""


@proves("instance-take-over")
def test_a_new_run_with_the_same_instance_id_takes_over_from_a_dead_one_at_once(
    broker: Broker, client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    total = produce(client, topic, keys=10, sequences=range(3))
    arguments = [broker.name_server, group, topic, "billing", "billing#dead-run"]
    held = [sys.executable, "-c", HOLD, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(held, stdin=pipe, stdout=pipe, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "held\n"
        run.kill()
    assert owners(client, group, topic) == {False}
    stream = source.stream(instanceId="billing", leaseTimeout="1s")
    assert_in_order(collect_available(stream, tmp_path / "cp").rows, total)
    wait_until(lambda: owners(client, group, topic) == {True}, "the queues are free", 20)
    # Last of all, so that a run which may still hold queues is never without its record.
    runs = f"rmq-ordered-runs@{group}@billing"
    wait_until(lambda: client.kv.list(runs) == {}, "the run's record is gone", 20)
