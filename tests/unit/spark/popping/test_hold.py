"""A batch in the driver's hands: hidden while it is at work, acknowledged when it is finished."""

from collections.abc import Iterator

import pytest
from tests.support.popping import PoppingDouble
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, PopConsumer
from rmq_ordered.ordering.popped import PoppedOffset
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.spark.popping.hold import BatchHold
from rmq_ordered.spark.popping.notes import FinishedNotes
from rmq_ordered.testing import ClusterDouble, Refuse

CHANGE, ACK = RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.BATCH_ACK_MESSAGE
PLANNED = PoppedOffset(4, "packing", "run-1")
LONG_MS = 3_600_000


@pytest.fixture
def client(cluster: ClusterDouble, brokers: list[PoppingDouble]) -> Iterator[Client]:
    with cluster.client() as connected:
        yield connected


@pytest.fixture
def consumer(client: Client) -> PopConsumer:
    return PopConsumer(client, "packing", "orders")


def held_batch(client: Client, consumer: PopConsumer, invisible_ms: int = LONG_MS) -> BatchHold:
    notes = FinishedNotes(client.kv, "packing")
    hold = BatchHold(
        PLANNED, client.clock, invisible_ms, lambda: notes.told("run-1") >= PLANNED.batch
    )
    assert hold.is_empty
    hold.add(consumer, consumer.pop(3, broker_name="broker-a"))
    hold.add(consumer, consumer.pop(2, broker_name="broker-b"))
    return hold


def test_the_batch_names_what_it_holds(client: Client, consumer: PopConsumer) -> None:
    hold = held_batch(client, consumer)
    found = {str(queue): spans for queue, spans in hold.offset.spans.items()}
    assert found == {"orders@broker-a#0": ((0, 3),), "orders@broker-b#0": ((0, 2),)}
    assert (hold.offset.batch, hold.offset.run, hold.batch) == (4, "run-1", 4)
    hold.let_go()


def test_bodies_are_not_kept(client: Client, consumer: PopConsumer) -> None:
    hold = held_batch(client, consumer)
    (held,) = hold._holds.values()
    assert {each.message.body for each in held.messages} == {b""}
    hold.let_go()


def test_a_batch_at_work_is_hidden_anew_by_itself(
    client: Client, consumer: PopConsumer, brokers: list[PoppingDouble]
) -> None:
    hold = held_batch(client, consumer, invisible_ms=30)
    wait_until(lambda: min(b.renewed for b in brokers) >= 6, "all was hidden anew twice", 30)
    hold.finish()
    renewed = [broker.renewed for broker in brokers]
    assert sum(len(out) for broker in brokers for out in broker.out.values()) == 0
    assert [broker.renewed for broker in brokers] == renewed


def test_a_failed_renewal_is_warned_of_and_the_batch_is_held_on(
    cluster: ClusterDouble,
    client: Client,
    consumer: PopConsumer,
    brokers: list[PoppingDouble],
    caplog: pytest.LogCaptureFixture,
) -> None:
    hold = held_batch(client, consumer)
    cluster.network.take_down(cluster.brokers[0].address)
    hold.look()
    assert [broker.renewed for broker in brokers] == [0, 2]
    assert "batch=4 group=packing could not be hidden anew" in caplog.text
    cluster.network.bring_up(cluster.brokers[0].address)
    hold.look()
    assert [broker.renewed for broker in brokers] == [3, 4]
    hold.finish()
    assert [len(broker.acked) for broker in brokers] == [1, 1]


def test_a_batch_that_a_listener_saw_finished_is_acknowledged_instead_of_hidden(
    client: Client, consumer: PopConsumer, brokers: list[PoppingDouble]
) -> None:
    hold = held_batch(client, consumer)
    FinishedNotes(client.kv, "packing").tell("run-1", 3)
    hold.look()
    assert [broker.renewed for broker in brokers] == [3, 2]
    FinishedNotes(client.kv, "packing").tell("run-1", 4)
    hold.look()
    assert [broker.renewed for broker in brokers] == [3, 2]
    assert all(not out for broker in brokers for out in broker.out.values())
    hold.finish()


def test_between_two_renewals_nothing_is_hidden_but_a_finished_batch_is_noticed(
    client: Client, consumer: PopConsumer, brokers: list[PoppingDouble]
) -> None:
    hold = held_batch(client, consumer)
    hold.look(is_due=False)
    assert [broker.renewed for broker in brokers] == [0, 0]
    FinishedNotes(client.kv, "packing").tell("run-1", 4)
    hold.look(is_due=False)
    assert all(not out for broker in brokers for out in broker.out.values())
    hold.finish()


@pytest.mark.parametrize(
    ("invisible_ms", "looks", "period_s"),
    [(5_000, 1, 5 / 3), (60_000, 1, 20.0), (600_000, 10, 20.0), (43_200_000, 720, 20.0)],
)
def test_a_long_time_is_renewed_seldom_and_looked_at_often(
    client: Client, invisible_ms: int, looks: int, period_s: float
) -> None:
    hold = BatchHold(PLANNED, client.clock, invisible_ms)
    assert (hold._looks, pytest.approx(hold._period_s)) == (looks, period_s)


def test_letting_go_acknowledges_only_what_is_known_to_be_finished(
    cluster: ClusterDouble,
    client: Client,
    consumer: PopConsumer,
    brokers: list[PoppingDouble],
    caplog: pytest.LogCaptureFixture,
) -> None:
    held_batch(client, consumer).let_go()
    assert cluster.network.requests(ACK) == []
    known = held_batch(client, consumer)
    FinishedNotes(client.kv, "packing").tell("run-1", 4)
    known.let_go()
    assert len(cluster.network.requests(ACK)) == 2
    late = held_batch(client, consumer)
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_ERROR), ACK)
    late.let_go()
    assert "the last batch could not be acknowledged" in caplog.text


def test_name_servers_that_do_not_answer_mean_that_it_is_not_finished(
    cluster: ClusterDouble, client: Client, consumer: PopConsumer, brokers: list[PoppingDouble]
) -> None:
    hold = held_batch(client, consumer)
    FinishedNotes(client.kv, "packing").tell("run-1", 4)
    cluster.network.take_down("names-1:9876")
    hold.look()
    assert [broker.renewed for broker in brokers] == [3, 2]
    hold.let_go()
    assert cluster.network.requests(ACK) == []


def test_an_empty_batch_costs_nothing(cluster: ClusterDouble, client: Client) -> None:
    hold = BatchHold(PLANNED, client.clock, LONG_MS, lambda: True)
    before = len(cluster.network.seen)
    hold.let_go()
    hold.finish()
    assert len(cluster.network.seen) == before
