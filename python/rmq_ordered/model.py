"""The nouns of RocketMQ as plain, frozen, picklable values, without behaviour of their own.

Ranges are half-open everywhere in this project: ``start`` is inside, ``end`` is not. A queue offset
counts messages of one queue; a commit-log offset counts bytes of one broker's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

# RocketMQ's maxMessageSize, of bodies and of whole batches.
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
# What is left of the 64 of a sink in a stamp when a resent batch adds a number to its name.
MAX_SINK_CHARACTERS: Final = 58


class Selector(StrEnum):
    """How rows are given to queues."""

    HASH = "hash"
    CONSISTENT = "consistent"
    QUEUE = "queue"
    ROUND_ROBIN = "roundrobin"


class Compression(StrEnum):
    """How large bodies are compressed. Java clients before 5.0 read zlib only."""

    NONE = "none"
    ZLIB = "zlib"
    LZ4 = "lz4"
    ZSTD = "zstd"


class OnDivergence(StrEnum):
    """What to do when a replay is not what landed before."""

    FAIL = "fail"
    RESEND = "resend"


class OnLayoutChange(StrEnum):
    """What to do when queues that keys were given to are gone."""

    FAIL = "fail"
    REHASH = "rehash"


@dataclass(frozen=True, order=True, slots=True)
class MessageQueue:
    """One queue of a topic on one broker: the unit of order."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}#{self.queue_id}"


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Queue offsets ``[start, end)`` of one queue."""

    queue: MessageQueue
    start: int
    end: int

    def __len__(self) -> int:
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """What a broker holds of a queue: offsets ``[minimum, maximum)``."""

    minimum: int
    maximum: int
    last_stored_ms: int = 0


@dataclass(frozen=True, slots=True)
class QueueLease:
    """The right of one client of a group to read a queue.

    ``epoch`` is the fencing number of the embedded broker; ``None`` where the broker has none.
    """

    group: str
    queue: MessageQueue
    client_id: str
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class LockAnswer:
    """The broker's verdict on one queue of a lock request."""

    queue: MessageQueue
    granted: bool
    owner: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message, decoded field by field: the readable form of a columnar row."""

    queue: MessageQueue
    queue_offset: int
    commit_log_offset: int
    body: bytes
    properties: Mapping[str, str]
    born_timestamp_ms: int
    store_timestamp_ms: int
    born_host: str
    store_host: str
    sys_flag: int = 0
    flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message to be sent: body, user flag and properties."""

    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a send landed: ``count`` messages from ``first_offset`` on."""

    queue: MessageQueue
    first_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class SendStream:
    """Who writes what: sequences count from 0 in each queue for each of these.

    Attributes:
        sink: a name that no other writer uses.
        batch: rises from one batch of the sink to the next.
        partition: which of the sink's tasks.
    """

    sink: str
    batch: int
    partition: int

    def __str__(self) -> str:
        return f"batch {self.batch}, partition {self.partition} of sink '{self.sink}'"


@dataclass(frozen=True, slots=True)
class LandedStamp:
    """The last message of a sink's partition that a queue holds."""

    batch: int
    sequence: int
    digest: int
    queue_offset: int


@dataclass(frozen=True, slots=True)
class QueueReceipt:
    """What became of the rows that one writer sent to one queue.

    Attributes:
        queue: the queue.
        count: rows that were stored by this writer.
        duplicates: rows that were there already, and were not stored again.
        first_offset: where the first of all these rows lies; None if the broker cannot tell.
        last_offset: where the last one lies; None if the broker cannot tell.
    """

    queue: MessageQueue
    count: int = 0
    duplicates: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerData:
    """One broker of a route: its master's address, if it has one."""

    name: str
    master: str | None


@dataclass(frozen=True, slots=True)
class QueueData:
    """How many queues of a topic one broker serves, and what may be done with them."""

    broker_name: str
    read_queues: int
    write_queues: int
    is_readable: bool
    is_writable: bool


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Where a topic lives, as the name server tells it."""

    topic: str
    brokers: tuple[BrokerData, ...]
    queues: tuple[QueueData, ...]
    order_conf: str | None = None
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """One row of the embedded broker's lease table."""

    group: str
    queue: MessageQueue
    client_id: str
    epoch: int
    granted_at_ms: int
    renewed_at_ms: int
    expires_in_ms: int
    is_live: bool


@dataclass(frozen=True, slots=True)
class OwnershipEvent:
    """One change of owner in the embedded broker's history."""

    at_ms: int
    group: str
    queue: MessageQueue
    previous_owner: str | None
    owner: str | None
    epoch: int
    reason: str
