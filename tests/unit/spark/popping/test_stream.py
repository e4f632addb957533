"""The popping reader called as Spark calls it, on brokers that play along."""

import json
import pickle
import threading
from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.support.calls import Offset, again
from tests.support.popping import PoppingDouble
from tests.support.promises import proves

from rmq_ordered.errors import AccessDenied, OptionError, TopicNotFound, TransportError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.spark.popping.partition import PoppedPartition
from rmq_ordered.spark.popping.stream import PoppingStreamReader
from rmq_ordered.testing import ClusterDouble, DropReply, Refuse

NewPopper = Callable[..., PoppingStreamReader]
Place = tuple[str, int, int]
POP, PULL = RequestCode.POP_MESSAGE, RequestCode.PULL_MESSAGE
ALL_MESSAGES = 200
SUBSCRIPTION_PARSE_FAILED = 23


def read(reader: PoppingStreamReader, partitions: list[PoppedPartition]) -> list[Place]:
    """Broker, queue and offset of every row, as an executor's copy reads them."""
    copy = pickle.loads(pickle.dumps(reader))
    return [
        (row["broker"], row["queue"], row["offset"])
        for partition in pickle.loads(pickle.dumps(partitions))
        for batch in copy.read(partition)
        for row in batch.to_pylist()
    ]


def run_batch(reader: PoppingStreamReader, start: Offset) -> tuple[Offset, list[Place]]:
    end = again(reader.latestOffset(start, reader.getDefaultReadLimit()))
    return end, read(reader, reader.partitions(start, end))


def acked(brokers: list[PoppingDouble]) -> int:
    return sum(len(offsets) for broker in brokers for offsets in broker.acked.values())


def test_the_first_offset_is_the_same_however_often_it_is_asked_for_and_pops_nothing(
    cluster: ClusterDouble, new_popper: NewPopper
) -> None:
    reader = new_popper()
    assert reader.initialOffset() == reader.initialOffset()
    assert cluster.network.requests(POP) == []


def test_a_topic_that_is_not_there_is_told_before_anything_is_popped(
    cluster: ClusterDouble, new_popper: NewPopper
) -> None:
    with pytest.raises(TopicNotFound, match="nothing-there"):
        new_popper(subscribe="nothing-there").initialOffset()


@proves("pop-ack-after-finish")
def test_everything_is_read_once_and_acknowledged_when_the_next_batch_is_planned(
    new_popper: NewPopper, brokers: list[PoppingDouble]
) -> None:
    reader = new_popper(maxOffsetsPerTrigger="150")
    start = again(reader.initialOffset())
    middle, first = run_batch(reader, start)
    assert len(first) == 150
    assert acked(brokers) == 0
    end, second = run_batch(reader, middle)
    assert acked(brokers) == 150
    assert len(second) == 50
    assert len({*first, *second}) == ALL_MESSAGES
    assert json.dumps(again(reader.latestOffset(end, ReadMaxRows(9)))) == json.dumps(end)
    assert acked(brokers) == ALL_MESSAGES


def test_an_idle_poll_gives_the_start_back_to_the_letter(new_popper: NewPopper) -> None:
    reader = new_popper()
    end, _ = run_batch(reader, again(reader.initialOffset()))
    for _ in range(3):
        assert json.dumps(reader.latestOffset(end, ReadMaxRows(9))) == json.dumps(end)
    assert reader.partitions(end, end) == []


def test_rows_of_a_queue_come_in_order_and_a_queue_is_one_partition(
    new_popper: NewPopper, queues: list[MessageQueue]
) -> None:
    reader = new_popper()
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ReadMaxRows(1_000)))
    planned = reader.partitions(start, end)
    assert [partition.plans[0].range.queue for partition in planned] == queues
    rows = read(reader, planned)
    assert rows == sorted(rows)


@proves("pop-batch-exact")
def test_executors_read_exactly_what_was_popped_and_nothing_that_others_took(
    new_popper: NewPopper, brokers: list[PoppingDouble], queues: list[MessageQueue]
) -> None:
    reader = new_popper(maxOffsetsPerTrigger="4")
    start = again(reader.initialOffset())
    reader.latestOffset(start, ReadMaxRows(4))
    brokers[0].skip(queues[0], 10)
    # The batch above was lost with its driver; the group goes on behind what others took.
    other = new_popper(maxOffsetsPerTrigger="4")
    end, rows = run_batch(other, start)
    assert end["popped"]["orders"]["broker-a"] == {"0": [[14, 18]]}
    assert rows == [("broker-a", 0, offset) for offset in range(14, 18)]


