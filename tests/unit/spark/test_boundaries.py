"""Where reads begin and end, by every way of saying so."""

import json
from collections.abc import Callable

import pytest
from pyspark.sql.datasource import InputPartition
from tests.support.calls import ALL, NewReader, ends, positions, ranges

from rmq_ordered.client import Client
from rmq_ordered.errors import OffsetOutOfRange, OptionError
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.report import decode_report
from rmq_ordered.spark.batch import OrderedBatchReader
from rmq_ordered.testing import ClusterDouble

NewBatch = Callable[..., OrderedBatchReader]


def offsets(**queues: int) -> str:
    """JSON offsets of queues named like q0."""
    return json.dumps({"orders": {"broker-a": {name[1:]: value for name, value in queues.items()}}})


def start_of(new_reader: NewReader, **options: str) -> dict[str, int]:
    return ends(new_reader(**options).initialOffset(), "orders")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"0": 4, "1": 0}),
        ({"startingOffsetsFallback": "latest"}, {"0": 4, "1": 10}),
        ({"startingOffsets": "earliest"}, {"0": 0, "1": 0}),
        ({"startingOffsets": "latest"}, {"0": 10, "1": 10}),
        ({"startingOffsets": offsets(q0=7, q1=-1)}, {"0": 7, "1": 10}),
        ({"startingOffsets": offsets(q1=-2)}, {"0": 0, "1": 0}),
        ({"startingOffsets": offsets(q0=7)}, {"0": 7, "1": 0}),
        (
            {"startingOffsets": offsets(q0=7), "startingOffsetsFallback": "latest"},
            {"0": 7, "1": 10},
        ),
    ],
)
def test_a_stream_begins_where_it_was_told_to(
    client: Client,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    options: dict[str, str],
    expected: dict[str, int],
) -> None:
    client.broker.commit_offset("billing", queues[0], 4)
    assert start_of(new_reader, **options) == expected


def test_a_time_begins_at_the_first_message_stored_from_then_on(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    then_ms = cluster.clock.wall_ms()
    cluster.brokers[0].fill(queues[0], 5)
    cluster.clock.advance_ms(1)
    assert start_of(new_reader, startingTimestamp=str(then_ms)) == {"0": 10, "1": 10}
    assert start_of(new_reader, startingTimestamp="5", group="other") == {"0": 0, "1": 0}


def test_a_quiet_queue_fails_a_time_only_if_that_was_asked_for(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    then_ms = cluster.clock.wall_ms()
    cluster.brokers[0].fill(queues[0], 5)
    reader = new_reader(startingTimestamp=str(then_ms), startingTimestampNoMatch="error")
    with pytest.raises(OptionError, match=r"orders@broker-a#1.*startingTimestampNoMatch=latest"):
        reader.initialOffset()


def test_a_time_that_has_not_come_is_refused(cluster: ClusterDouble, new_reader: NewReader) -> None:
    later_ms = cluster.clock.wall_ms() + 1
    with pytest.raises(OptionError, match="a time that has passed"):
        new_reader(startingTimestamp=str(later_ms)).initialOffset()


@pytest.mark.parametrize("wrong", ['{"orders":{"broker-a":{"2":5}}}', '{"audit":{"a":{"0":5}}}'])
def test_offsets_of_queues_that_are_not_there_are_refused(
    new_reader: NewReader, wrong: str
) -> None:
    with pytest.raises(OptionError, match=r"startingOffsets.*only queues of the subscribed topics"):
        new_reader(startingOffsets=wrong).initialOffset()


def test_offsets_that_the_broker_does_not_hold_are_refused(new_reader: NewReader) -> None:
    with pytest.raises(OffsetOutOfRange, match="queue offset 11"):
        new_reader(startingOffsets=offsets(q0=11)).initialOffset()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(0, 0, 10), (1, 0, 10)]),
        ({"endingOffsets": "latest"}, [(0, 0, 10), (1, 0, 10)]),
        ({"endingOffsets": offsets(q0=3)}, [(0, 0, 3), (1, 0, 10)]),
        ({"endingOffsets": offsets(q0=0, q1=-1)}, [(1, 0, 10)]),
        (
            {"startingOffsets": offsets(q0=2, q1=9), "endingOffsets": offsets(q0=3, q1=9)},
            [(0, 2, 3)],
        ),
        ({"startingOffsets": "group"}, [(0, 4, 10), (1, 0, 10)]),
    ],
)
def test_a_batch_read_has_two_ends(
    client: Client,
    queues: tuple[MessageQueue, ...],
    new_batch: NewBatch,
    options: dict[str, str],
    expected: list[tuple[int, int, int]],
) -> None:
    client.broker.commit_offset("billing", queues[0], 4)
    assert ranges(new_batch(**options).partitions()) == expected


