"""A member of a group: joining, sharing, hearing, failing, leaving."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.waiting import wait_until

from rmq_ordered.client import (
    Client,
    ConsumeResult,
    ConsumerSettings,
    FilterKind,
    MessageBatch,
    OrderedConsumer,
    StartPoint,
    Subscription,
)
from rmq_ordered.errors import BrokerError, OffsetOutOfRange, OptionError, TopicNotFound
from rmq_ordered.net.system import SystemClock
from rmq_ordered.protocol import fastjson
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import ClusterDouble, HangUp, Refuse

SOON_S = 10
QUICK = ConsumerSettings(threads=2, commit_ms=10, heartbeat_ms=50, rebalance_ms=50, suspend_ms=1)


class Rig:
    """A topic of four queues with three messages each, and everything that was handled."""

    def __init__(self) -> None:
        self.cluster = ClusterDouble()
        self.broker = self.cluster.brokers[0]
        self.queues = self.broker.add_topic("orders", 4)
        for queue in self.queues:
            self.broker.fill(queue, 3)
        self.client = self.new_client()
        self.handled: list[tuple[int, int]] = []
        self._closing: list[Callable[[], None]] = []

    def new_client(self) -> Client:
        return Client(
            self.cluster.name_servers, clock=SystemClock(), connect=self.cluster.network.connect
        )

    def consumer(
        self, settings: ConsumerSettings = QUICK, client: Client | None = None
    ) -> OrderedConsumer:
        consumer = OrderedConsumer(
            client or self.client, "billing", ["orders"], self.handle, settings
        )
        self._closing.append(consumer.close)
        return consumer

    def handle(self, batch: MessageBatch) -> ConsumeResult:
        self.handled += [(batch.queue.queue_id, message.queue_offset) for message in batch]
        return ConsumeResult.SUCCESS

    def committed(self) -> list[int | None]:
        return [self.broker.committed.get(("billing", queue)) for queue in self.queues]

    def owners(self) -> set[str | None]:
        now_ms = self.cluster.clock.monotonic_ms()
        return {self.broker.locks.owner("billing", queue, now_ms) for queue in self.queues}

    def close(self) -> None:
        for close in self._closing:
            close()
        self.client.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def owns(consumer: OrderedConsumer, count: int) -> None:
    wait_until(lambda: len(consumer.queues) == count, f"it owns {count} queues", SOON_S)


def test_a_lone_member_handles_everything_commits_and_leaves_nothing_behind(rig: Rig) -> None:
    with rig.consumer() as consumer:
        wait_until(lambda: len(rig.handled) == 12, "all is handled", SOON_S)
        assert consumer.queues == set(rig.queues)
        assert rig.broker.members["billing"] == {consumer.client_id}
        assert consumer.wait(0) is False
    for queue in rig.queues:
        assert [o for q, o in rig.handled if q == queue.queue_id] == [0, 1, 2]
    assert rig.committed() == [3] * 4
    assert rig.owners() == {None}
    assert rig.broker.members["billing"] == set()
    assert consumer.wait(0) is True
    consumer.close()


def test_two_members_share_and_the_rest_goes_to_whoever_stays(rig: Rig) -> None:
    with rig.new_client() as other_client, rig.consumer() as one:
        owns(one, 4)
        with rig.consumer(client=other_client) as other:
            owns(other, 2)
            owns(one, 2)
            assert one.queues | other.queues == set(rig.queues)
        owns(one, 4)


def test_a_queue_that_somebody_still_holds_is_asked_for_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq_ordered.client.consumer._RETRY_MS", 10)
    now_ms = rig.cluster.clock.monotonic_ms()
    rig.broker.locks.lock("billing", "a dead member", rig.queues[1], now_ms)
    with rig.consumer() as consumer:
        owns(consumer, 3)
        rig.broker.locks.unlock("billing", "a dead member", rig.queues[1])
        owns(consumer, 4)


def test_the_group_s_offset_is_where_a_queue_begins(rig: Rig) -> None:
    for queue in rig.queues:
        rig.broker.committed["billing", queue] = 2
    with rig.consumer():
        wait_until(lambda: len(rig.handled) == 4, "the rest is handled", SOON_S)
    assert sorted(rig.handled) == [(queue, 2) for queue in range(4)]


def test_without_an_offset_the_start_point_decides(rig: Rig) -> None:
    settings = ConsumerSettings(start=StartPoint.LAST, rebalance_ms=50)
    with rig.consumer(settings) as consumer:
        owns(consumer, 4)
        rig.broker.fill(rig.queues[0], 1)
        wait_until(lambda: rig.handled, "the new one is handled", SOON_S)
    assert rig.handled == [(0, 3)]


def test_a_time_to_start_at_is_looked_up(rig: Rig) -> None:
    rig.cluster.clock.advance_ms(1_000)
    later_ms = rig.cluster.clock.wall_ms()
    rig.broker.fill(rig.queues[2], 1)
    settings = ConsumerSettings(start=StartPoint.TIMESTAMP, start_timestamp_ms=later_ms)
    with rig.consumer(settings):
        wait_until(lambda: rig.handled, "the later one is handled", SOON_S)
    assert rig.handled == [(2, 3)]


def test_a_member_that_the_broker_forgot_registers_again_and_keeps_its_queues(rig: Rig) -> None:
    with rig.consumer() as consumer:
        owns(consumer, 4)
        rig.broker.members["billing"].clear()
        wait_until(lambda: rig.broker.members["billing"], "it is a member again", SOON_S)
        assert consumer.queues == set(rig.queues)


def test_a_connection_that_ends_costs_nothing(rig: Rig) -> None:
    with rig.consumer() as consumer:
        owns(consumer, 4)
        rig.cluster.network.take_down(rig.broker.address)
        rig.cluster.network.bring_up(rig.broker.address)
        rig.broker.fill(rig.queues[0], 1)
        wait_until(lambda: len(rig.handled) == 13, "what came later is handled", SOON_S)


def test_what_brokers_say_wakes_the_member(rig: Rig) -> None:
    lazy = ConsumerSettings(rebalance_ms=600_000, heartbeat_ms=600_000)
    with rig.consumer(lazy) as consumer:
        owns(consumer, 4)
        rig.broker.members["billing"].add("~ a later member")
        fields = {"consumerGroup": "billing"}
        notice = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext_fields=fields)
        rig.client.requests("broker", notice)
        owns(consumer, 2)
        question = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, ext_fields=fields)

        def info() -> Any:
            answer = rig.client.requests("broker", question)
            assert answer is not None
            return fastjson.loads(answer.body)

        assert info()["properties"]["PROP_CONSUMEORDERLY"] == "true"
        # Queues that are being given back are still in the table.
        wait_until(lambda: len(info()["mqTable"]) == 2, "two queues are left", SOON_S)


def test_an_offset_reset_is_obeyed(rig: Rig) -> None:
    with rig.consumer() as consumer:
        wait_until(lambda: rig.committed() == [3] * 4, "all is committed", SOON_S)
        consumer.offsets_reset({rig.queues[1]: 1})
        wait_until(lambda: len(rig.handled) == 14, "two are handled again", SOON_S)
    assert rig.handled[12:] == [(1, 1), (1, 2)]


def test_lost_data_ends_the_consumer_with_its_error(rig: Rig) -> None:
    rig.broker.committed["billing", rig.queues[0]] = 99
    with rig.consumer() as consumer, pytest.raises(OffsetOutOfRange, match="orders@broker-a#0"):
        consumer.wait(SOON_S)
    assert rig.owners() == {None}


def test_a_listener_that_hangs_does_not_keep_the_consumer_from_closing(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    may_end, runs = threading.Event(), threading.Event()

    def hang(batch: MessageBatch) -> ConsumeResult:
        runs.set()
        may_end.wait(SOON_S)
        return ConsumeResult.SUCCESS

    consumer = OrderedConsumer(rig.client, "billing", "orders", hang, QUICK).start()
    assert runs.wait(SOON_S)
    consumer.close(timeout_s=0.01)
    assert consumer.client_id in rig.owners(), "nobody else may come while it runs"
    assert "still works on" in caplog.text
    may_end.set()


def test_a_start_that_fails_leaves_the_group_free(rig: Rig) -> None:
    rig.cluster.network.arm(Refuse(ResponseCode.NO_PERMISSION, "no"), RequestCode.HEART_BEAT)
    with pytest.raises(BrokerError, match="no"):
        rig.consumer().start()
    with rig.consumer() as consumer:
        owns(consumer, 4)


def test_a_leave_that_fails_is_a_warning(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    with rig.consumer() as consumer:
        owns(consumer, 4)
        rig.cluster.network.arm(HangUp(), RequestCode.UNREGISTER_CLIENT)
    assert "notices only when the connection ends" in caplog.text


def test_what_cannot_be_consumed_is_refused_at_the_start(rig: Rig) -> None:
    def new(*subscriptions: str | Subscription) -> OrderedConsumer:
        return OrderedConsumer(rig.client, "billing", subscriptions, rig.handle, QUICK)

    with pytest.raises(OptionError, match="at least one topic"):
        new()
    with pytest.raises(TopicNotFound, match="nowhere"):
        new("nowhere").start()
    rig.cluster.network.arm(
        Refuse(ResponseCode.SYSTEM_ERROR, "no"), RequestCode.CHECK_CLIENT_CONFIG
    )
    with pytest.raises(BrokerError, match="the filter 'a > 1' of topic orders"):
        new(Subscription("orders", "a > 1", FilterKind.SQL92)).start()
    with rig.consumer(), pytest.raises(OptionError, match="no other consumer of this Client"):
        new("orders").start()
