"""Consumer groups: membership and committed offsets; and the offsets of single queues."""

from __future__ import annotations

from collections.abc import Iterable

from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.bodies import decode_object, texts
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import StartPoint, Subscription, heartbeat


def heartbeat_request(
    client_id: str, group: str, topics: Iterable[str], *, version_ms: int
) -> RemotingCommand:
    """Register a client as a member of a group; creates the group and its retry topic."""
    subscriptions = [Subscription(topic).to_json(version_ms) for topic in sorted(topics)]
    return heartbeat(client_id, group, "CONSUME_ACTIVELY", StartPoint.FIRST, subscriptions)


def unregister_request(client_id: str, group: str) -> RemotingCommand:
    """Leave a group."""
    fields = {"clientID": client_id, "consumerGroup": group}
    return RemotingCommand(RequestCode.UNREGISTER_CLIENT, ext_fields=fields)


def members_request(group: str) -> RemotingCommand:
    """Ask who is in a group."""
    return RemotingCommand(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext_fields={"consumerGroup": group}
    )


def parse_members(response: RemotingCommand) -> tuple[str, ...]:
    """The client ids in an answer to ``members_request``, sorted as Java sorts them."""
    what = "consumer list"
    return tuple(sorted(texts(decode_object(response.body, what), "consumerIdList", what)))


def query_offset_request(group: str, queue: MessageQueue) -> RemotingCommand:
    """Ask for a committed offset, telling "never committed" from zero (setZeroIfNotFound)."""
    fields = _queue_fields(queue) | {"consumerGroup": group, "setZeroIfNotFound": "false"}
    return RemotingCommand(RequestCode.QUERY_CONSUMER_OFFSET, ext_fields=fields)


def update_offset_request(
    group: str, queue: MessageQueue, queue_offset: int, *, lease_epoch: int | None = None
) -> RemotingCommand:
    """Commit an offset; with a lease epoch the embedded broker refuses a stale owner."""
    fields = _queue_fields(queue) | {"commitOffset": str(queue_offset), "consumerGroup": group}
    if lease_epoch is not None:
        fields["leaseEpoch"] = str(lease_epoch)
    return RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, ext_fields=fields)


def max_offset_request(queue: MessageQueue) -> RemotingCommand:
    """Ask for the offset that the next message will get."""
    return RemotingCommand(RequestCode.GET_MAX_OFFSET, ext_fields=_queue_fields(queue))


def min_offset_request(queue: MessageQueue) -> RemotingCommand:
    """Ask for the first offset that is still there."""
    return RemotingCommand(RequestCode.GET_MIN_OFFSET, ext_fields=_queue_fields(queue))


def search_offset_request(queue: MessageQueue, timestamp_ms: int) -> RemotingCommand:
    """Ask for the first message stored at or after a time."""
    fields = _queue_fields(queue) | {"boundaryType": "LOWER", "timestamp": str(timestamp_ms)}
    return RemotingCommand(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext_fields=fields)


def _queue_fields(queue: MessageQueue) -> dict[str, str]:
    return {"bname": queue.broker_name, "queueId": str(queue.queue_id), "topic": queue.topic}
