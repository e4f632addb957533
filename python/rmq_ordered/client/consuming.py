"""The queues that a consumer owns: pulled ahead, handed to the listener in order, committed.

One thread for each broker drives the queues there (it starts pulls and collects their answers), so
that connecting to a broker that is away keeps nobody else waiting; a bounded number of threads runs
the listener. A queue has at most one pull on its way and one batch at work.
"""

from __future__ import annotations

import logging
import queue as queues_of_python
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from rmq_ordered.client.batches import (
    ConsumeResult,
    Listener,
    MessageBatch,
    Record,
    read_records,
)
from rmq_ordered.client.connection import Client
from rmq_ordered.client.consumer_settings import ConsumerSettings
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.client.settling import Owned, Settlement
from rmq_ordered.errors import (
    OffsetOutOfRange,
    RmqOrderedError,
    TransportError,
)
from rmq_ordered.model import MessageQueue
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.ordering.progress import Phase, QueueProgress
from rmq_ordered.protocol.answers import ensure_success, refusal, understood
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import Subscription, dead_letter_request
from rmq_ordered.protocol.pulls import (
    PULL_CODES,
    PullLimits,
    PullResult,
    PullStatus,
    parse_pull,
    pull_request,
)

_LOG: Final = logging.getLogger("rmq_ordered.client")
# As Java's push consumer: the broker holds an empty pull for 15 s, the client waits 30 s.
_SUSPEND_MS: Final = 15_000
_PULL_TIMEOUT_MS: Final = 30_000
# Java asks again 1 s after a pull that failed; 20 ms keep an empty queue from being asked in a rush
# by a broker that does not hold pulls.
_RETRY_MS: Final = 1_000
_EMPTY_MS: Final = 20
_LIMITS: Final = PullLimits(256, 1024 * 1024)
# A driver looks at its queues at least this often, whatever wakes it in between.
_STEP_MS: Final = 200