def test_a_repeated_batch_has_the_same_rows_under_a_group_of_its_own(
    cluster: ClusterDouble, new_popper: NewPopper, brokers: list[PoppingDouble]
) -> None:
    reader = new_popper(maxOffsetsPerTrigger="70")
    start = again(reader.initialOffset())
    end, rows = run_batch(reader, start)
    reader.stop()
    assert acked(brokers) == 0
    recovered = new_popper()
    pops = len(cluster.network.requests(POP))
    assert read(recovered, recovered.partitions(start, end)) == rows
    assert len(cluster.network.requests(POP)) == pops
    groups = {request.ext("consumerGroup") for request in cluster.network.requests(PULL)}
    assert groups == {"rmq-ordered-reader"}
    # Its handles died with the run that popped it: they are not this run's to acknowledge.
    recovered.latestOffset(end, ReadMaxRows(1))
    assert acked(brokers) == 0


def test_a_batch_that_spark_did_not_take_is_planned_again(new_popper: NewPopper) -> None:
    reader = new_popper(maxOffsetsPerTrigger="10")
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ReadMaxRows(10)))
    assert again(reader.latestOffset(start, ReadMaxRows(10))) == end


@pytest.mark.parametrize(("limit", "expected"), [("1", 1), ("33", 33), ("64", 64)])
def test_the_limit_bounds_what_is_popped(
    new_popper: NewPopper, brokers: list[PoppingDouble], limit: str, expected: int
) -> None:
    reader = new_popper(maxOffsetsPerTrigger=limit)
    reader.latestOffset(again(reader.initialOffset()), reader.getDefaultReadLimit())
    assert sum(len(out) for broker in brokers for out in broker.out.values()) == expected


def test_bytes_bound_a_batch_to_one_pop_too_many(
    new_popper: NewPopper, brokers: list[PoppingDouble]
) -> None:
    reader = new_popper(maxBytesPerTrigger="40")
    reader.latestOffset(again(reader.initialOffset()), reader.getDefaultReadLimit())
    assert sum(len(out) for broker in brokers for out in broker.out.values()) == 32


def test_brokers_take_turns_so_that_none_starves(
    new_popper: NewPopper, brokers: list[PoppingDouble]
) -> None:
    reader = new_popper(maxOffsetsPerTrigger="64")
    reader.latestOffset(again(reader.initialOffset()), reader.getDefaultReadLimit())
    assert [sum(map(len, broker.out.values())) for broker in brokers] == [32, 32]


def test_once_is_refused_because_its_only_batch_is_never_told_to_be_finished(
    new_popper: NewPopper,
) -> None:
    reader = new_popper()
    start = again(reader.initialOffset())
    with pytest.raises(OptionError, match="availableNow or processingTime: after its only batch"):
        reader.latestOffset(start, ReadAllAvailable())


def test_available_now_ends_although_messages_keep_coming(
    cluster: ClusterDouble,
    new_popper: NewPopper,
    brokers: list[PoppingDouble],
    queues: list[MessageQueue],
) -> None:
    reader = new_popper(maxOffsetsPerTrigger="60")
    reader.prepareForTriggerAvailableNow()
    start, rows, batches = again(reader.initialOffset()), 0, 0
    while True:
        end, some = run_batch(reader, start)
        if end == start:
            break
        cluster.clock.advance_ms(100)
        for queue in queues[:2]:
            cluster.brokers[0].fill(queue, 30)
        start, rows, batches = end, rows + len(some), batches + 1
        assert batches < 40
    assert rows >= ALL_MESSAGES
    assert acked(brokers) == rows
    assert all(brokers[0].acked[queue][:50] == list(range(50)) for queue in queues[:2])


