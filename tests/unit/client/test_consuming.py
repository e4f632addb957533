"""The queues of a consumer at work: leases, dead letters, moved offsets, failed pulls."""

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, ConsumeResult, ConsumerSettings, LeaseKeeper, MessageBatch
from rmq_ordered.client.consuming import QueueWork
from rmq_ordered.errors import OffsetOutOfRange
from rmq_ordered.net.system import SystemClock
from rmq_ordered.net.transport import Transport
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH, RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import Subscription
from rmq_ordered.testing import ClusterDouble, HangUp, Refuse, SpoilBody

PULL = RequestCode.PULL_MESSAGE
SOON_S = 10


class Rig:
    """One queue with five messages, its lease, and everything that the listener was given."""

    def __init__(self, brokers: int = 1) -> None:
        self.cluster = ClusterDouble(brokers=brokers, features=frozenset({FEATURE_LEASE_EPOCH}))
        self.broker = self.cluster.brokers[0]
        (self.queue,) = self.broker.add_topic("orders", 1)
        self.broker.fill(self.queue, 5)
        # Real time for the client's threads; the broker's stands still, so that no lock expires.
        self.client = Client(self.cluster.name_servers, clock=SystemClock(), connect=self.connect)
        self.before_connect: Callable[[str], None] = lambda address: None
        self.keeper = LeaseKeeper(self.client.broker, self.client.clock, "billing", "me#1")
        self.keeper.acquire([self.queue], 0)
        self.handled: list[tuple[int, int]] = []
        self.failures: list[BaseException] = []
        self.answer: Callable[[MessageBatch], ConsumeResult] = lambda batch: ConsumeResult.SUCCESS
        self.works: list[QueueWork] = []

    def connect(self, address: str, /) -> Transport:
        self.before_connect(address)
        return self.cluster.network.connect(address)

    def begin(self, start: int = 0, **settings: object) -> QueueWork:
        chosen = ConsumerSettings(threads=2, suspend_ms=1, **settings)  # type: ignore[arg-type]
        work = QueueWork(
            self.client,
            "billing",
            self.keeper,
            self.listen,
            chosen,
            lambda: None,
            self.failures.append,
        )
        work.start()
        self.works.append(work)
        work.add(self.queue, Subscription("orders"), start)
        return work

    def listen(self, batch: MessageBatch) -> ConsumeResult:
        self.handled += [(message.queue_offset, batch.attempt) for message in batch]
        return self.answer(batch)

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.handled) >= count, f"{count} messages were handled", SOON_S)

    def committed(self) -> int | None:
        return self.broker.committed.get(("billing", self.queue))

    def finish(self, work: QueueWork) -> None:
        wait_until(work.finish, "the queue has stopped and was given back", SOON_S)

    def close(self) -> None:
        for work in self.works:
            work.close()
        self.keeper.release()
        self.client.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def test_messages_are_handled_in_order_and_committed_before_the_queue_is_unlocked(rig: Rig) -> None:
    work = rig.begin()
    rig.wait_for(5)
    assert rig.handled == [(offset, 0) for offset in range(5)]
    work.commit()
    wait_until(lambda: work.commit() or rig.committed() == 5, "all is committed", SOON_S)
    assert work.active() == {rig.queue}
    work.stop([rig.queue])
    assert work.active() == set()
    rig.finish(work)
    assert not rig.keeper.is_held(rig.queue)
    codes = [seen.command.code for seen in rig.cluster.network.seen]
    assert codes.index(RequestCode.UNLOCK_BATCH_MQ) > codes.index(
        RequestCode.UPDATE_CONSUMER_OFFSET
    )


def test_batches_are_as_large_as_allowed(rig: Rig) -> None:
    sizes: list[int] = []
    rig.answer = lambda batch: (sizes.append(len(batch)), ConsumeResult.SUCCESS)[1]
    rig.begin(batch_size=3)
    rig.wait_for(5)
    assert sizes == [3, 2]