@dataclass(slots=True)
class QueueWork:
    """Thread-safe.

    Invariants: the listener runs only while the lease is trusted at its beginning; a queue is
    unlocked only when no batch of it is at work, and after its offset was committed. Where that
    cannot be, it stays locked until its lock ends by itself.

    Args:
        client: where to pull.
        group: for whom.
        keeper: holds the leases.
        listener: handles batches.
        settings: how.
        changed: called when a queue has stopped or its lease is lost.
        failed: called with an error after which the consumer must not go on, or with what the
            listener raised to end the program.
    """

    client: Client
    group: str
    keeper: LeaseKeeper
    listener: Listener
    settings: ConsumerSettings
    changed: Callable[[], None]
    failed: Callable[[BaseException], None]
    _owned: dict[MessageQueue, Owned] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    # What wakes the driver of each broker, by broker name.
    _wakes: dict[str, threading.Event] = field(default_factory=dict)
    _is_ending: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _tasks: queues_of_python.SimpleQueue[Owned | None] = field(
        default_factory=queues_of_python.SimpleQueue
    )
    _drivers: list[threading.Thread] = field(default_factory=list)
    _settlement: Settlement = field(init=False)

    def __post_init__(self) -> None:
        self._settlement = Settlement(
            self.client,
            self.keeper,
            self._owned,
            self._lock,
            lose=self._lost,
            patience_ms=self.settings.trust_ms,
        )

    def start(self) -> None:
        """Start the listener's threads; a broker's driver starts with its first queue."""
        for number in range(self.settings.threads):
            self._start_thread(str(number + 1), self._work)

    def queues(self) -> set[MessageQueue]:
        """Everything owned, also what is being given up."""
        with self._lock:
            return set(self._owned)

    def active(self) -> set[MessageQueue]:
        """What is owned and stays so."""
        with self._lock:
            return {queue for queue, one in self._owned.items() if not one.progress.is_ending}

    def add(self, queue: MessageQueue, subscription: Subscription, start: int) -> bool:
        """Begin with a queue whose lease is ours; not when everything is about to end."""
        with self._lock:
            if self._is_ending:
                return False
            self._owned[queue] = Owned(subscription, QueueProgress(queue, start), start)
            wake = self._wakes.get(queue.broker_name)
            if wake is None:
                wake = self._wakes[queue.broker_name] = threading.Event()
                drive = partial(self._drive, queue.broker_name, wake)
                self._drivers.append(self._start_thread(f"at {queue.broker_name}", drive))
        wake.set()
        _LOG.info("queue begins queue=%s offset=%s group=%s", queue, start, self.group)
        return True

    def stop(self, queues: Iterable[MessageQueue]) -> None:
        """Begin no more batches of these queues; ``finish`` gives them back when they are idle."""
        with self._lock:
            for queue in queues:
                if queue in self._owned:
                    self._owned[queue].progress.stop()
        self._wake_drivers()
        self.changed()

    def stop_all(self) -> None:
        """The same for all queues, and for those that would come."""
        with self._lock:
            self._is_ending = True
        self.stop(self.queues())

    def move(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on from other offsets, once what is at work is done."""
        with self._lock:
            for queue, offset in offsets.items():
                if queue in self._owned:
                    self._void(self._owned[queue], resume_at=offset)

    def finish(self, deadline_ms: int | None = None) -> list[MessageQueue]:
        """Commit and give back the queues that have stopped; returns them."""
        return self._settlement.finish(deadline_ms)

    def commit(self) -> None:
        """Commit what was handled since the last time."""
        self._settlement.commit()

    def close(self, deadline_ms: int | None = None) -> None:
        """End the threads; a listener that still runs is not waited for, its queue stays locked."""
        self._ended.set()
        self._wake_drivers()
        for _ in range(self.settings.threads):
            self._tasks.put(None)
        with self._lock:
            left = list(self._owned.values())
        self._settlement.leave_locked(left)
        clock = self.client.clock
        for driver in self._drivers:
            left_ms = None if deadline_ms is None else deadline_ms - clock.monotonic_ms()
            driver.join(None if left_ms is None else max(0, left_ms) / 1000)
        if not any(driver.is_alive() for driver in self._drivers):
            for one in left:
                _abandon_pull(one)

    def describe(self) -> dict[MessageQueue, dict[str, Any]]:
        """Every queue as RocketMQ's ``ProcessQueueInfo``."""
        with self._lock:
            return {
                queue: {
                    "cachedMsgCount": one.progress.buffered,
                    "cachedMsgMaxOffset": one.progress.pull_offset,
                    "cachedMsgMinOffset": one.progress.commit_offset,
                    "commitOffset": one.progress.commit_offset,
                    "droped": one.progress.is_ending,
                    "lastPullTimestamp": one.pulled_at_ms,
                    "locked": self.keeper.is_held(queue),
                }
                for queue, one in self._owned.items()
            }

    # Losing

    def _lost(self, one: Owned, error: RmqOrderedError) -> None:
        """Not ours any more, also not to move: whoever has it goes on where the group stands."""
        if one.is_void and one.resume_at is None:
            return
        _LOG.warning("queue lost, it will be asked for again: %s", error)
        self._void(one)

    def _void(self, one: Owned, resume_at: int | None = None) -> None:
        with self._lock:
            one.is_void = True
            one.resume_at = resume_at
            one.progress.stop()
        self.changed()

    # The listener's threads

    def _work(self) -> None:
        while (one := self._tasks.get()) is not None:
            if not self._ended.is_set():
                self._handle(one)

    def _handle(self, one: Owned) -> None:
        """Run one batch. The next one queues up behind those of other queues."""
        queue = one.progress.queue
        with self._lock:
            one.is_scheduled = False
            if not one.progress.is_ending and not self.keeper.is_held(queue):
                self._void(one)
                return
            now_ms = self.client.clock.monotonic_ms()
            records = one.progress.begin(now_ms, self.settings.batch_size)
            if records is None:
                return
            batch = MessageBatch.of(queue, records, one.progress.attempt)
        result = self._listen(batch)
        is_done = result is ConsumeResult.SUCCESS or self._is_given_up(batch)
        with self._lock:
            if is_done:
                one.progress.finished()
            else:
                now_ms = self.client.clock.monotonic_ms()
                one.progress.refused(now_ms, self.settings.suspend_ms)
            has_stopped = one.progress.phase is Phase.STOPPED
            self._schedule(one)
        self._wakes[queue.broker_name].set()
        if has_stopped:
            self.changed()

    def _listen(self, batch: MessageBatch) -> ConsumeResult:
        """The user's code may raise anything; what should end the program ends the consumer."""
        first = batch.messages[0].queue_offset
        try:
            return self.listener(batch)
        except Exception:  # noqa: BLE001 (see above)
            _LOG.exception(
                "the listener failed, the batch is tried again queue=%s offset=%s group=%s",
                batch.queue,
                first,
                self.group,
            )
        except BaseException as error:  # noqa: BLE001 (see above)
            _LOG.exception(
                "the listener ended, the batch is not handled queue=%s offset=%s group=%s",
                batch.queue,
                first,
                self.group,
            )
            self.failed(error)
        return ConsumeResult.SUSPEND

    def _is_given_up(self, batch: MessageBatch) -> bool:
        """Whether the batch was tried often enough and is among the dead letters now."""
        limit = self.settings.max_reconsume_times
        if limit < 0 or batch.attempt < limit:
            return False
        if not self.keeper.is_held(batch.queue):
            return False
        try:
            for message in batch:
                self._send_to_dead_letters(batch.queue, message, limit)
        except RmqOrderedError as error:
            _LOG.warning("no dead letter could be written, the batch is tried again: %s", error)
            return False
        return True

    def _send_to_dead_letters(self, queue: MessageQueue, message: Any, limit: int) -> None:
        what = f"a dead letter of {queue} at {message.queue_offset}"
        request = dead_letter_request(self.group, message, limit)
        answer = self.client.broker.start(queue, request, what, self.client.request_timeout_ms)
        ensure_success(answer.result(), answer.channel.address, what)
        _LOG.warning("given up after %s retries, now a dead letter: %s", limit, what)

    def _schedule(self, one: Owned) -> None:
        due_ms = one.progress.next_work_ms()
        is_due = due_ms is not None and due_ms <= self.client.clock.monotonic_ms()
        if is_due and not one.is_scheduled:
            one.is_scheduled = True
            self._tasks.put(one)

    # The drivers

    def _start_thread(self, name: str, target: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                target()
            except BaseException as error:  # noqa: BLE001 (a thread must not end unnoticed)
                _LOG.exception("a thread of the consumer failed group=%s", self.group)
                self.failed(error)

        full_name = f"rmq-ordered {self.group} {name}"
        thread = threading.Thread(target=run, name=full_name, daemon=True)
        thread.start()
        return thread

    def _wake_drivers(self) -> None:
        with self._lock:
            wakes = list(self._wakes.values())
        for wake in wakes:
            wake.set()

    def _drive(self, broker_name: str, wake: threading.Event) -> None:
        while not self._ended.is_set():
            wake.wait(_STEP_MS / 1000)
            wake.clear()
            with self._lock:
                owned = [
                    one for queue, one in self._owned.items() if queue.broker_name == broker_name
                ]
            for one in owned:
                try:
                    self._step(one)
                except RmqOrderedError as error:
                    self._pull_failed(one, error)

    def _step(self, one: Owned) -> None:
        now_ms = self.client.clock.monotonic_ms()
        if one.progress.is_ending:
            _abandon_pull(one)
            return
        if not self.keeper.is_held(one.progress.queue):
            self._void(one)
            return
        pull = one.pull
        if pull is not None and (pull.future.done() or now_ms >= pull.deadline_ms):
            one.pull = None
            self._take(one, pull)
        if one.pull is None and one.pull_after_ms <= now_ms and self._has_room(one):
            one.pull = self._pull(one)
        with self._lock:
            self._schedule(one)

    def _has_room(self, one: Owned) -> bool:
        return one.progress.buffered < self.settings.buffered_messages

    def _pull(self, one: Owned) -> PendingAnswer:
        queue, offset = one.progress.queue, one.progress.pull_offset
        request = pull_request(
            queue,
            offset,
            group=self.group,
            limits=_LIMITS,
            expression=one.subscription.expression,
            expression_type=one.subscription.kind.value,
            suspend_ms=_SUSPEND_MS,
            lease_epoch=self.keeper.lease(queue).epoch,
        )
        what = f"a pull of {queue} at {offset}"
        answer = self.client.broker.start(queue, request, what, _PULL_TIMEOUT_MS)
        one.pulled_at_ms = self.client.clock.wall_ms()
        wake = self._wakes[queue.broker_name]
        answer.future.add_done_callback(lambda _: wake.set())
        return answer

    def _take(self, one: Owned, pull: PendingAnswer) -> None:
        response = pull.result()
        if response.code == ResponseCode.STALE_LEASE:
            # Taken away, or reset by an operator: lock again, and read the group's offset again.
            self._lost(one, refusal(response, pull.channel.address, pull.what))
            return
        if response.code not in PULL_CODES:
            raise refusal(response, pull.channel.address, pull.what)
        read = partial(_read, one=one)
        result, records = understood(read, response, pull.channel.address, pull.what)
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._offset_moved(one, pull, result)
            return
        if result.status is PullStatus.NO_NEW_MESSAGE:
            one.pull_after_ms = self.client.clock.monotonic_ms() + _EMPTY_MS
            return
        with self._lock:
            one.progress.fetched(records, result.next_offset)

    def _offset_moved(self, one: Owned, pull: PendingAnswer, result: PullResult) -> None:
        """An operator moved the group's offset, or the broker does not have this one (any more)."""
        queue, asked = one.progress.queue, one.progress.pull_offset
        if result.minimum <= asked <= result.maximum:
            _LOG.info("offset moved queue=%s from=%s to=%s", queue, asked, result.next_offset)
            self._void(one, resume_at=result.next_offset)
            return
        error = OffsetOutOfRange(pull.channel.address, queue, asked, result.minimum, result.maximum)
        if self.settings.fail_on_data_loss:
            self._void(one)
            self.failed(error)
            return
        _LOG.warning("messages are lost, going on at %s: %s", result.next_offset, error)
        self._void(one, resume_at=result.next_offset)

    def _pull_failed(self, one: Owned, error: RmqOrderedError) -> None:
        _LOG.warning("a pull failed, will try again: %s", error)
        one.pull_after_ms = self.client.clock.monotonic_ms() + _RETRY_MS
        if isinstance(error, TransportError):
            self.client.routes.forget(one.progress.queue.topic)
            self.changed()  # a new connection needs a heartbeat of its own


def _read(
    response: RemotingCommand, address: str, one: Owned
) -> tuple[PullResult, list[tuple[int, Record]]]:
    result = parse_pull(response)
    asked, tags = one.progress.pull_offset, one.subscription.tags
    return result, read_records(response.body, one.progress.queue, tags, start=asked)


def _abandon_pull(one: Owned) -> None:
    if one.pull is not None:
        one.pull.abandon()
        one.pull = None
