"""Queries that end in every way and go on from their checkpoint, on both brokers."""

import json
import shutil
from pathlib import Path

import pytest
from tests.spark.harness import (
    Source,
    collect_available,
    failure_of,
    produce,
    start_collecting,
)
from tests.spark.script import (
    KILLED_IN_BATCH,
    AddMessages,
    CheckQueues,
    ExpectFailure,
    KillSource,
    KillSourceInBatch,
    RestartFromCheckpoint,
    Script,
    Start,
    Stop,
)
from tests.support.brokers import Broker
from tests.support.paths import GOLDEN
from tests.support.promises import proves

from rmq_ordered.client import Client


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("restarted", 3)


@pytest.mark.both_brokers
@proves("killed-batch-repeated")
def test_a_query_goes_on_after_a_stop_a_crash_and_a_change(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    Script(source, client, topic, tmp_path / "cp").play(
        AddMessages(keys=10, sequences=range(3)),
        Start(instanceId="billing"),
        CheckQueues(),
        Stop(),
        AddMessages(keys=10, sequences=range(3, 6)),
        RestartFromCheckpoint(maxOffsetsPerTrigger=7),
        CheckQueues(),
        KillSource(),
        ExpectFailure("STREAM_FAILED"),
        KillSourceInBatch(),
        RestartFromCheckpoint(),
        AddMessages(keys=10, sequences=range(6, 8)),
        ExpectFailure(KILLED_IN_BATCH),
        AddMessages(keys=10, sequences=range(8, 10)),
        RestartFromCheckpoint({"availableNow": True}, maxOffsetsPerTrigger=1_000),
        CheckQueues(repeated=1),
    )


@proves("checkpoints-last")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_checkpoint_of_the_first_version_is_still_read(
    client: Client, broker: Broker, source: Source, tmp_path: Path
) -> None:
    """Written for a topic `pinned` of two queues when three messages were read.

    Only its time was moved to the year 2100: for the checkpoint, this test's topic is no new one.
    """
    client.broker.create_topic("pinned", 2)
    produce(client, "pinned", keys=10, sequences=range(3))
    shutil.copytree(GOLDEN / "checkpoint-v1", tmp_path / "cp")
    stream = source.stream(subscribe="pinned", group=broker.unique("pinned"))
    query, collected = start_collecting(stream, tmp_path / "cp")
    assert query.awaitTermination(180)
    found = {(row.queue, row.offset) for row in collected.rows}
    ends = {q.queue_id: s.maximum for q, s in client.broker.topic_stats("pinned").items()}
    assert found == {(q, o) for q, end in ends.items() for o in range(q + 1, end)}


@proves("checkpoints-last")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "a checkpoint with offset version 1"),
        ({"topics": {"elsewhere": {"broker-a": {"0": 5}}}}, "a checkpoint of elsewhere"),
    ],
)
def test_a_foreign_checkpoint_is_refused_and_stays_as_it_is(
    client: Client,
    topic: str,
    source: Source,
    tmp_path: Path,
    change: dict[str, object],
    words: str,
) -> None:
    checkpoint = tmp_path / "cp"
    shutil.copytree(GOLDEN / "checkpoint-v1", checkpoint)
    log = checkpoint / "offsets" / "0"
    *head, offset = log.read_text().splitlines()
    log.write_text("\n".join([*head, json.dumps(json.loads(offset) | change)]))
    (checkpoint / "offsets" / ".0.crc").unlink(missing_ok=True)
    before = {p: p.read_bytes() for p in checkpoint.rglob("*") if p.is_file()}
    Script(source, client, topic, checkpoint).play(Start(), ExpectFailure(words))
    assert {p: p.read_bytes() for p in before} == before
    assert sorted(p.name for p in (checkpoint / "offsets").iterdir() if p.suffix != ".crc") == ["0"]


@proves("torn-first-offsets")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_file_left_by_a_kill_in_the_first_batch_is_all_that_stops_the_query(
    client: Client, topic: str, source: Source, tmp_path: Path
) -> None:
    """What a driver leaves that is killed before it has renamed its first offsets."""
    sent = produce(client, topic, keys=10, sequences=range(3))
    checkpoint = tmp_path / "cp"
    options = {"leaseMode": "none", "startingOffsets": "earliest"}
    collect_available(source.stream(**options), checkpoint)
    shutil.rmtree(checkpoint / "commits")
    offsets = checkpoint / "offsets"
    torn = offsets / ".0.0d3a0a9c-1f7e-4d7c-9f0e-5b7f6f0f8c11.tmp"
    (offsets / "0").rename(torn)
    (offsets / ".0.crc").rename(offsets / f".{torn.name}.crc")

    query, _ = start_collecting(source.stream(**options), checkpoint)
    assert "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY" in failure_of(query)
    # As docs/source.md says.
    for left in offsets.iterdir():
        assert left.name.startswith(".")
        left.unlink()
    assert len(collect_available(source.stream(**options), checkpoint).rows) == sent
