"""Where topics live: name servers with fail-over, routes with a short memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from rmq_ordered.clock import Clock
from rmq_ordered.errors import (
    BrokerError,
    ClientClosed,
    ConnectFailed,
    RemoteProtocolError,
    RmqOrderedError,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.model import BrokerData, MessageQueue, TopicRoute
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.protocol.answers import ensure_success, refusal, understood
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.routes import (
    cluster_request,
    forget_topic_request,
    parse_cluster,
    parse_route,
    parse_topic_list,
    readable_queues,
    route_request,
    topic_list_request,
    writable_queues,
)

T = TypeVar("T")
_LOG: Final = logging.getLogger("rmq_ordered.client")
# Java polls routes every 30 s; connection loss and NO_SUCH_TOPIC refresh them at once.
_ROUTE_LIFETIME_MS: Final = 30_000
_LONG_AGO_MS: Final = -(10**12)


@dataclass(frozen=True, slots=True)
class _Known:
    route: TopicRoute
    fetched_at_ms: int


class RouteTable:
    """Thread-safe. One name server is used until it fails, then the next in the ring.

    A name server fails when it cannot be reached, does not answer in time, or answers with what
    cannot be read. One that does not know a topic is believed only if no other one knows it.

    >>> from rmq_ordered.client import Client
    >>> with Client("127.0.0.1:9876") as client:
    ...     client.broker.create_topic("returns", 2)
    ...     [queue.queue_id for queue in client.routes.writable("returns")]
    ...     client.routes.unreachable("returns")
    [0, 1]
    ()
    """

    def __init__(
        self, remoting: Remoting, name_servers: tuple[str, ...], clock: Clock, timeout_ms: int
    ) -> None:
        self._remoting = remoting
        self._name_servers = name_servers
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        # Queues of earlier routes whose broker the name server has dropped since then.
        self._missing: dict[str, frozenset[MessageQueue]] = {}
        self._current = 0

    @property
    def name_servers(self) -> str:
        """The addresses, as a user would write them."""
        return ";".join(self._name_servers)

    def route(self, topic: str) -> TopicRoute:
        """The topic's route, at most 30 s old.

        Raises:
            TopicNotFound: no name server knows the topic.
            ConnectFailed: it was there, but all its brokers are away; they may come back.
            ClientClosed: the client is closed, whatever is known.
        """
        now = self._clock.monotonic_ms()
        with self._lock:
            known = self._known.get(topic)
        if known is not None and now - known.fetched_at_ms < _ROUTE_LIFETIME_MS:
            return known.route
        try:
            route = self._fetch(topic)
        except TopicNotFound as error:
            self._explain_absence(topic, known, error)
            raise
        except ClientClosed:
            raise
        except (TransportError, RemoteProtocolError) as error:
            if known is None:
                raise
            _LOG.warning("using the route of topic=%s from before: %s", topic, error)
            return known.route
        self._remember(route, now)
        return route

    def forget(self, topic: str) -> None:
        """Ask the name server again next time; what is known serves while it does not answer."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None:
                self._known[topic] = replace(known, fetched_at_ms=_LONG_AGO_MS)

    def unreachable(self, topic: str) -> tuple[MessageQueue, ...]:
        """Readable queues that this client knows of and whose broker has no master now.

        As long as there are some, the name server is asked again each time.
        """
        route = self.route(topic)
        masters = {broker.name for broker in route.brokers if broker.master}
        with self._lock:
            missing = self._missing.get(topic, frozenset())
        without_master = {
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queues
            if data.is_readable and data.broker_name not in masters
            for queue_id in range(data.read_queues)
        }
        away = tuple(sorted(missing | without_master))
        if away:
            self.forget(topic)
        return away

    def ensure_complete(self, topic: str) -> None:
        """Raise ConnectFailed when queues of the topic are ``unreachable``."""
        away = self.unreachable(topic)
        if away:
            names = sorted({queue.broker_name for queue in away})
            raise ConnectFailed(
                ", ".join(names),
                f"{len(away)} queues of topic {topic} have no master now at {self.name_servers}: "
                f"{', '.join(map(str, away))}",
            )

    def readable(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues to consume, in RocketMQ's order."""
        return readable_queues(self.route(topic))

    def writable(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues to choose from when sending, in the order that selectors index."""
        queues = writable_queues(self.route(topic))
        if not queues:
            raise BrokerError(
                self.name_servers,
                f"a queue to write topic {topic}",
                ResponseCode.NO_PERMISSION,
                "the topic has no writable queue on a broker with a master",
            )
        return queues

    def master(self, topic: str, broker_name: str) -> str:
        """The address to send requests about a queue of this broker to."""
        for broker in self.route(topic).brokers:
            if broker.name == broker_name and broker.master:
                return broker.master
        self.forget(topic)
        raise ConnectFailed(
            broker_name,
            f"topic {topic} has no master of this name at {self.name_servers}, so its queues there "
            "cannot be reached",
        )

    def features(self, topic: str) -> frozenset[str]:
        """What the broker offers beyond RocketMQ."""
        return self.route(topic).features

    def brokers(self) -> tuple[BrokerData, ...]:
        """All brokers of the cluster, by name."""
        what = "cluster information"
        return self._ask(
            cluster_request(),
            what,
            lambda response, address: parse_cluster(ensure_success(response, address, what)),
        )

    def topics(self) -> tuple[str, ...]:
        """All topics, by name."""
        what = "the topic list"
        return self._ask(
            topic_list_request(),
            what,
            lambda response, address: parse_topic_list(ensure_success(response, address, what)),
        )

    def delete(self, topic: str) -> None:
        """Make every name server forget the topic (they do not tell each other)."""
        what = f"forgetting topic {topic}"
        for address in self._name_servers:
            response = self._remoting.call(
                address, forget_topic_request(topic), what, self._timeout_ms
            )
            if response.code not in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
                raise refusal(response, address, what)
        self.forget(topic)

    def _fetch(self, topic: str) -> TopicRoute:
        what = f"the route of topic {topic}"

        def parse(response: RemotingCommand, address: str) -> TopicRoute:
            if response.code == ResponseCode.TOPIC_NOT_EXIST:
                raise TopicNotFound(self.name_servers, topic, response.remark)
            return parse_route(ensure_success(response, address, what), topic)

        return self._ask(route_request(topic), what, parse)

    def _remember(self, route: TopicRoute, now_ms: int) -> None:
        """Keep the route, and what it lacks of the one before because a broker is away."""
        with self._lock:
            before = self._known.get(route.topic)
            missing = self._missing.get(route.topic, frozenset())
        seen = missing | (frozenset() if before is None else _all_readable(before.route))
        present = {data.broker_name for data in route.queues}
        away = {queue.broker_name for queue in seen} - present
        # A broker that runs and no longer has the topic took its queues away for good.
        away -= self._registered() if away else set()
        lost = frozenset(queue for queue in seen if queue.broker_name in away)
        if lost - missing:
            _LOG.warning(
                "topic=%s: brokers %s are away, not reachable are %s",
                route.topic,
                sorted(away),
                ", ".join(map(str, sorted(lost))),
            )
        with self._lock:
            self._known[route.topic] = _Known(route, now_ms)
            self._missing[route.topic] = lost

    def _explain_absence(self, topic: str, known: _Known | None, error: TopicNotFound) -> None:
        """Tell a deleted topic from one whose brokers are all away; raises for the latter."""
        if known is None:
            return
        holders = {broker.name for broker in known.route.brokers}
        if not holders & self._registered():
            raise ConnectFailed(
                ", ".join(sorted(holders)),
                f"the brokers of topic {topic} are not registered at {self.name_servers} now",
            ) from error
        with self._lock:
            self._known.pop(topic, None)
            self._missing.pop(topic, None)

    def _registered(self) -> set[str]:
        """The brokers that run; none as long as nobody can tell."""
        try:
            return {broker.name for broker in self.brokers()}
        except ClientClosed:
            raise
        except (TransportError, RemoteProtocolError):
            return set()

    def _ask(
        self, command: RemotingCommand, what: str, parse: Callable[[RemotingCommand, str], T]
    ) -> T:
        """Ask the current name server, then the others; raises the last error when all fail."""
        last: RmqOrderedError = ConnectFailed("(none)", "no name server was given")
        for step in range(len(self._name_servers)):
            index = (self._current + step) % len(self._name_servers)
            address = self._name_servers[index]
            try:
                response = self._remoting.call(address, command, what, self._timeout_ms)
                answer = understood(parse, response, address, what)
            except ClientClosed:
                raise
            except (TransportError, RemoteProtocolError, TopicNotFound) as error:
                _LOG.debug("= name server %s failed: %s", address, error)
                # That a topic is unknown is an answer, and better than none.
                last = last if isinstance(last, TopicNotFound) else error
            else:
                self._current = index
                return answer
        raise last


def _all_readable(route: TopicRoute) -> frozenset[MessageQueue]:
    return frozenset(
        MessageQueue(route.topic, data.broker_name, queue_id)
        for data in route.queues
        if data.is_readable
        for queue_id in range(data.read_queues)
    )