def test_available_now_ends_at_once_where_there_is_nothing(
    new_popper: NewPopper, brokers: list[PoppingDouble], queues: list[MessageQueue]
) -> None:
    for number, queue in enumerate(queues):
        brokers[number // 2].skip(queue, 50)
    reader = new_popper()
    reader.prepareForTriggerAvailableNow()
    start = again(reader.initialOffset())
    assert reader.latestOffset(start, ReadMaxRows(9)) == start


def test_an_orderly_pop_whose_answer_was_lost_is_asked_for_again_under_its_name(
    cluster: ClusterDouble, new_popper: NewPopper
) -> None:
    reader = new_popper(popOrder="queue", subscribe="orders")
    start = again(reader.initialOffset())
    cluster.network.arm(DropReply(cluster.clock, 3_000), POP)
    first = again(reader.latestOffset(start, ReadMaxRows(1_000)))
    lost, *others = cluster.network.requests(POP)
    assert lost.ext("order") == "true"
    assert lost.ext("attemptId") not in {one.ext("attemptId") for one in others}
    # The broker was left out of that batch, and is asked again with the next one.
    assert set(first["popped"]["orders"]) == {"broker-b"}
    second = again(reader.latestOffset(first, ReadMaxRows(1_000)))
    assert second["popped"]["orders"]["broker-a"] == {"0": [[0, 32]], "1": [[0, 32]]}
    repeated = [one.ext("attemptId") for one in cluster.network.requests(POP)]
    assert repeated.count(lost.ext("attemptId")) == 2


def test_an_orderly_batch_has_one_pop_of_a_queue_and_goes_on_when_it_is_finished(
    new_popper: NewPopper,
) -> None:
    reader = new_popper(popOrder="queue")
    start, rows = again(reader.initialOffset()), list[Place]()
    for most in (4 * 32, 4 * 18, 4 * 18):
        end, some = run_batch(reader, start)
        assert 0 < len(some) <= most
        start, rows = end, rows + some
    assert again(reader.latestOffset(start, ReadMaxRows(9))) == start
    assert len(rows) == ALL_MESSAGES
    for broker in ("broker-a", "broker-b"):
        for queue in (0, 1):
            found = [row[2] for row in rows if row[:2] == (broker, queue)]
            assert found == list(range(50))


def test_a_broker_that_is_away_is_left_out_and_said_so(
    cluster: ClusterDouble, new_popper: NewPopper, caplog: pytest.LogCaptureFixture
) -> None:
    reader = new_popper()
    start = again(reader.initialOffset())
    cluster.network.take_down(cluster.brokers[0].address)
    end = reader.latestOffset(start, ReadMaxRows(1_000))
    assert set(end["popped"]["orders"]) == {"broker-b"}
    assert "a broker is left out of a batch" in caplog.text


def test_without_any_broker_the_query_fails_after_a_while(
    cluster: ClusterDouble, new_popper: NewPopper
) -> None:
    reader = new_popper()
    start = again(reader.initialOffset())
    before_ms = cluster.clock.monotonic_ms()
    for broker in cluster.brokers:
        cluster.network.take_down(broker.address)
    with pytest.raises(TransportError):
        reader.latestOffset(start, ReadMaxRows(1_000))
    assert 15_000 <= cluster.clock.monotonic_ms() - before_ms <= 25_000


def test_a_refusal_fails_the_query_at_once(cluster: ClusterDouble, new_popper: NewPopper) -> None:
    reader = new_popper(sql92="amount >")
    start = again(reader.initialOffset())
    cluster.network.arm(Refuse(SUBSCRIPTION_PARSE_FAILED, "no condition"), POP)
    with pytest.raises(Exception, match="no condition"):
        reader.latestOffset(start, ReadMaxRows(1_000))
    assert cluster.network.requests(POP)[0].ext("exp") == "amount >"


def test_what_was_popped_before_a_refusal_is_not_held(
    cluster: ClusterDouble, new_popper: NewPopper, brokers: list[PoppingDouble]
) -> None:
    reader = new_popper()
    start = again(reader.initialOffset())
    cluster.network.arm(Refuse(ResponseCode.NO_PERMISSION), POP, after=2)
    with pytest.raises(AccessDenied):
        reader.latestOffset(start, ReadMaxRows(1_000))
    assert sum(len(out) for broker in brokers for out in broker.out.values()) == 64
    assert "rmq-ordered pop batch" not in {thread.name for thread in threading.enumerate()}
    assert acked(brokers) == 0


def test_acknowledgements_that_fail_are_tried_again_and_then_warned_of(
    cluster: ClusterDouble,
    new_popper: NewPopper,
    brokers: list[PoppingDouble],
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = new_popper(maxOffsetsPerTrigger="8")
    start = again(reader.initialOffset())
    end, _ = run_batch(reader, start)
    busy = Refuse(ResponseCode.SYSTEM_BUSY)
    cluster.network.arm(busy, RequestCode.BATCH_ACK_MESSAGE, times=3)
    end, _ = run_batch(reader, end)
    assert acked(brokers) == 8
    assert caplog.records == []
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR), RequestCode.BATCH_ACK_MESSAGE)
    run_batch(reader, end)
    assert acked(brokers) == 8
    assert "could not be acknowledged: messages of it may come again" in caplog.text


def test_a_checkpoint_of_a_pulling_query_is_refused(new_popper: NewPopper) -> None:
    with pytest.raises(OptionError, match="use another checkpoint folder"):
        new_popper().latestOffset({"topics": {}, "version": 1}, ReadMaxRows(1))


def test_a_reader_of_another_partition_is_told_what_it_got(new_popper: NewPopper) -> None:
    reader = new_popper()
    with pytest.raises(TypeError, match="expected a PoppedPartition"):
        next(reader.read(object()))  # type: ignore[arg-type]


def test_a_copy_on_an_executor_has_options_and_nothing_else(new_popper: NewPopper) -> None:
    reader = new_popper()
    reader.initialOffset()
    copy = pickle.loads(pickle.dumps(reader))
    assert vars(copy) == vars(PoppingStreamReader(reader._options, reader._popping))
