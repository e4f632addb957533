"""What a sink remembers: pinned queues, floors for read-backs, and when a batch is surely new."""

import logging
import re
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client, OnLayoutChange, SendSettings
from rmq_ordered.client.ledger import SinkLedger, WriteAttempt
from rmq_ordered.errors import BatchSuperseded, BrokerError, QueueLayoutChanged, TopicNotFound
from rmq_ordered.model import MessageQueue, QueueReceipt, SendStream
from rmq_ordered.protocol.codes import (
    FEATURE_IDEMPOTENT_SEND,
    FEATURE_STAMPED_REQUEST,
    RequestCode,
    ResponseCode,
)
from rmq_ordered.testing import BrokerDouble, ClusterDouble, Refuse

SETTINGS = SendSettings(send_timeout_ms=2_000)
SPACE = "rmq-ordered-sink@query-1"


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble()
    cluster.brokers[0].add_topic("invoices", 2)
    return cluster


@pytest.fixture
def ledger(client: Client) -> SinkLedger:
    return SinkLedger(client, "query-1")


def attempt(
    batch: int, run: str | None = "run-1", partition: int = 0, **changes: bool
) -> WriteAttempt:
    found = WriteAttempt(SendStream("query-1", batch, partition), run, is_first=True)
    return replace(found, **changes)


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    values = [str(number).encode() for number in range(first, first + count)]
    keys = [f"key-{number % 5}" for number in range(first, first + count)]
    return pa.record_batch({"key": keys, "value": pa.array(values, pa.binary())})


def write(
    ledger: SinkLedger, by: WriteAttempt, batch: pa.RecordBatch, settings: SendSettings = SETTINGS
) -> list[QueueReceipt]:
    with ledger.writer("invoices", settings, by) as writer:
        writer.write(batch)
        return list(writer.finish().values())


def bodies_of(broker: BrokerDouble, queue: MessageQueue) -> list[bytes]:
    return [message.body for message in broker.queues[queue].messages]


def stored(broker: BrokerDouble) -> list[int]:
    return sorted(int(body) for queue in broker.queues for body in bodies_of(broker, queue))


def test_a_batch_of_another_run_is_read_back_and_adds_only_what_is_missing(
    ledger: SinkLedger, broker: BrokerDouble
) -> None:
    write(ledger, attempt(0), rows(12))
    again = write(ledger, attempt(0, "run-2"), rows(20))
    assert stored(broker) == list(range(20))
    assert sum(receipt.duplicates for receipt in again) == 12


def test_a_task_that_is_tried_again_adds_only_what_is_missing(
    ledger: SinkLedger, broker: BrokerDouble
) -> None:
    write(ledger, attempt(0), rows(12))
    write(ledger, attempt(0, is_first=False), rows(20))
    assert stored(broker) == list(range(20))


def test_a_task_that_is_tried_again_waits_out_what_the_attempt_before_may_have_sent(
    ledger: SinkLedger, client: Client
) -> None:
    began_ms = client.clock.monotonic_ms()
    write(ledger, attempt(0), rows(12))
    write(ledger, attempt(0, "run-2"), rows(12))
    assert client.clock.monotonic_ms() == began_ms
    write(ledger, attempt(0, is_first=False), rows(20))
    assert client.clock.monotonic_ms() == began_ms + SETTINGS.wait_out_ms


def test_a_committed_batch_that_is_replayed_is_recognised_from_its_first_row(
    ledger: SinkLedger, broker: BrokerDouble
) -> None:
    receipts = write(ledger, attempt(0), rows(12))
    ledger.commit("run-1", 0, receipts)
    replayed = write(ledger, attempt(0, "run-2"), rows(12))
    ledger.commit("run-2", 0, replayed)
    receipts = write(ledger, attempt(1, "run-2"), rows(5, first=12))
    write(ledger, attempt(1, "run-3"), rows(8, first=12))
    assert stored(broker) == list(range(20))


