"""How an ordered consumer behaves; every default is Java's unless its comment says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from rmq_ordered.client.leases import RENEW_MS, TRUST_MS
from rmq_ordered.errors import OptionError
from rmq_ordered.ordering.allocation import Allocate, allocate_averagely
from rmq_ordered.protocol.members import StartPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Settings of one consumer.

    Attributes:
        threads: how many listener calls may run at once, each for another queue.
        batch_size: how many messages one call may get.
        start: where queues begin for which the group never committed an offset.
        start_timestamp_ms: with ``StartPoint.TIMESTAMP``, the store time to begin at.
        allocate: who gets which queues; the same for all members of the group.
        max_reconsume_times: after so many retries a batch goes to the dead letters; -1 for never.
        suspend_ms: how long a suspended queue stands still.
        buffered_messages: how many messages of a queue may be pulled ahead.
        fail_on_data_loss: end with OffsetOutOfRange when a broker no longer has the messages that
            come next. Java's consumer goes on without them.
        commit_ms: how often offsets are committed (Java: 5 s).
        heartbeat_ms: how often to say that we are here (Java: 30 s).
        rebalance_ms: how often to look at the group when nobody says that it changed.
        renew_ms: how often leases are renewed.
        trust_ms: how long a lease is believed, less than the broker keeps it.
    """

    threads: int = 20
    batch_size: int = 1
    start: StartPoint = StartPoint.FIRST
    start_timestamp_ms: int | None = None
    allocate: Allocate = allocate_averagely
    max_reconsume_times: int = -1
    suspend_ms: int = 1_000
    buffered_messages: int = 1_000
    fail_on_data_loss: bool = True
    commit_ms: int = 1_000
    heartbeat_ms: int = 10_000
    rebalance_ms: int = 20_000
    renew_ms: int = RENEW_MS
    trust_ms: int = TRUST_MS

    def __post_init__(self) -> None:
        for name in ("threads", "batch_size", "buffered_messages", "commit_ms", "heartbeat_ms"):
            if getattr(self, name) < 1:
                raise OptionError(name, getattr(self, name), "at least 1")
        if not 0 < self.renew_ms < self.trust_ms:
            raise OptionError("renew_ms", self.renew_ms, f"between 0 and trust_ms={self.trust_ms}")
        if (self.start is StartPoint.TIMESTAMP) != (self.start_timestamp_ms is not None):
            expected = "a time with StartPoint.TIMESTAMP, and only with it"
            raise OptionError("start_timestamp_ms", self.start_timestamp_ms, expected)
