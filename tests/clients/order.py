"""What the client tests assert about order and wait for, each property once and by name."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients, Received, Sent
from tests.support.waiting import DeadlineExceeded, wait_until

COMMIT_TIMEOUT_S = 30.0
REBALANCE_TIMEOUT_S = 60.0
DEATH_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class DeadLetter:
    """A message in a dead-letter queue, as Apache's decoder reads it."""

    body: str
    reconsume_times: int
    properties: Mapping[str, str]


def keyed_messages(keys: int, each: int, *, first: int = 0) -> list[tuple[str, str]]:
    """Returns (key, value) pairs, keys interleaved; a value is ``key#number``, rising per key."""
    return [
        (f"order-{key}", f"order-{key}#{number}")
        for number in range(first, first + each)
        for key in range(keys)
    ]


def assert_first_deliveries_follow_send_order(
    received: Iterable[Received], sent: Sequence[tuple[str, str]]
) -> None:
    """Per key, first deliveries of values come in the order of sending, and none is missing."""
    expected: dict[str, list[str]] = defaultdict(list)
    for key, value in sent:
        expected[key].append(value)
    seen: dict[str, list[str]] = defaultdict(list)
    for message in sorted(received, key=lambda message: message.started_at_ms):
        key = message.body.split("#")[0]
        if message.body not in seen[key]:
            seen[key].append(message.body)
    assert dict(seen) == dict(expected)


def assert_queue_offsets_rise(received: Iterable[Received]) -> None:
    """Per queue, a single consumer handles offsets 0, 1, 2, ... without gap or repetition."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for message in received:
        offsets[message.queue_id].append(message.queue_offset)
    for queue_id, handled in offsets.items():
        assert handled == list(range(len(handled))), f"queue {queue_id}"


def assert_one_owner_at_a_time(one: Iterable[Received], other: Iterable[Received]) -> None:
    """No queue is handled by two consumers at the same moment."""
    for mine in one:
        for theirs in other:
            overlap = (
                mine.queue_id == theirs.queue_id
                and mine.started_at_ms < theirs.ended_at_ms
                and theirs.started_at_ms < mine.ended_at_ms
            )
            assert not overlap, f"both owned queue {mine.queue_id}: {mine} and {theirs}"


def wait_until_all_committed(broker: Broker, group: str, topic: str, sent: Sequence[Sent]) -> None:
    """Waits until the group's offset of each queue is one past the last message sent to it.

    Of a group's first commits, sent together and answered by nobody, RocketMQ may forget one. So
    this is to be called while the consumer lives, which commits again each second, or for a group
    that has committed before.
    """
    ends: dict[int, int] = {}
    for message in sent:
        ends[message.queue_id] = max(ends.get(message.queue_id, 0), message.queue_offset + 1)

    def missing() -> dict[int, int | None]:
        found = {
            queue_id: frames.committed_offset(broker.broker_address, group, topic, queue_id)
            for queue_id in ends
        }
        return {queue_id: at for queue_id, at in found.items() if at != ends[queue_id]}

    what = f"{group} has committed {ends}"
    try:
        wait_until(lambda: not missing(), what, COMMIT_TIMEOUT_S)
    except DeadlineExceeded:
        raise DeadlineExceeded(what, COMMIT_TIMEOUT_S, missing()) from None


def wait_until_assigned(consumer: Consumer, queues: int) -> None:
    """Waits until the last rebalance of a push consumer gave it so many queues."""
    wait_until(
        lambda: len(consumer.assigned_queue_ids or []) == queues,
        f"{consumer.client_id} has {queues} queues",
        REBALANCE_TIMEOUT_S,
    )


def dead_letters(broker: Broker, clients: JavaClients, group: str) -> list[DeadLetter]:
    """Waits until the group's dead-letter queue has something, and returns what it holds."""
    topic = f"%DLQ%{group}"
    body = wait_until(
        lambda: frames.pull(broker.broker_address, topic, 0, 0).body,
        f"{topic} has a message",
        DEATH_TIMEOUT_S,
    )
    return [
        DeadLetter(
            body=bytes.fromhex(event["bodyHex"]).decode(),
            reconsume_times=event["reconsumeTimes"],
            properties=event["properties"],
        )
        for event in clients.run("BodyDecoder", [], [body.hex()])
    ]
