"""Broker requests about topics as a whole: create, delete, how far each queue reaches."""

from __future__ import annotations

from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.protocol.bodies import decode_object, queue_from_key, typed
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand


def create_topic_request(topic: str, queues: int, *, ordered: bool = True) -> RemotingCommand:
    """Create a topic, or change its number of queues."""
    fields = {
        "defaultTopic": "TBW102",
        "order": str(ordered).lower(),
        "perm": "6",
        "readQueueNums": str(queues),
        "topic": topic,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "writeQueueNums": str(queues),
    }
    return RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, ext_fields=fields)


def delete_topic_request(topic: str) -> RemotingCommand:
    """Delete a topic from one broker."""
    return RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, ext_fields={"topic": topic})


def topic_stats_request(topic: str) -> RemotingCommand:
    """Ask for the first and last offsets of all queues at once."""
    return RemotingCommand(RequestCode.GET_TOPIC_STATS_INFO, ext_fields={"topic": topic})


def parse_topic_stats(response: RemotingCommand, topic: str) -> dict[MessageQueue, OffsetSpan]:
    """Per queue what the broker holds."""
    what = f"statistics of topic {topic}"
    table = typed(decode_object(response.body, what), "offsetTable", dict, what)
    spans: dict[MessageQueue, OffsetSpan] = {}
    for key, value in table.items():
        # A queue that nobody wrote to may lack the time of its last message.
        row = {"lastUpdateTimestamp": 0} | (value if isinstance(value, dict) else {})
        spans[queue_from_key(key, what)] = OffsetSpan(
            minimum=typed(row, "minOffset", int, what),
            maximum=typed(row, "maxOffset", int, what),
            last_stored_ms=typed(row, "lastUpdateTimestamp", int, what),
        )
    return spans
