"""Which run a task belongs to, and when Spark does not tell."""

from collections.abc import Callable, Iterator

import pytest
from pyspark import TaskContext
from tests.support.calls import ALL, NewReader, read_all

from rmq_ordered.errors import QueueLeaseLost
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH
from rmq_ordered.spark.run_name import run_of_task
from rmq_ordered.testing import ClusterDouble

QUERY = "0f0e0d0c-0b0a-4908-8706-ff0403020100"
RUN = "5dd0bb2e-b16d-4d2f-9b32-2b9d2a2b7f10"
InTask = Callable[[dict[str, str]], None]


@pytest.fixture
def in_task() -> Iterator[InTask]:
    def enter(properties: dict[str, str]) -> None:
        context = TaskContext()
        context._localProperties = properties
        TaskContext._setTaskContext(context)

    yield enter
    TaskContext._setTaskContext(None)


def test_a_run_is_its_query_and_its_run_together(in_task: InTask) -> None:
    in_task({"sql.streaming.queryId": QUERY, "spark.jobGroup.id": RUN})
    assert run_of_task() == f"{QUERY}/{RUN}"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"sql.streaming.queryId": QUERY},
        {"spark.jobGroup.id": RUN},
        {"sql.streaming.queryId": QUERY, "spark.jobGroup.id": "nightly"},
        {"sql.streaming.queryId": QUERY, "spark.jobGroup.id": RUN.upper()},
        {"sql.streaming.queryId": QUERY, "spark.jobGroup.id": f"{{{RUN}}}"},
    ],
)
def test_where_spark_does_not_tell_there_is_no_run(
    in_task: InTask, properties: dict[str, str]
) -> None:
    in_task(properties)
    assert run_of_task() is None


def test_outside_of_a_task_there_is_no_run() -> None:
    assert run_of_task() is None


def test_a_read_fails_when_its_lease_ended_behind_the_last_row(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    cluster.brokers[0].features = frozenset({FEATURE_LEASE_EPOCH})
    reader = new_reader()
    start = reader.initialOffset()
    first, second = reader.partitions(start, reader.latestOffset(start, ALL))
    assert len(read_all(reader, [first])) == 10
    rows = reader.read(second)
    assert next(rows).num_rows == 10
    cluster.brokers[0].locks.lose_memory()
    with pytest.raises(QueueLeaseLost):
        next(rows)
