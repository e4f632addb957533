"""A whole cluster in memory: clock, network, name servers and brokers, and clients for it."""

from __future__ import annotations

from collections.abc import Sequence

from rmq_ordered.client.connection import Client
from rmq_ordered.testing.broker import BrokerDouble
from rmq_ordered.testing.clock import ManualClock
from rmq_ordered.testing.nameserver import NameServerDouble
from rmq_ordered.testing.network import ScriptedNetwork


class ClusterDouble:
    """Brokers ``broker-a``, ``broker-b``, ... behind name servers that all know them.

    Args:
        brokers: how many.
        name_servers: their addresses.
        features: what the brokers announce beyond RocketMQ.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        name_servers: Sequence[str] = ("names-1:9876",),
        features: frozenset[str] = frozenset(),
    ) -> None:
        self.clock = ManualClock()
        self.network = ScriptedNetwork()
        self.brokers = [
            BrokerDouble(self.clock, f"broker-{letter}:10911", f"broker-{letter}", features)
            for letter in "abcdefgh"[:brokers]
        ]
        self.name_server = NameServerDouble(self.brokers)
        self.name_servers = tuple(name_servers)
        for broker in self.brokers:
            self.network.listen(broker.address, broker.serve)
        for address in self.name_servers:
            self.network.listen(address, self.name_server.serve)

    def client(self, *, request_timeout_ms: int = 3_000) -> Client:
        """A client of this cluster, on this cluster's clock."""
        return Client(
            self.name_servers,
            request_timeout_ms=request_timeout_ms,
            clock=self.clock,
            connect=self.network.connect,
        )
