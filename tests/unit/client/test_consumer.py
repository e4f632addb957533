"""A member of a group: joining, sharing, hearing, failing, leaving."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.promises import proves
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
from rmq_ordered.errors import (
    BrokerError,
    LocalProtocolError,
    OffsetOutOfRange,
    OptionError,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.model import MessageQueue
from rmq_ordered.net.system import SystemClock
from rmq_ordered.protocol import fastjson
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import BrokerDouble, ClusterDouble, HangUp, Refuse

SOON_S = 10
QUICK = ConsumerSettings(threads=2, commit_ms=10, heartbeat_ms=50, rebalance_ms=50, suspend_ms=1)


class Rig:
    """A topic of four queues with three messages each, and everything that was handled."""

    def __init__(self, brokers: int = 1) -> None:
        self.cluster = ClusterDouble(brokers=brokers)
        self.broker = self.cluster.brokers[0]
        self.queues: tuple[MessageQueue, ...] = ()
        for broker in self.cluster.brokers:
            queues = broker.add_topic("orders", 4 // brokers)
            self.queues += queues
            for queue in queues:
                broker.fill(queue, 3)
        self.client = self.new_client()
        self.handled: list[tuple[int, int]] = []
        self._closing: list[Callable[[], None]] = []

    def new_client(self, request_timeout_ms: int = 3_000) -> Client:
        return Client(
            self.cluster.name_servers,
            request_timeout_ms=request_timeout_ms,
            clock=SystemClock(),
            connect=self.cluster.network.connect,
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
        return [
            broker.committed.get(("billing", queue))
            for broker in self.cluster.brokers
            for queue in self.queues
            if queue.broker_name == broker.name
        ]

    def owners(self) -> set[str | None]:
        return {owner for broker in self.cluster.brokers for owner in self.owners_at(broker)}

    def owners_at(self, broker: BrokerDouble) -> set[str | None]:
        now_ms = self.cluster.clock.monotonic_ms()
        mine = [queue for queue in self.queues if queue.broker_name == broker.name]
        return {broker.locks.owner("billing", queue, now_ms) for queue in mine}

    def close(self) -> None:
        for close in self._closing:
            close()
        self.client.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def pair() -> Iterator[Rig]:
    """The same with two queues at each of two brokers."""
    rig = Rig(brokers=2)
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


@proves("leased-is-worked-on")
def test_a_queue_whose_offset_cannot_be_read_costs_no_other_and_is_tried_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq_ordered.client.consumer._RETRY_MS", 10)
    refusal = Refuse(ResponseCode.SYSTEM_ERROR, "starting")
    rig.cluster.network.arm(refusal, RequestCode.QUERY_CONSUMER_OFFSET, times=3)
    with rig.consumer() as consumer:
        owns(consumer, 4)
        wait_until(lambda: len(rig.handled) == 12, "all is handled", SOON_S)


def test_a_queue_that_cannot_be_begun_is_left_to_others(rig: Rig) -> None:
    serve = rig.broker.serve

    def refuse_one(request: RemotingCommand) -> RemotingCommand:
        is_one = request.code == RequestCode.QUERY_CONSUMER_OFFSET and request.ext("queueId") == "2"
        return RemotingCommand(ResponseCode.SYSTEM_ERROR) if is_one else serve(request)

    rig.cluster.network.listen(rig.broker.address, refuse_one)
    with rig.consumer() as consumer:
        owns(consumer, 3)
        wait_until(lambda: None in rig.owners(), "it is given back", SOON_S)
        wait_until(lambda: len(rig.handled) == 9, "the others are handled", SOON_S)


def test_a_broker_that_is_away_keeps_nobody_from_sharing_the_queues_of_the_others(
    pair: Rig,
) -> None:
    with pair.new_client() as other_client:
        stays = pair.consumer()
        leaves = pair.consumer(client=other_client)
        stays.start()
        leaves.start()
        owns(stays, 2)
        owns(leaves, 2)
        here, away = pair.cluster.brokers
        if not any(queue.broker_name == here.name for queue in leaves.queues):
            here, away = away, here
        assert {queue.broker_name for queue in leaves.queues} == {here.name}
        # It stays in the route, as it does at a name server for some time.
        pair.cluster.network.take_down(away.address)
        leaves.close(timeout_s=5)
        assert leaves.client_id not in here.members["billing"]

        def is_all_taken() -> bool:
            return {queue for queue in pair.queues if queue.broker_name == here.name} <= set(
                stays.queues
            )

        wait_until(is_all_taken, "what became free at the other broker is taken", 3 * SOON_S)
        assert pair.owners_at(here) == {stays.client_id}


def test_a_member_may_join_while_a_broker_is_away_but_not_while_all_are(pair: Rig) -> None:
    here, away = pair.cluster.brokers
    pair.cluster.network.take_down(away.address)
    with pair.consumer() as consumer:
        owns(consumer, 2)
        wait_until(lambda: len(pair.handled) == 6, "what is there is handled", SOON_S)
    pair.cluster.network.take_down(here.address)
    with pytest.raises(TransportError, match="a heartbeat of group billing"):
        pair.consumer().start()
    pair.cluster.network.bring_up(here.address)
    wanted = Subscription("orders", "a > 1", FilterKind.SQL92)
    with OrderedConsumer(pair.client, "billing", [wanted], pair.handle, QUICK) as filtering:
        owns(filtering, 2)


@proves("close-in-time")
def test_a_close_keeps_its_deadline_when_nobody_answers(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    # Longer than any test may take: a single answer that is waited for would be noticed.
    client = rig.new_client(request_timeout_ms=600_000)
    lazy = ConsumerSettings(threads=2, commit_ms=600_000, rebalance_ms=50, heartbeat_ms=50)
    consumer = rig.consumer(lazy, client).start()
    wait_until(lambda: len(rig.handled) == 12, "all is handled", SOON_S)
    for address in (rig.broker.address, *rig.cluster.name_servers):
        rig.cluster.network.freeze(address)
    closing = threading.Thread(target=consumer.close, args=(0.5,))
    closing.start()
    closing.join(3 * SOON_S)
    assert not closing.is_alive()
    for queue in rig.queues:
        assert f"{queue} stays locked until its lease ends" in caplog.text
        assert "offset 3 could not be committed" in caplog.text
    assert rig.owners() == {consumer.client_id}
    client.close()


@proves("dead-broker-is-local")
def test_a_broker_that_does_not_answer_keeps_no_other_from_being_left_well(pair: Rig) -> None:
    client = pair.new_client(request_timeout_ms=600_000)
    lazy = ConsumerSettings(threads=2, commit_ms=600_000, rebalance_ms=50, heartbeat_ms=50)
    consumer = pair.consumer(lazy, client).start()
    wait_until(lambda: len(pair.handled) == 12, "all is handled", SOON_S)
    here, frozen = pair.cluster.brokers
    pair.cluster.network.freeze(frozen.address)
    consumer.close(timeout_s=2)
    assert [here.committed.get(("billing", queue)) for queue in pair.queues[:2]] == [3, 3]
    assert pair.owners_at(here) == {None}
    assert here.members["billing"] == set()
    assert pair.owners_at(frozen) == {consumer.client_id}
    client.close()


def test_a_commit_that_fails_while_closing_is_tried_again(rig: Rig) -> None:
    lazy = ConsumerSettings(threads=2, commit_ms=600_000, rebalance_ms=50)
    with rig.consumer(lazy):
        wait_until(lambda: len(rig.handled) == 12, "all is handled", SOON_S)
        busy = Refuse(ResponseCode.SYSTEM_BUSY, "busy")
        rig.cluster.network.arm(busy, RequestCode.UPDATE_CONSUMER_OFFSET, times=4)
    assert rig.committed() == [3] * 4
    assert rig.owners() == {None}


def test_an_offset_reset_is_obeyed_although_a_commit_fails(rig: Rig) -> None:
    with rig.consumer() as consumer:
        wait_until(lambda: rig.committed() == [3] * 4, "all is committed", SOON_S)
        busy = Refuse(ResponseCode.SYSTEM_BUSY, "busy")
        rig.cluster.network.arm(busy, RequestCode.UPDATE_CONSUMER_OFFSET, times=3)
        consumer.offsets_reset({rig.queues[1]: 1})
        wait_until(lambda: len(rig.handled) == 14, "two are handled again", SOON_S)
    assert rig.handled[12:] == [(1, 1), (1, 2)]


@proves("listener-exit-ends-consumer")
def test_a_listener_that_ends_the_program_ends_the_consumer_and_its_batch_is_not_done(
    rig: Rig,
) -> None:
    def leave(batch: MessageBatch) -> ConsumeResult:
        sys.exit("no more")

    consumer = OrderedConsumer(rig.client, "billing", "orders", leave, QUICK).start()
    with pytest.raises(SystemExit, match="no more"):
        consumer.wait(SOON_S)
    wait_until(lambda: rig.owners() == {None}, "others may have its queues", SOON_S)
    wait_until(lambda: not rig.broker.members["billing"], "it has left the group", SOON_S)
    assert rig.committed() == [None] * 4
    consumer.close()


def test_a_mistake_in_the_rule_that_shares_queues_out_ends_the_consumer(rig: Rig) -> None:
    def allocate(*_: object) -> tuple[MessageQueue, ...]:
        raise ZeroDivisionError("a mistake of the user's")

    settings = ConsumerSettings(allocate=allocate)
    with rig.consumer(settings) as consumer, pytest.raises(ZeroDivisionError):
        consumer.wait(SOON_S)


def test_a_consumer_that_was_closed_is_not_started_again(rig: Rig) -> None:
    with rig.consumer() as consumer:
        owns(consumer, 4)
    with pytest.raises(LocalProtocolError, match=r"billing was closed.*make a new one"):
        consumer.start()
    assert rig.broker.members["billing"] == set()
    with rig.consumer() as another:
        owns(another, 4)
