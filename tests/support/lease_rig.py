"""A broker with four queues, and keepers of leases that tests can watch and hinder."""

from collections.abc import Callable
from typing import Any

from rmq_ordered.client import Client, LeaseKeeper
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH
from rmq_ordered.testing import (
    BrokerDouble,
    ClusterDouble,
)


class Rig:
    """One broker with four queues, and a keeper for the client under test."""

    def __init__(self, *, has_epochs: bool) -> None:
        features = frozenset({FEATURE_LEASE_EPOCH}) if has_epochs else frozenset[str]()
        self.cluster = ClusterDouble(features=features)
        self.clock = self.cluster.clock
        self.network = self.cluster.network
        self.broker: BrokerDouble = self.cluster.brokers[0]
        self.queues = self.broker.add_topic("orders", 4)
        self.client: Client = self.cluster.client()
        self._keepers: list[LeaseKeeper] = []
        self.keeper = self.new_keeper("me#1")

    def new_keeper(self, client_id: str, **settings: Any) -> LeaseKeeper:
        keeper = LeaseKeeper(self.client.broker, self.clock, "billing", client_id, **settings)
        self._keepers.append(keeper)
        return keeper

    def owners(self) -> list[str | None]:
        now_ms = self.clock.monotonic_ms()
        return [self.broker.locks.owner("billing", queue, now_ms) for queue in self.queues]

    def lock_as(self, client_id: str, queue: MessageQueue) -> None:
        self.broker.locks.lock("billing", client_id, queue, self.clock.monotonic_ms())

    def on_pause(self, action: Callable[[], None]) -> None:
        """Do something whenever somebody lets time pass."""
        pause = self.clock.pause_ms

        def pause_and_act(duration_ms: int) -> None:
            pause(duration_ms)
            action()

        self.clock.pause_ms = pause_and_act  # type: ignore[method-assign]

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.release()
        self.client.close()
