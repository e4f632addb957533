"""Where topics live: name servers with fail-over, routes with a short memory."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import Final

from rmq_ordered.clock import Clock
from rmq_ordered.errors import BrokerError, ConnectFailed, TopicNotFound, TransportError
from rmq_ordered.model import BrokerData, MessageQueue, TopicRoute
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.protocol.answers import ensure_success, refusal
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

_LOG: Final = logging.getLogger("rmq_ordered.client")
# Java polls routes every 30 s; connection loss and NO_SUCH_TOPIC refresh them at once.
_ROUTE_LIFETIME_MS: Final = 30_000
_LONG_AGO_MS: Final = -(10**12)


@dataclass(frozen=True, slots=True)
class _Known:
    route: TopicRoute
    fetched_at_ms: int


class RouteTable:
    """Thread-safe. One name server is used until it fails, then the next in the ring."""

    def __init__(
        self, remoting: Remoting, name_servers: tuple[str, ...], clock: Clock, timeout_ms: int
    ) -> None:
        self._remoting = remoting
        self._name_servers = name_servers
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._current = 0

    @property
    def name_servers(self) -> str:
        """The addresses, as a user would write them."""
        return ";".join(self._name_servers)

    def route(self, topic: str) -> TopicRoute:
        """The topic's route, at most 30 s old; raises TopicNotFound."""
        now = self._clock.monotonic_ms()
        with self._lock:
            known = self._known.get(topic)
        if known is not None and now - known.fetched_at_ms < _ROUTE_LIFETIME_MS:
            return known.route
        try:
            response = self._ask(route_request(topic), f"the route of topic {topic}")
        except TransportError as error:
            if known is None:
                raise
            _LOG.warning("using the route of topic=%s from before: %s", topic, error)
            return known.route
        if response.code == ResponseCode.TOPIC_NOT_EXIST:
            raise TopicNotFound(self.name_servers, topic, response.remark)
        ensure_success(response, self.name_servers, f"the route of topic {topic}")
        route = parse_route(response, topic)
        with self._lock:
            self._known[topic] = _Known(route, now)
        return route

    def forget(self, topic: str) -> None:
        """Ask the name server again next time; what is known serves while it does not answer."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None:
                self._known[topic] = replace(known, fetched_at_ms=_LONG_AGO_MS)

    def ensure_complete(self, topic: str) -> None:
        """Raise unless every broker with readable queues of the topic has a master now."""
        route = self.route(topic)
        masters = {broker.name for broker in route.brokers if broker.master}
        for data in route.queues:
            if data.is_readable and data.read_queues > 0 and data.broker_name not in masters:
                raise ConnectFailed(
                    data.broker_name,
                    f"{data.read_queues} queues of topic {topic} have no master now",
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
            broker_name, f"topic {topic} has no master of this name at {self.name_servers}"
        )

    def features(self, topic: str) -> frozenset[str]:
        """What the broker offers beyond RocketMQ."""
        return self.route(topic).features

    def brokers(self) -> tuple[BrokerData, ...]:
        """All brokers of the cluster, by name."""
        what = "cluster information"
        return parse_cluster(
            ensure_success(self._ask(cluster_request(), what), self.name_servers, what)
        )

    def topics(self) -> tuple[str, ...]:
        """All topics, by name."""
        what = "the topic list"
        return parse_topic_list(
            ensure_success(self._ask(topic_list_request(), what), self.name_servers, what)
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

    def _ask(self, command: RemotingCommand, what: str) -> RemotingCommand:
        """Ask the current name server, then the others; raises the last error when all fail."""
        last: TransportError | None = None
        for step in range(len(self._name_servers)):
            index = (self._current + step) % len(self._name_servers)
            try:
                response = self._remoting.call(
                    self._name_servers[index], command, what, self._timeout_ms
                )
            except TransportError as error:
                _LOG.debug("= name server %s failed: %s", self._name_servers[index], error)
                last = error
            else:
                self._current = index
                return response
        if last is None:
            raise ConnectFailed("(none)", "no name server was given")
        raise last