def test_a_batch_read_without_anything_to_read_has_no_rows(new_batch: NewBatch) -> None:
    reader = new_batch(startingOffsets=offsets(q0=10, q1=10))
    assert reader.partitions() == []
    # What Spark makes of that.
    assert list(reader.read(InputPartition(None))) == []


def test_a_batch_read_can_end_at_a_time(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_batch: NewBatch
) -> None:
    then_ms = cluster.clock.wall_ms()
    cluster.brokers[0].fill(queues[0], 5)
    cluster.clock.advance_ms(1)
    ended = new_batch(endingTimestamp=str(then_ms)).partitions()
    assert ranges(ended) == [(0, 0, 10), (1, 0, 10)]
    after = new_batch(startingTimestamp=str(then_ms)).partitions()
    assert ranges(after) == [(0, 10, 15)]


def test_a_batch_read_that_ends_before_it_begins_is_refused(new_batch: NewBatch) -> None:
    reader = new_batch(startingOffsets=offsets(q0=5), endingOffsets=offsets(q0=4))
    with pytest.raises(OptionError, match="an end at or after the start, 5"):
        reader.partitions()


def test_an_end_beyond_the_queue_is_an_error_or_the_end_that_is_there(
    new_batch: NewBatch, caplog: pytest.LogCaptureFixture
) -> None:
    beyond = {"startingOffsets": offsets(q0=4), "endingOffsets": offsets(q0=15, q1=3)}
    with pytest.raises(OffsetOutOfRange, match=r"queue offset 15 .* holds \[0, 10\)"):
        new_batch(**beyond).partitions()
    clipped = new_batch(failOnDataLoss="false", **beyond).partitions()
    assert ranges(clipped) == [(0, 4, 10), (1, 0, 3)]
    assert "queue=orders@broker-a#0 ends at 10" in caplog.text
    assert "made anew" not in caplog.text


@pytest.mark.parametrize(("start", "lost"), [(2, 2), (5, 0), (-2, 0)])
def test_of_a_range_that_is_gone_nothing_is_read_and_its_messages_are_counted(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_batch: NewBatch,
    caplog: pytest.LogCaptureFixture,
    start: int,
    lost: int,
) -> None:
    cluster.brokers[0].queues[queues[0]].minimum = 6
    gone = {"startingOffsets": offsets(q0=start), "endingOffsets": offsets(q0=4)}
    with pytest.raises(OffsetOutOfRange, match=r"holds \[6, 10\)"):
        new_batch(**gone).partitions()
    assert ranges(new_batch(failOnDataLoss="false", **gone).partitions()) == [(1, 0, 10)]
    counted = [record.args for record in caplog.records if "skipped" in record.msg]
    assert counted == ([(lost, queues[0], start, start + lost)] if lost else [])


def test_the_first_offset_says_when_the_newest_message_was_stored(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    assert new_reader().initialOffset()["storedUntil"] == cluster.clock.wall_ms() - 1_000


def test_the_latest_offsets_are_reported_for_progress(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    reader = new_reader(maxOffsetsPerTrigger="4")
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    latest = reader.reportLatestOffset()
    assert latest is not None
    assert positions(latest, "orders") == {"0": 10, "1": 10}
    cluster.brokers[0].fill(queues[0], 2)
    reader.latestOffset(reader.initialOffset(), ALL)
    assert positions(reader.reportLatestOffset() or {}, "orders") == {"0": 12, "1": 10}


@pytest.mark.parametrize("lease_mode", ["exclusive", "shared", "none"])
def test_the_report_names_the_leases_under_which_the_batch_was_planned(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    lease_mode: str,
) -> None:
    reader = new_reader(leaseMode=lease_mode)
    start = reader.initialOffset()
    planned = reader.partitions(start, reader.latestOffset(start, ALL))
    leases = decode_report(reader.reportLatestOffset() or {}).leases
    found = {partition.plan.range.queue: partition.plan.lease for partition in planned}
    assert leases == ({} if lease_mode == "none" else found)
    assert found.keys() == set(queues)