def test_the_batch_after_the_one_that_this_run_committed_is_not_read_back(
    ledger: SinkLedger, broker: BrokerDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.commit("run-1", 0, write(ledger, attempt(0), rows(12)))
    read: list[object] = []
    monkeypatch.setattr(
        "rmq_ordered.client.sending.read_back", lambda *args: read.append(args) or None
    )
    receipts = write(ledger, attempt(1), rows(3, first=12))
    receipts += write(ledger, attempt(1, partition=1), rows(3, first=15))
    ledger.commit("run-1", 1, receipts)
    assert read == []
    write(ledger, attempt(2, "run-2"), rows(3, first=18))
    assert read != []


def test_floors_move_with_the_batches_also_in_queues_that_got_nothing(
    ledger: SinkLedger, broker: BrokerDouble, client: Client
) -> None:
    first, second = client.routes.writable("invoices")
    ledger.commit("run-1", 0, write(ledger, attempt(0), rows(10)))
    ends = {queue: len(bodies_of(broker, queue)) for queue in (first, second)}
    only = rows(10, first=10).filter(pa.array([n % 5 == 0 for n in range(10)]))
    receipts = write(ledger, attempt(1), only)
    ledger.commit("run-1", 1, receipts)
    (written,) = [receipt.queue for receipt in receipts]
    floors = client.broker.committed_offsets(ledger.group, [first, second])
    assert floors == ends
    assert len(bodies_of(broker, written)) > ends[written]


def test_floors_that_the_broker_lost_are_replaced_by_the_first_ones(
    ledger: SinkLedger, broker: BrokerDouble
) -> None:
    ledger.commit("run-1", 0, write(ledger, attempt(0), rows(12)))
    write(ledger, attempt(1), rows(6, first=12))
    broker.committed.clear()
    write(ledger, attempt(1, "run-2"), rows(8, first=12))
    assert stored(broker) == list(range(20))


def test_a_ledger_that_is_gone_costs_a_long_read_and_nothing_else(
    ledger: SinkLedger, cluster: ClusterDouble, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.commit("run-1", 0, write(ledger, attempt(0), rows(12)))
    write(ledger, attempt(1), rows(6, first=12))
    cluster.name_server.kv.clear()
    cluster.brokers[0].committed.clear()
    write(ledger, attempt(1, "run-2"), rows(8, first=12))
    assert stored(cluster.brokers[0]) == list(range(20))
    assert "read back from its beginning" in caplog.text


def test_a_batch_that_the_user_numbers_is_never_taken_for_a_first_attempt(
    ledger: SinkLedger, broker: BrokerDouble
) -> None:
    for _ in range(3):
        ledger.commit(None, 0, write(ledger, attempt(0, None), rows(12)))
    write(ledger, attempt(1, None), rows(8, first=12))
    assert stored(broker) == list(range(20))
    with pytest.raises(BatchSuperseded):
        write(ledger, attempt(0, None), rows(12))


def test_floors_that_cannot_be_moved_are_told_and_harm_nothing(
    ledger: SinkLedger, cluster: ClusterDouble, caplog: pytest.LogCaptureFixture
) -> None:
    receipts = write(ledger, attempt(0), rows(12))
    cluster.network.take_down("broker-a:10911")
    ledger.commit("run-1", 0, receipts)
    cluster.network.bring_up("broker-a:10911")
    assert "reads back more than it had to" in caplog.text
    write(ledger, attempt(1), rows(8, first=12))
    assert stored(cluster.brokers[0]) == list(range(20))


@proves("queues-pinned")
def test_queues_are_pinned_when_a_sink_begins_and_new_ones_are_not_used(
    ledger: SinkLedger, broker: BrokerDouble, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    write(ledger, attempt(0), rows(5))
    broker.add_topic("invoices", 4)
    client.routes.forget("invoices")
    used = {receipt.queue.queue_id for receipt in write(ledger, attempt(1), rows(50, first=5))}
    assert used == {0, 1}
    assert "new queues are not used" in caplog.text


@proves("queues-pinned")
def test_a_queue_that_is_gone_fails_after_the_patience_and_no_key_moves(
    ledger: SinkLedger, cluster: ClusterDouble, client: Client
) -> None:
    write(ledger, attempt(0), rows(5))
    cluster.brokers[0].topics["invoices"] = 1
    client.routes.forget("invoices")
    before = cluster.clock.monotonic_ms()
    with pytest.raises(QueueLayoutChanged, match="invoices@broker-a#1"):
        write(ledger, attempt(1), rows(5, first=5))
    assert cluster.clock.monotonic_ms() - before >= SETTINGS.send_timeout_ms - 400


def test_keys_move_when_that_was_asked_for_and_the_new_queues_are_pinned(
    ledger: SinkLedger, cluster: ClusterDouble, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    write(ledger, attempt(0), rows(5))
    cluster.brokers[0].topics["invoices"] = 1
    client.routes.forget("invoices")
    moving = replace(SETTINGS, on_layout_change=OnLayoutChange.REHASH)
    write(ledger, attempt(1), rows(5, first=5), moving)
    assert "keys move" in caplog.text
    assert cluster.name_server.kv[SPACE]["queues@invoices@1"] == '[["broker-a", 0]]'


def test_new_queues_are_used_from_the_next_batch_on_when_that_was_asked_for(
    ledger: SinkLedger, broker: BrokerDouble, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    moving = replace(SETTINGS, on_layout_change=OnLayoutChange.REHASH)
    ledger.commit("run-1", 0, write(ledger, attempt(0), rows(5), moving))
    broker.add_topic("invoices", 4)
    client.routes.forget("invoices")
    receipts = write(ledger, attempt(1), rows(50, first=5), moving)
    assert {receipt.queue.queue_id for receipt in receipts} == {0, 1}
    assert "keys move with the next batch" in caplog.text
    # A replay of the batch goes where the batch went, and finds it.
    replayed = write(ledger, attempt(1, "run-2"), rows(50, first=5), moving)
    assert sum(receipt.duplicates for receipt in replayed) == 50
    ledger.commit("run-2", 1, replayed)
    receipts = write(ledger, attempt(2, "run-2"), rows(50, first=55), moving)
    assert len({receipt.queue.queue_id for receipt in receipts}) > 2
    again = write(ledger, attempt(2, "run-3"), rows(50, first=55), moving)
    assert sum(receipt.duplicates for receipt in again) == 50
    assert stored(broker) == list(range(105))


def test_a_topic_that_never_was_there_is_told_at_once(
    client: Client, cluster: ClusterDouble
) -> None:
    before = cluster.clock.monotonic_ms()
    with pytest.raises(TopicNotFound):
        SinkLedger(client, "query-1").writer("nowhere", SETTINGS, attempt(0))
    assert cluster.clock.monotonic_ms() == before


def test_a_broker_that_recognises_repeats_needs_no_floors() -> None:
    cluster = ClusterDouble(features=frozenset({FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST}))
    cluster.brokers[0].add_topic("invoices", 2)
    with cluster.client() as client:
        ledger = SinkLedger(client, "query-1")
        assert not ledger.needs_floors("invoices")
        write(ledger, attempt(0), rows(12))
        write(ledger, attempt(0, "run-2"), rows(20))
    assert stored(cluster.brokers[0]) == list(range(20))
    assert set(cluster.name_server.kv[SPACE]) == {"queues@invoices"}


def test_a_write_that_is_never_repeated_leaves_nothing_behind(
    ledger: SinkLedger, cluster: ClusterDouble
) -> None:
    write(ledger, attempt(0), rows(5))
    assert cluster.name_server.kv[SPACE]
    ledger.forget()
    assert cluster.name_server.kv[SPACE] == {}


def test_without_idempotence_a_repeat_is_written_again(
    ledger: SinkLedger, broker: BrokerDouble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    plain = replace(SETTINGS, idempotent=False)
    write(ledger, attempt(0), rows(5), plain)
    write(ledger, attempt(0), rows(5), plain)
    assert stored(broker) == sorted([*range(5), *range(5)])


def test_queues_of_other_topics_have_floors_of_their_own(
    ledger: SinkLedger, broker: BrokerDouble, client: Client
) -> None:
    broker.add_topic("refunds", 1)
    ledger.commit("run-1", 0, write(ledger, attempt(0), rows(5)))
    with ledger.writer("refunds", SETTINGS, attempt(1)) as writer:
        writer.write(rows(3))
        writer.finish()
    with ledger.writer("refunds", SETTINGS, attempt(1, "run-2")) as writer:
        writer.write(rows(4))
        writer.finish()
    assert bodies_of(broker, MessageQueue("refunds", "broker-a", 0)) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("code", "remark", "times"),
    [
        (ResponseCode.NO_PERMISSION, "the broker sending message is forbidden", 1),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full", 1_000),
        (ResponseCode.MESSAGE_ILLEGAL, "the message is illegal", 1),
    ],
)
@pytest.mark.parametrize(
    "features", [frozenset(), frozenset({FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST})]
)
def test_a_task_that_was_refused_half_way_names_a_key_and_adds_only_the_rest_when_tried_again(
    features: frozenset[str], code: int, remark: str, times: int
) -> None:
    cluster = ClusterDouble(features=features)
    broker = cluster.brokers[0]
    broker.add_topic("invoices", 2)
    small = replace(SETTINGS, batch_rows=3)
    with cluster.client() as client:
        ledger = SinkLedger(client, "query-1")
        cluster.network.arm(
            Refuse(code, remark), RequestCode.SEND_BATCH_MESSAGE, times=times, after=2
        )
        with pytest.raises(BrokerError) as refused:
            write(ledger, attempt(0), rows(20), small)
        assert re.search(rf"the first with key 'key-[0-4]'.*{code}: {remark}", str(refused.value))
        assert 0 < len(stored(broker)) < 20
    cluster.network.disarm()
    with cluster.client() as client:
        write(SinkLedger(client, "query-1"), attempt(0, is_first=False), rows(20), small)
    assert stored(broker) == list(range(20))