def test_a_suspended_batch_and_one_whose_listener_failed_come_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(batch: MessageBatch) -> ConsumeResult:
        if batch.messages[0].queue_offset == 1 and batch.attempt == 0:
            return ConsumeResult.SUSPEND
        if batch.messages[0].queue_offset == 3 and batch.attempt == 0:
            raise RuntimeError("a mistake of the user's")
        return ConsumeResult.SUCCESS

    rig.answer = answer
    rig.begin()
    rig.wait_for(7)
    assert rig.handled == [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (3, 1), (4, 0)]
    assert "the listener failed" in caplog.text


def test_after_the_last_retry_a_message_is_a_dead_letter_and_the_queue_goes_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    letters: list[RemotingCommand] = []

    def serve(request: RemotingCommand) -> RemotingCommand:
        if request.code != RequestCode.CONSUMER_SEND_MSG_BACK:
            return rig.broker.serve(request)
        letters.append(request)
        is_first = len(letters) == 1
        return RemotingCommand(ResponseCode.SYSTEM_ERROR if is_first else ResponseCode.SUCCESS)

    rig.cluster.network.listen(rig.broker.address, serve)
    rig.answer = lambda batch: (
        ConsumeResult.SUSPEND if batch.messages[0].queue_offset == 2 else ConsumeResult.SUCCESS
    )
    rig.begin(max_reconsume_times=1)
    rig.wait_for(7)
    assert rig.handled == [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (3, 0), (4, 0)]
    assert [letter.ext("delayLevel") for letter in letters] == ["-1", "-1"]
    assert "no dead letter could be written" in caplog.text
    assert "now a dead letter" in caplog.text


@proves("unlock-after-commit")
def test_a_queue_is_not_given_back_while_its_listener_runs(rig: Rig) -> None:
    may_end = threading.Event()
    rig.answer = lambda batch: (may_end.wait(SOON_S), ConsumeResult.SUCCESS)[1]
    work = rig.begin()
    rig.wait_for(1)
    work.stop([rig.queue])
    assert work.finish() == []
    assert rig.keeper.is_held(rig.queue)
    may_end.set()
    rig.finish(work)
    assert rig.committed() == 1
    assert rig.handled == [(0, 0)]


