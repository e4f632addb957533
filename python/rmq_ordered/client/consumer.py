"""An ordered consumer: a member of a group that handles its queues one message after another.

It lives beside Apache's Java orderly consumers in one group: the same heartbeats, the same sharing
out of queues, the same locks. This file is the member; ``consuming`` is the work on its queues.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from rmq_ordered.client.batches import Listener
from rmq_ordered.client.connection import Client
from rmq_ordered.client.consumer_settings import ConsumerSettings
from rmq_ordered.client.consuming import QueueWork
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.errors import (
    LocalProtocolError,
    OptionError,
    RmqOrderedError,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.model import MessageQueue
from rmq_ordered.net.system import fresh_client_id
from rmq_ordered.protocol.answers import ensure_success
from rmq_ordered.protocol.command import OUR_VERSION, RemotingCommand
from rmq_ordered.protocol.groups import unregister_request
from rmq_ordered.protocol.members import (
    FilterKind,
    StartPoint,
    Subscription,
    check_subscription_request,
    member_heartbeat_request,
    retry_topic,
    running_info,
)

_LOG: Final = logging.getLogger("rmq_ordered.client")
# As Java: a queue that could not be locked, or a group that could not be read, is tried again soon.
_RETRY_MS: Final = 1_000
_CLOSE_TIMEOUT_S: Final = 30.0
# How often what could not be committed is tried again at the end.
_DRAIN_MS: Final = 200


class OrderedConsumer:
    """Handles every message of its queues in order, at least once. Thread-safe; use as a context.

    Each queue belongs to one member of the group at a time, and to one listener call at a time. An
    exception in the listener counts as SUSPEND. What was handled but not yet committed when a
    member dies is handled again by the next owner.

    >>> from rmq_ordered.client import ConsumeResult, OrderedProducer
    >>> seen, done = [], threading.Event()
    >>> def handle(batch):
    ...     seen.extend(message.body for message in batch)
    ...     if len(seen) == 2:
    ...         done.set()
    ...     return ConsumeResult.SUCCESS
    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("tickets", 1)
    ...     producer = OrderedProducer(client, "tickets")
    ...     sent = [producer.send("t1", step) for step in (b"opened", b"closed")]
    ...     with OrderedConsumer(client, "support", ["tickets"], handle):
    ...         done.wait(30)
    ...     seen, client.broker.committed_offset("support", sent[0].queue)
    True
    ([b'opened', b'closed'], 2)

    Args:
        client: the cluster; one consumer per group and Client.
        group: the consumer group.
        subscriptions: topics, by name or with a filter; the same for all members of the group.
        listener: called with a MessageBatch, on threads of this consumer.
        settings: how.

    Raises:
        OptionError: no topic, or another consumer of this Client is in the group.
        BrokerError: a broker cannot evaluate an SQL92 filter.
        TopicNotFound: a topic does not exist.
        TransportError: the cluster cannot be reached.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        subscriptions: Iterable[str | Subscription],
        listener: Listener,
        settings: ConsumerSettings | None = None,
    ) -> None:
        self.group = group
        self.client_id = fresh_client_id("consumer")
        self._client = client
        self._settings = settings or ConsumerSettings()
        self._subscriptions = _with_retries(group, subscriptions)
        self._keeper = LeaseKeeper(
            client.broker,
            client.clock,
            group,
            self.client_id,
            trust_ms=self._settings.trust_ms,
            renew_ms=self._settings.renew_ms,
        )
        self._work = QueueWork(
            client, group, self._keeper, listener, self._settings, self._changed, self._failed
        )
        self._version_ms = client.clock.wall_ms()
        self._wake = threading.Event()
        self._ended = threading.Event()
        # Something has stopped, for whoever closes.
        self._has_stopped = threading.Event()
        self._closing = threading.Lock()
        self._is_closed = False
        self._failure: BaseException | None = None
        # The brokers that were told that we are here.
        self._told: set[str] = set()
        self._heartbeat_due_ms = self._rebalance_due_ms = self._commit_due_ms = 0
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Join the group and begin; returns itself. Once closed, it cannot be started again."""
        if self._is_closed:
            raise LocalProtocolError(
                f"the consumer {self.client_id} of group {self.group} was closed and cannot be "
                "started again: make a new one, which joins the group as a new member"
            )
        for subscription in self._subscriptions.values():
            self._ensure_served(subscription)
        self._client.requests.join(self.group, self)
        try:
            self._join()
        except RmqOrderedError:
            self._client.requests.leave(self.group)
            raise
        self._work.start()
        name = f"rmq-ordered {self.group} member"
        self._thread = threading.Thread(target=self._coordinate, name=name, daemon=True)
        self._thread.start()
        _LOG.info("joined group=%s client=%s", self.group, self.client_id)
        return self

    @property
    def queues(self) -> set[MessageQueue]:
        """The queues that this consumer works on now."""
        return self._work.active()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the consumer was closed or failed; raises what it failed with.

        That is an RmqOrderedError, or what the listener raised to end the program (``sys.exit``).

        Returns:
            Whether it has ended.
        """
        has_ended = self._ended.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        return has_ended

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Let running listener calls end, commit, unlock and leave the group. Idempotent.

        All of it within the time given. A queue whose listener call does not end by then, whose
        offset cannot be committed or which cannot be unlocked stays locked until its lease ends,
        with a warning.
        """
        with self._closing:
            if self._thread is None:
                return
            deadline_ms = self._client.clock.monotonic_ms() + int(timeout_s * 1000)
            self._is_closed = True
            self._ended.set()
            self._wake.set()
            self._drain(deadline_ms)
            self._thread.join(self._left_ms(deadline_ms) / 1000)
            self._thread = None
            self._work.close(deadline_ms)
            self._keeper.close(self._left_ms(deadline_ms))
            self._leave(self._left_ms(deadline_ms))
            self._client.requests.leave(self.group)
            _LOG.info("left group=%s client=%s", self.group, self.client_id)

    def __enter__(self) -> Self:
        return self.start() if self._thread is None else self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # What brokers say (on their connections' threads)

    def members_changed(self) -> None:
        """Somebody joined or left: look at the group now."""
        self._rebalance_due_ms = 0
        self._wake.set()

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator wants the group to go on elsewhere."""
        _LOG.info("offsets reset group=%s offsets=%s", self.group, offsets)
        self._work.move(offsets)

    def describe(self) -> bytes:
        """RocketMQ's ``ConsumerRunningInfo`` of this consumer."""
        properties = {
            "PROP_CLIENT_VERSION": f"rmq-ordered {OUR_VERSION}",
            "PROP_CONSUMEORDERLY": "true",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._version_ms),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_NAMESERVER_ADDR": self._client.routes.name_servers,
            "PROP_THREADPOOL_CORE_SIZE": str(self._settings.threads),
        }
        return running_info(properties, self._subscriptions.values(), self._work.describe())

    # The member's thread

    def _changed(self) -> None:
        self._heartbeat_due_ms = self._rebalance_due_ms = 0
        self._wake.set()
        self._has_stopped.set()

    def _failed(self, error: BaseException) -> None:
        _LOG.error("the consumer stops group=%s: %r", self.group, error)
        self._failure = self._failure or error
        self._ended.set()
        self._wake.set()

    def _coordinate(self) -> None:
        try:
            while not self._ended.is_set():
                self._wake.clear()
                self._tick()
                due_ms = min(self._heartbeat_due_ms, self._rebalance_due_ms, self._commit_due_ms)
                pause_ms = max(due_ms - self._client.clock.monotonic_ms(), 10)
                if not self._ended.is_set():
                    self._wake.wait(pause_ms / 1000)
        except BaseException as error:  # noqa: BLE001 (a thread must not end unnoticed)
            _LOG.exception("the member failed group=%s client=%s", self.group, self.client_id)
            self._failed(error)
        if self._failure is not None:
            self._retire()

    def _retire(self) -> None:
        """After a failure nobody should wait for a member that does not work any more."""
        self._work.stop_all()
        while self._work.queues() and not self._is_closed:
            self._wake.clear()
            self._work.finish()
            self._wake.wait(_DRAIN_MS / 1000)
        if not self._is_closed:
            self._leave(self._client.request_timeout_ms)

    def _tick(self) -> None:
        now_ms = self._client.clock.monotonic_ms()
        if now_ms >= self._commit_due_ms:
            self._commit_due_ms = now_ms + self._settings.commit_ms
            self._work.commit()
        self._work.finish()
        if now_ms >= self._heartbeat_due_ms and not self._ended.is_set():
            self._heartbeat_due_ms = now_ms + self._settings.heartbeat_ms
            self._attempt(self._heartbeat)
        if now_ms >= self._rebalance_due_ms and not self._ended.is_set():
            self._rebalance_due_ms = now_ms + self._settings.rebalance_ms
            if not self._attempt(self._rebalance):
                self._rebalance_due_ms = min(self._rebalance_due_ms, now_ms + _RETRY_MS)

    def _attempt(self, step: Callable[[], bool]) -> bool:
        """Whether all is as it should be; what failed is tried again, and stops nothing else."""
        try:
            return step()
        except RmqOrderedError as error:
            _LOG.warning("will try again group=%s: %s", self.group, error)
            return False

    def _rebalance(self) -> bool:
        """Give up what is others', take what is ours; whether everything is as it should be."""
        members = self._client.broker.group_members(self.group, self._topics())
        if self.client_id not in members:
            # Our connection was replaced: until the broker knows the new one, nothing is changed.
            self._heartbeat_due_ms = 0
            return False
        wanted: dict[MessageQueue, Subscription] = {}
        for subscription in self._subscriptions.values():
            queues = self._readable(subscription.topic)
            for queue in self._settings.allocate(queues, members, self.client_id):
                wanted[queue] = subscription
        foreign = self._work.active() - wanted.keys()
        if foreign:
            self._work.stop(foreign)
            self._work.finish()
        missing = wanted.keys() - self._work.queues()
        granted = self._keeper.try_acquire(missing)
        self._begin_all({queue: wanted[queue] for queue in granted})
        return wanted.keys() == self._work.active()

    def _begin_all(self, granted: Mapping[MessageQueue, Subscription]) -> None:
        """Begin with what can be begun, and give back at once what cannot.

        Of a broker that is away nothing more is asked: others wait for their turn.
        """
        left: list[MessageQueue] = []
        away: set[str] = set()
        for queue, subscription in granted.items():
            is_begun = False
            try:
                is_begun = queue.broker_name not in away and self._begin(queue, subscription)
            except RmqOrderedError as error:
                _LOG.warning("could not begin with %s, will try again: %s", queue, error)
                if isinstance(error, TransportError):
                    away.add(queue.broker_name)
            if not is_begun:
                left.append(queue)
        if left:
            self._keeper.give_back(left)

    def _begin(self, queue: MessageQueue, subscription: Subscription) -> bool:
        """Start where the group stands, read only now that nobody else can move it."""
        start = self._client.broker.committed_offset(self.group, queue)
        if start is None:
            start = self._first_offset(queue)
        return self._work.add(queue, subscription, start)

    def _first_offset(self, queue: MessageQueue) -> int:
        broker, settings = self._client.broker, self._settings
        if settings.start is StartPoint.TIMESTAMP and settings.start_timestamp_ms is not None:
            return broker.offset_at(queue, settings.start_timestamp_ms)
        is_last = settings.start is StartPoint.LAST and not queue.topic.startswith("%RETRY%")
        return broker.max_offset(queue) if is_last else broker.min_offset(queue)

    def _readable(self, topic: str) -> tuple[MessageQueue, ...]:
        try:
            return self._client.routes.readable(topic)
        except TopicNotFound:
            if topic != retry_topic(self.group):
                raise
            return ()  # the broker is about to create it

    def _topics(self) -> list[str]:
        return [topic for topic in self._subscriptions if topic != retry_topic(self.group)]

    def _addresses(self) -> list[str]:
        routes = [self._client.routes.route(topic) for topic in self._topics()]
        return sorted({one.master for route in routes for one in route.brokers if one.master})

    def _join(self) -> None:
        """Tell the group for the first time: a refusal is final, a broker that is away is not."""
        failures = self._tell_group()
        refusals = [error for error in failures if not isinstance(error, TransportError)]
        if not self._told:
            refusals += failures
        for error in refusals:
            raise error

    def _heartbeat(self) -> bool:
        return not self._tell_group()

    def _tell_group(self) -> list[RmqOrderedError]:
        """Tell every broker that we are here; one that is away must not cost the others theirs."""
        request = member_heartbeat_request(
            self.client_id,
            self.group,
            self._subscriptions.values(),
            start=self._settings.start,
            version_ms=self._version_ms,
        )
        told, failures = self._ask_all(request, f"a heartbeat of group {self.group}")
        self._told = told | self._told.intersection(self._addresses())
        for error in failures:
            _LOG.warning("a broker was not told of the member group=%s: %s", self.group, error)
        return failures

    def _ensure_served(self, subscription: Subscription) -> None:
        """Raise a broker's refusal of a filter; somebody must have accepted it."""
        if subscription.kind is FilterKind.TAG:
            return
        request = check_subscription_request(
            self.client_id, self.group, subscription, version_ms=self._version_ms
        )
        what = f"the filter {subscription.expression!r} of topic {subscription.topic}"
        accepted, failures = self._ask_all(request, what)
        for error in failures:
            if not accepted or not isinstance(error, TransportError):
                raise error

    def _ask_all(
        self, request: RemotingCommand, what: str
    ) -> tuple[set[str], list[RmqOrderedError]]:
        """Ask every broker of our topics; the addresses that said yes, and what the others said."""
        agreed: set[str] = set()
        failures: list[RmqOrderedError] = []
        outcomes = self._client.broker.ask_each(self._addresses(), request, what)
        for address, outcome in outcomes.items():
            try:
                if isinstance(outcome, RmqOrderedError):
                    raise outcome
                ensure_success(outcome, address, what)
                agreed.add(address)
            except RmqOrderedError as error:
                failures.append(error)
        return agreed, failures

    def _drain(self, deadline_ms: int) -> None:
        """Stop everything, and commit and give back what has stopped, until the time is over."""
        self._work.stop_all()
        while True:
            self._has_stopped.clear()
            self._work.finish(deadline_ms)
            left_ms = self._left_ms(deadline_ms)
            if not self._work.queues() or left_ms == 0:
                return
            self._has_stopped.wait(min(left_ms, _DRAIN_MS) / 1000)

    def _leave(self, timeout_ms: int) -> None:
        what = f"leaving group {self.group}"
        request = unregister_request(self.client_id, self.group)
        outcomes = self._client.broker.ask_each(
            sorted(self._told), request, what, timeout_ms=timeout_ms
        )
        for outcome in outcomes.values():
            if isinstance(outcome, RmqOrderedError):
                _LOG.warning("the group notices only when the connection ends: %s", outcome)

    def _left_ms(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._client.clock.monotonic_ms())


def _with_retries(
    group: str, subscriptions: Iterable[str | Subscription]
) -> dict[str, Subscription]:
    """By topic, with the group's retry topic, which every push consumer subscribes to."""
    if isinstance(subscriptions, str):
        subscriptions = [subscriptions]
    named = [one if isinstance(one, Subscription) else Subscription(one) for one in subscriptions]
    if not named:
        raise OptionError("subscriptions", None, "at least one topic")
    return {one.topic: one for one in [*named, Subscription(retry_topic(group))]}
