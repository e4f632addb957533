"""Who writes: the same after a restart, another one for another query."""

import pickle
from collections.abc import Callable, Iterator

import pytest
from pyspark import TaskContext

from rmq_ordered.client.ledger import WriteAttempt
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import SendStream
from rmq_ordered.options import SinkOptions
from rmq_ordered.spark.writing.identity import BatchIdentity, stream_attempt

QUERY = {
    "sql.streaming.queryId": "0f0e0d0c-0b0a-4908-8706-ff0403020100",
    "streaming.sql.batchId": "17",
}
SINK = "q-Dw4NDAsKSQiHBv8EAwIBAA"
InTask = Callable[..., None]


@pytest.fixture
def in_task() -> Iterator[InTask]:
    """Pretends to be inside a task, as Spark's worker does."""

    def enter(properties: dict[str, str], partition: int = 4, attempt: int = 0) -> None:
        context = TaskContext()
        context._partitionId = partition
        context._attemptNumber = attempt
        context._localProperties = properties
        TaskContext._setTaskContext(context)

    yield enter
    TaskContext._setTaskContext(None)


def options(**given: str) -> SinkOptions:
    return SinkOptions.parse({"nameServer": "mq1:9876", "topic": "t", **given})


def test_a_stream_is_known_by_its_query_and_batch(in_task: InTask) -> None:
    in_task({**QUERY, "spark.jobGroup.id": "run-1"})
    assert stream_attempt() == WriteAttempt(SendStream(SINK, 17, 4), "run-1", True)
    in_task({**QUERY, "spark.jobGroup.id": "run-2"}, attempt=1)
    assert stream_attempt() == WriteAttempt(SendStream(SINK, 17, 4), "run-2", False)


def test_a_stream_without_a_run_can_still_be_told(in_task: InTask) -> None:
    in_task(QUERY)
    assert stream_attempt().run is None


@pytest.mark.parametrize("missing", sorted(QUERY))
def test_without_query_or_batch_a_stream_is_refused_with_what_to_do(
    in_task: InTask, missing: str
) -> None:
    in_task({name: value for name, value in QUERY.items() if name != missing})
    with pytest.raises(LocalProtocolError, match=r"inside foreachBatch use df\.write with sinkId"):
        stream_attempt()


def test_outside_of_a_task_there_is_no_identity() -> None:
    with pytest.raises(LocalProtocolError, match="inside a Spark task"):
        stream_attempt()


def test_a_batch_write_is_known_by_itself_and_its_tasks_agree(in_task: InTask) -> None:
    identity = BatchIdentity.of(options())
    assert identity != BatchIdentity.of(options())
    shipped = pickle.loads(pickle.dumps(identity))
    in_task({}, partition=2)
    attempt = shipped.attempt()
    assert attempt.stream == SendStream(identity.sink, 0, 2)
    assert (attempt.run, attempt.is_first) == (identity.sink, True)
    assert not identity.is_lasting


def test_a_write_that_the_user_names_lasts_and_is_never_surely_the_first(in_task: InTask) -> None:
    identity = BatchIdentity.of(options(sinkId="totals", batchId="9"))
    in_task({}, partition=1)
    assert identity.attempt() == WriteAttempt(SendStream("totals", 9, 1), None, True)
    assert identity.is_lasting
