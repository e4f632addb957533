"""How much a batch takes: Spark's limit, the options', and waiting for more."""

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from tests.support.calls import ALL, Engine, NewReader, ends, positions

from rmq_ordered.model import MessageQueue, OutgoingMessage
from rmq_ordered.options import Admission
from rmq_ordered.spark.admission import default_limit
from rmq_ordered.testing import ClusterDouble


@pytest.mark.parametrize(
    ("admission", "limit"),
    [
        (Admission(), ReadAllAvailable()),
        (Admission(max_offsets=5, max_bytes=6, min_offsets=2), ReadMaxRows(5)),
        (Admission(max_bytes=6, min_offsets=2), ReadMaxBytes(6)),
        (Admission(min_offsets=2), ReadMinRows(2)),
    ],
)
def test_spark_is_told_of_a_limit_so_that_once_can_leave_it_out(
    admission: Admission, limit: ReadLimit
) -> None:
    assert default_limit(admission) == limit


def planned(new_reader: NewReader, limit: ReadLimit | None = None, **options: str) -> int:
    reader = new_reader(**options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit or reader.getDefaultReadLimit())
    reader.stop()
    return sum(ends(end, "orders").values())


def test_the_largest_number_of_offsets_is_kept(new_reader: NewReader) -> None:
    assert planned(new_reader, maxOffsetsPerTrigger="7") == 7


def test_once_reads_everything_whatever_the_options_say(new_reader: NewReader) -> None:
    limits = {
        "maxOffsetsPerTrigger": "30",
        "minOffsetsPerTrigger": "25",
        "maxBytesPerTrigger": "1k",
    }
    assert planned(new_reader, ALL, **limits) == 20


def test_bytes_are_estimated_from_the_records(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    for queue in cluster.brokers[0].add_topic("large", 2):
        for _ in range(500):
            message = OutgoingMessage(b"x" * 900)
            cluster.brokers[0].queues[queue].append(message, cluster.clock.wall_ms())

    def taken(**options: str) -> int:
        reader = new_reader(subscribe="large", maxBytesPerTrigger="100k", **options)
        end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        reader.stop()
        return sum(ends(end, "large").values())

    assert 90 <= taken() <= 105
    assert taken(maxOffsetsPerTrigger="50") == 50


def test_a_small_backlog_waits_for_more_or_for_the_delay(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    reader = new_reader(minOffsetsPerTrigger="25", maxTriggerDelay="20s", leaseMode="none",
                        startingOffsets="earliest")  # fmt: skip
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert reader.latestOffset(start, limit) == start
    cluster.clock.advance_ms(19_999)
    assert reader.latestOffset(start, limit) == start
    cluster.clock.advance_ms(1)
    end = reader.latestOffset(start, limit)
    assert ends(end, "orders") == {"0": 10, "1": 10}
    cluster.brokers[0].fill(queues[0], 25)
    assert positions(reader.latestOffset(end, limit), "orders") == {"0": 35, "1": 10}


def test_available_now_reads_what_was_there_and_waits_for_nothing(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    reader = new_reader(maxOffsetsPerTrigger="15", minOffsetsPerTrigger="15")
    reader.prepareForTriggerAvailableNow()
    cluster.brokers[0].fill(queues[0], 100)
    offset, limit, taken = reader.initialOffset(), reader.getDefaultReadLimit(), []
    while (end := reader.latestOffset(offset, limit)) != offset:
        taken.append(sum(ends(end, "orders").values()))
        offset = end
    assert taken == [15, 20]


def test_available_now_ends_although_a_queue_appears(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    engine = Engine(new_reader)
    engine.run()
    reader = new_reader()
    reader.prepareForTriggerAvailableNow()
    (*_, joined) = cluster.brokers[0].add_topic("orders", 3)
    cluster.brokers[0].fill(joined, 5)
    cluster.clock.advance_ms(60_000)
    end = reader.latestOffset(engine.ends[-1], ALL)
    assert positions(end, "orders") == {"0": 10, "1": 10, "2": [0, 0]}
    assert reader.latestOffset(end, ALL) == end