def test_a_listener_that_never_ends_keeps_its_queue_locked(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = threading.Event()
    rig.answer = lambda batch: (may_end.wait(SOON_S), ConsumeResult.SUCCESS)[1]
    work = rig.begin()
    rig.wait_for(1)
    work.close()
    rig.works.clear()
    rig.keeper.release()
    now_ms = rig.cluster.clock.monotonic_ms()
    assert rig.broker.locks.owner("billing", rig.queue, now_ms) == "me#1"
    assert "the listener still works on it" in caplog.text
    may_end.set()


def test_a_lost_lease_ends_the_queue_without_a_commit(rig: Rig) -> None:
    work = rig.begin()
    rig.wait_for(5)
    rig.broker.locks.unlock("billing", "me#1", rig.queue)
    rig.broker.locks.lock("billing", "thief", rig.queue, rig.cluster.clock.monotonic_ms())
    rig.broker.fill(rig.queue, 1)
    wait_until(lambda: not work.active(), "the loss was noticed", SOON_S)
    rig.finish(work)
    assert rig.committed() is None
    assert len(rig.handled) == 5


def test_a_commit_that_finds_the_lease_lost_ends_the_queue(rig: Rig) -> None:
    work = rig.begin()
    rig.wait_for(5)
    refusal = Refuse(ResponseCode.STALE_LEASE, "stale")
    rig.cluster.network.arm(refusal, RequestCode.UPDATE_CONSUMER_OFFSET)
    wait_until(lambda: work.commit() or not work.active(), "the loss was noticed", SOON_S)


def test_a_commit_that_fails_is_made_up_for(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    work = rig.begin()
    rig.wait_for(5)
    rig.cluster.network.arm(HangUp(), RequestCode.UPDATE_CONSUMER_OFFSET)
    wait_until(lambda: work.commit() or rig.committed() == 5, "it is committed", SOON_S)
    assert "could not commit" in caplog.text


@pytest.mark.parametrize(
    "fault", [HangUp(), Refuse(ResponseCode.SYSTEM_ERROR, "no"), Refuse(ResponseCode.GO_AWAY, "")]
)
def test_a_pull_that_fails_is_made_up_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, fault: HangUp | Refuse
) -> None:
    monkeypatch.setattr("rmq_ordered.client.consuming._RETRY_MS", 1)
    rig.cluster.network.arm(fault, PULL)
    rig.begin()
    rig.wait_for(5)
    assert rig.handled == [(offset, 0) for offset in range(5)]


def test_an_offset_that_the_broker_lost_is_an_error(rig: Rig) -> None:
    work = rig.begin(start=9)
    wait_until(lambda: rig.failures, "it fails", SOON_S)
    assert isinstance(rig.failures[0], OffsetOutOfRange)
    rig.finish(work)
    assert rig.committed() is None


def test_an_offset_that_the_broker_lost_is_passed_over_if_so_wished(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    work = rig.begin(start=9, fail_on_data_loss=False)
    wait_until(lambda: not work.active(), "it is noticed", SOON_S)
    rig.finish(work)
    assert rig.committed() == 5
    assert "messages are lost" in caplog.text


def test_a_queue_that_an_operator_moves_goes_on_from_there(rig: Rig) -> None:
    work = rig.begin()
    rig.wait_for(5)
    work.move({rig.queue: 2})
    rig.finish(work)
    assert rig.committed() == 2


def test_a_thread_that_meets_a_mistake_does_not_end_unnoticed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def mistaken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("rmq_ordered.client.consuming.read_records", mistaken)
    rig.begin()
    wait_until(lambda: rig.failures, "it is told", SOON_S)
    assert isinstance(rig.failures[0], ZeroDivisionError)
    assert "a thread of the consumer failed" in caplog.text


def test_a_queue_that_comes_when_everything_ends_is_not_begun_with(rig: Rig) -> None:
    work = rig.begin()
    work.stop_all()
    rig.finish(work)
    assert work.add(rig.queue, Subscription("orders"), 0) is False
    assert work.queues() == set()


@proves("absent-broker-delays-no-pull")
def test_connecting_to_a_broker_that_is_away_delays_no_pull_of_another() -> None:
    rig = Rig(brokers=2)
    away = rig.cluster.brokers[1]
    (queue,) = away.add_topic("orders", 1)
    rig.client.routes.forget("orders")
    # Set at the end: whatever is waited for must come while the other broker is connected to.
    is_tried, is_back = threading.Event(), threading.Event()

    def wait_for_the_network(address: str) -> None:
        if address == away.address:
            is_tried.set()
            is_back.wait(6 * SOON_S)

    try:
        rig.keeper.acquire([queue], 0)
        rig.before_connect = wait_for_the_network
        rig.cluster.network.take_down(away.address)
        work = rig.begin()
        work.add(queue, Subscription("orders"), 0)
        assert is_tried.wait(SOON_S)
        rig.wait_for(5)
        rig.broker.fill(rig.queue, 20)
        rig.wait_for(25)
    finally:
        is_back.set()
        rig.cluster.network.bring_up(away.address)
        rig.close()


def test_what_is_described_is_what_mqadmin_prints(rig: Rig) -> None:
    work = rig.begin()
    rig.wait_for(5)
    wait_until(
        lambda: work.describe()[rig.queue]["commitOffset"] == 5, "the last batch has ended", SOON_S
    )
    state = work.describe()[rig.queue]
    assert (state["cachedMsgCount"], state["locked"], state["droped"]) == (0, True, False)
    assert state["lastPullTimestamp"] > 0


def test_a_pull_that_cannot_be_read_names_its_broker_and_is_tried_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.cluster.network.arm(SpoilBody(0), PULL)
    rig.begin()
    rig.wait_for(5)
    assert rig.handled == [(offset, 0) for offset in range(5)]
    assert "broker-a:10911 answered a pull of orders@broker-a#0 at 0 in an unknown" in caplog.text
