"""Single questions to brokers, typed: one method per request, errors named, nothing remembered."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, TypeVar

from rmq_ordered.client.commits import OffsetCommits
from rmq_ordered.client.fanout import at_each
from rmq_ordered.client.pipeline import Pipeline, Question
from rmq_ordered.client.routes import RouteTable
from rmq_ordered.clock import Clock
from rmq_ordered.errors import (
    BrokerError,
    RequestTimedOut,
    RmqOrderedError,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.model import (
    LeaseRecord,
    LockAnswer,
    MessageQueue,
    OffsetSpan,
    OwnershipEvent,
    QueueLease,
)
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.net.stream import AnswerStream
from rmq_ordered.protocol import groups, locks, topics
from rmq_ordered.protocol.answers import accepted, ensure_success, understood
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.pops import PopState, parse_pop_state, pop_state_request

Place = TypeVar("Place", bound=Hashable)
Failures = dict[MessageQueue, RmqOrderedError]
_LOG: Final = logging.getLogger("rmq_ordered.client")


class BrokerOperations:
    """Thread-safe. Reads are repeated after a lost connection; what changes state is sent once.

    >>> from rmq_ordered.client import Client
    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("parcels", 1)
    ...     (queue,) = client.routes.readable("parcels")
    ...     client.broker.heartbeat("worker-1", "shipping", ["parcels"])
    ...     client.broker.commit_offsets("shipping", {queue: 0})
    ...     client.broker.committed_offset("shipping", queue), client.broker.max_offset(queue)
    (0, 0)
    """

    def __init__(
        self, remoting: Remoting, routes: RouteTable, clock: Clock, timeout_ms: int
    ) -> None:
        self._remoting = remoting
        self._routes = routes
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._pipeline = Pipeline(remoting, routes, clock, timeout_ms)
        self._commits = OffsetCommits(
            remoting, routes, clock, self._pipeline, committed=self.committed_offset
        )

    # Topics

    def create_topic(self, topic: str, queues: int, *, ordered: bool = True) -> None:
        """Create the topic on every broker of the cluster."""
        what = f"the creation of topic {topic}"
        request = topics.create_topic_request(topic, queues, ordered=ordered)
        for address in self._masters():
            ensure_success(self._call(address, request, what), address, what)
        self._routes.forget(topic)

    def delete_topic(self, topic: str) -> None:
        """Delete the topic from every broker and name server, or raise TopicNotFound."""
        self._routes.forget(topic)
        self._routes.route(topic)
        what = f"the deletion of topic {topic}"
        for address in self._masters():
            ensure_success(
                self._call(address, topics.delete_topic_request(topic), what), address, what
            )
        self._routes.delete(topic)

    def topic_stats(self, topic: str) -> dict[MessageQueue, OffsetSpan]:
        """First and last offsets of every readable queue of a topic."""
        return self.topics_stats([topic])

    def topics_stats(self, topic_names: Iterable[str]) -> dict[MessageQueue, OffsetSpan]:
        """First and last offsets of every readable queue of some topics.

        One request per broker and topic, all of them in flight together. A queue that its broker
        does not list is left out: it was taken away, and the route does not know yet.
        """
        queues = [queue for topic in topic_names for queue in self._routes.readable(topic)]
        places = sorted({(queue.topic, queue.broker_name) for queue in queues})
        spans: dict[MessageQueue, OffsetSpan] = {}
        for part in self._pipeline.read([_stats_question(*place) for place in places]):
            spans |= part
        return {queue: spans[queue] for queue in queues if queue in spans}

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after a time; the end of the queue if there is none."""
        return self.offsets_at([queue], timestamp_ms)[queue]

    def offsets_at(
        self, queues: Sequence[MessageQueue], timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        """The same for many queues, asked all at once."""
        answers = self._pipeline.read(
            [
                _offset_question(
                    queue,
                    groups.search_offset_request(queue, timestamp_ms),
                    f"the offset of {queue} at {timestamp_ms}",
                )
                for queue in queues
            ]
        )
        return dict(zip(queues, answers, strict=True))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
        return self._offset_of(queue, groups.max_offset_request(queue), f"the end of {queue}")

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        return self._offset_of(queue, groups.min_offset_request(queue), f"the beginning of {queue}")

    # Groups

    def heartbeat(self, client_id: str, group: str, topic_names: Iterable[str]) -> None:
        """Register with every broker of the topics; creates the group and its retry topic."""
        names = tuple(topic_names)
        request = groups.heartbeat_request(
            client_id, group, names, version_ms=self._clock.wall_ms()
        )
        what = f"a heartbeat of group {group}"
        self._tell_masters(names, request, what)

    def leave_group(self, client_id: str, group: str, topic_names: Iterable[str]) -> None:
        """Undo ``heartbeat``; brokers that are away keep no other one from hearing of it."""
        request = groups.unregister_request(client_id, group)
        self._tell_masters(topic_names, request, f"leaving group {group}")

    def group_members(self, group: str, topic_names: Iterable[str]) -> tuple[str, ...]:
        """The client ids that are members of a group now, as far as the brokers can be asked.

        Members tell every broker, so one that answers knows them all; a broker that came back a
        moment ago may know only some.

        Raises:
            RmqOrderedError: no broker answered.
        """
        request, what = groups.members_request(group), f"members of {group}"
        outcomes = self.ask_each(self._masters_of(topic_names), request, what)
        members: set[str] = set()
        failures: list[RmqOrderedError] = []
        for address, outcome in outcomes.items():
            if isinstance(outcome, RmqOrderedError):
                failures.append(outcome)
            # RocketMQ answers SYSTEM_ERROR for a group without members.
            elif outcome.code == ResponseCode.SUCCESS:
                members.update(understood(_members, outcome, address, what))
        if failures and len(failures) == len(outcomes):
            raise failures[0]
        for failure in failures:
            _LOG.warning("asked the others for the members of group=%s: %s", group, failure)
        return tuple(sorted(members))

    def ask_each(
        self,
        addresses: Iterable[str],
        request: RemotingCommand,
        what: str,
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, RemotingCommand | RmqOrderedError]:
        """Ask some brokers side by side; the answer of each, or why there is none."""
        deadline_ms = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        patience_ms = self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)
        jobs = {
            address: partial(self._remoting.call, address, request, what, patience_ms)
            for address in addresses
        }
        outcomes = at_each(self._clock, jobs, deadline_ms)
        return {
            address: outcomes.get(address, RequestTimedOut(address, what, patience_ms))
            for address in jobs
        }

    def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's committed offset, or None if it never committed one."""
        return self.committed_offsets(group, [queue])[queue]

    def committed_offsets(
        self, group: str, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """The group's committed offsets, None where it never committed one; asked all at once."""
        answers = self._pipeline.read([_committed_question(group, queue) for queue in queues])
        return dict(zip(queues, answers, strict=True))

    def commit_offset(
        self, group: str, queue: MessageQueue, queue_offset: int, *, lease: QueueLease | None = None
    ) -> None:
        """Commit an offset and wait; with a lease the embedded broker checks its epoch."""
        leases = {} if lease is None else {queue: lease}
        self.commit_offsets(group, {queue: queue_offset}, leases=leases)

    def commit_offsets(
        self,
        group: str,
        positions: Mapping[MessageQueue, int],
        *,
        leases: Mapping[MessageQueue, QueueLease] | None = None,
    ) -> None:
        """Commit offsets, each sent once and many of them in flight together, and wait.

        With leases the embedded broker checks their epochs. One queue of every topic and broker
        goes ahead of the others: RocketMQ makes the group's table of a topic with the first commit,
        and of two first commits at the same moment it may forget one.

        Raises:
            QueueLeaseLost: the broker knows a newer epoch of a lease.
            OffsetWentBack: under a lease, an offset would move back.
            RmqOrderedError: the first failure, after every answer was waited for: other queues'
                offsets may have been committed.
        """
        self._commits.commit(group, positions, leases or {})

    def try_commit_offsets(
        self,
        group: str,
        positions: Mapping[MessageQueue, int],
        *,
        leases: Mapping[MessageQueue, QueueLease] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[MessageQueue, RmqOrderedError]:
        """Commit offsets as ``commit_offsets`` does; returns which failed, and why.

        A broker that was found to be away is not tried again for its other queues.
        """
        patience_ms = self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)
        return self._commits.try_commit(group, positions, leases or {}, patience_ms)

    # Locks

    def lock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> list[LockAnswer]:
        """Ask for, or renew, locks: one request per broker; then raise the first failure."""
        answers, failures = self.try_lock(group, client_id, queues)
        for failure in failures.values():
            raise failure
        return answers

    def try_lock(
        self, group: str, client_id: str, queues: Sequence[MessageQueue]
    ) -> tuple[list[LockAnswer], Failures]:
        """The same; what could not be asked for, and why, beside what was answered."""
        what = f"locks of group {group} for '{client_id}'"

        def ask(address: str, asked: list[MessageQueue]) -> tuple[LockAnswer, ...]:
            response = self._call(address, locks.lock_request(group, client_id, asked), what)
            return accepted(partial(locks.parse_lock, asked=asked), response, address, what)

        return self._at_addresses(queues, ask)

    def unlock(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Give locks back and wait for the answers, for a request's usual time at most."""
        for failure in self.try_unlock(group, client_id, queues, timeout_ms=timeout_ms).values():
            raise failure

    def try_unlock(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        *,
        timeout_ms: int | None = None,
        run_goes_on: bool = False,
    ) -> Failures:
        """The same; returns what may still be locked, and why.

        With ``run_goes_on`` the client keeps working without these queues.
        """
        patience_ms = self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)
        what = f"the unlocking of queues of group {group}"

        def give(address: str, held: list[MessageQueue]) -> tuple[LockAnswer, ...]:
            request = locks.unlock_request(group, client_id, held, run_goes_on=run_goes_on)
            response = self._remoting.call(address, request, what, patience_ms)
            ensure_success(response, address, what)
            return ()

        return self._at_addresses(queues, give)[1]

    def _at_addresses(
        self,
        queues: Sequence[MessageQueue],
        job: Callable[[str, list[MessageQueue]], tuple[LockAnswer, ...]],
    ) -> tuple[list[LockAnswer], Failures]:
        """One request per address; a topic or a broker that is gone keeps no other from it."""
        answers: list[LockAnswer] = []
        failures: Failures = {}
        found: dict[str, list[MessageQueue]] = defaultdict(list)
        for place, part in grouped(queues, attrgetter("topic", "broker_name")).items():
            try:
                found[self._routes.master(*place)] += part
            except RmqOrderedError as error:
                failures |= dict.fromkeys(part, error)
        for address, batch in found.items():
            try:
                answers += job(address, batch)
            except RmqOrderedError as error:
                failures |= dict.fromkeys(batch, error)
        return answers, failures

    def leases(
        self, group: str | None = None, topic: str | None = None
    ) -> tuple[tuple[LeaseRecord, ...], tuple[OwnershipEvent, ...]]:
        """The lease table and ownership history; only the embedded broker can tell."""
        table: list[LeaseRecord] = []
        history: list[OwnershipEvent] = []
        what = "the lease table"
        for address in self._masters():
            response = self._call(address, locks.leases_request(group, topic), what)
            if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                remark = (
                    "only the embedded broker can tell: RocketMQ has no request for its lock table"
                )
                raise BrokerError(address, what, response.code, remark)
            rows, events = accepted(locks.parse_leases, response, address, what)
            table += rows
            history += events
        return tuple(table), tuple(sorted(history, key=lambda event: event.at_ms))

    def pop_state(
        self, group: str | None = None, topic: str | None = None
    ) -> tuple[tuple[str, PopState], ...]:
        """What is popped and not settled, with the broker's address; the embedded broker only."""
        what = "the state of pops"
        table: list[tuple[str, PopState]] = []
        for address in self._masters():
            response = self._call(address, pop_state_request(group, topic), what)
            if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                remark = "only the embedded broker can tell: RocketMQ has no request for its pops"
                raise BrokerError(address, what, response.code, remark)
            rows = accepted(parse_pop_state, response, address, what)
            table += [(address, row) for row in rows]
        return tuple(table)

    # Addresses and calls

    def address(self, queue: MessageQueue) -> str:
        """Where requests about a queue go."""
        return self._routes.master(queue.topic, queue.broker_name)

    def start(
        self, queue: MessageQueue, request: RemotingCommand, what: str, timeout_ms: int
    ) -> PendingAnswer:
        """Send any request about a queue without waiting."""
        try:
            return self._remoting.start(self.address(queue), request, what, timeout_ms)
        except TransportError:
            self._routes.forget(queue.topic)
            raise

    def open_stream(self, queue: MessageQueue, what: str) -> AnswerStream:
        """A connection of the caller's own to a queue's broker; the caller closes it."""
        try:
            return self._remoting.open_stream(self.address(queue), what)
        except TransportError:
            self._routes.forget(queue.topic)
            raise

    def _offset_of(self, queue: MessageQueue, request: RemotingCommand, what: str) -> int:
        (answer,) = self._pipeline.read([_offset_question(queue, request, what)])
        return answer

    def _call(self, address: str, request: RemotingCommand, what: str) -> RemotingCommand:
        return self._remoting.call(address, request, what, self._timeout_ms)

    def _tell_masters(
        self, topic_names: Iterable[str], request: RemotingCommand, what: str
    ) -> None:
        """Send a request to every broker of some topics, then raise the first failure."""
        outcomes = self.ask_each(self._masters_of(topic_names), request, what)
        for address, outcome in outcomes.items():
            if isinstance(outcome, RmqOrderedError):
                raise outcome
            ensure_success(outcome, address, what)

    def _masters(self) -> list[str]:
        return [broker.master for broker in self._routes.brokers() if broker.master]

    def _masters_of(self, topic_names: Iterable[str]) -> list[str]:
        addresses = {
            broker.master
            for topic in topic_names
            for broker in self._routes.route(topic).brokers
            if broker.master
        }
        return sorted(addresses)


def grouped(
    queues: Iterable[MessageQueue], place: Callable[[MessageQueue], Place]
) -> dict[Place, list[MessageQueue]]:
    """The queues by their places, in their order."""
    found: dict[Place, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        found[place(queue)].append(queue)
    return found


def _members(response: RemotingCommand, address: str) -> tuple[str, ...]:
    return tuple(groups.parse_members(response))


def _stats_question(topic: str, broker_name: str) -> Question[dict[MessageQueue, OffsetSpan]]:
    what = f"statistics of topic {topic}"

    def parse(response: RemotingCommand, address: str) -> dict[MessageQueue, OffsetSpan]:
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            raise TopicNotFound(address, topic, response.remark)
        return topics.parse_topic_stats(ensure_success(response, address, what), topic)

    return Question(topic, broker_name, topics.topic_stats_request(topic), what, parse)


def _committed_question(group: str, queue: MessageQueue) -> Question[int | None]:
    what = f"the offset of group {group} on {queue}"

    def parse(response: RemotingCommand, address: str) -> int | None:
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return _offset_field(what, response, address)

    request = groups.query_offset_request(group, queue)
    return Question(queue.topic, queue.broker_name, request, what, parse)


def _offset_question(queue: MessageQueue, request: RemotingCommand, what: str) -> Question[int]:
    parse = partial(_offset_field, what)
    return Question(queue.topic, queue.broker_name, request, what, parse)


def _offset_field(what: str, response: RemotingCommand, address: str) -> int:
    return ensure_success(response, address, what).ext_int("offset")
