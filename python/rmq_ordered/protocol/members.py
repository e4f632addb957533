"""Being a member of a group: subscriptions, heartbeats, what brokers ask members, dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol.bodies import (
    decode_object,
    encode_json,
    queue_from_key,
    queue_to_json,
    typed,
)
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.properties import PROPERTY_UNIQ_KEY

ALL_TAGS: Final = "*"
RETRY_TOPIC_PREFIX: Final = "%RETRY%"
# RocketMQ's CONSUMER_SEND_MSG_BACK with a negative level: to the dead letters at once.
_TO_DEAD_LETTERS: Final = -1


class FilterKind(Enum):
    """How a subscription's expression is read."""

    TAG = "TAG"
    SQL92 = "SQL92"


class StartPoint(Enum):
    """Where a queue begins for which the group never committed an offset."""

    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    LAST = "CONSUME_FROM_LAST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What of a topic is wanted: all, some tags (``A || B``), or an SQL92 condition."""

    topic: str
    expression: str = ALL_TAGS
    kind: FilterKind = FilterKind.TAG

    @property
    def tags(self) -> frozenset[str]:
        """The tags named; empty for all, and for SQL92."""
        if self.kind is FilterKind.SQL92 or self.expression.strip() in ("", ALL_TAGS):
            return frozenset()
        return frozenset(tag.strip() for tag in self.expression.split("||") if tag.strip())

    def to_json(self, version_ms: int) -> dict[str, Any]:
        """RocketMQ's ``SubscriptionData``."""
        return {
            "classFilterMode": False,
            "codeSet": sorted({_tag_code(tag) for tag in self.tags}),
            "expressionType": self.kind.value,
            "subString": self.expression,
            "subVersion": version_ms,
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }


def retry_topic(group: str) -> str:
    """Where a group's messages go that are to be consumed again."""
    return f"{RETRY_TOPIC_PREFIX}{group}"


def member_heartbeat_request(
    client_id: str,
    group: str,
    subscriptions: Iterable[Subscription],
    *,
    start: StartPoint,
    version_ms: int,
) -> RemotingCommand:
    """Say "I am a push consumer of this group", as Java's clients do every 30 s."""
    data = [one.to_json(version_ms) for one in subscriptions]
    return heartbeat(client_id, group, "CONSUME_PASSIVELY", start, data)


def heartbeat(
    client_id: str,
    group: str,
    consume_type: str,
    start: StartPoint,
    subscriptions: Sequence[Mapping[str, Any]],
) -> RemotingCommand:
    """HEART_BEAT of one consumer; ``subscriptions`` are RocketMQ's ``SubscriptionData``."""
    consumer = {
        "consumeFromWhere": start.value,
        "consumeType": consume_type,
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    body = {
        "clientID": client_id,
        "consumerDataSet": [consumer],
        "heartbeatFingerprint": 0,
        "producerDataSet": [],
        "withoutSub": False,
    }
    return RemotingCommand(RequestCode.HEART_BEAT, ext_fields={}, body=encode_json(body))


def check_subscription_request(
    client_id: str, group: str, subscription: Subscription, *, version_ms: int
) -> RemotingCommand:
    """Ask whether a broker can serve a filter, before relying on it.

    RocketMQ does not say so in a pull: it gives every message where it cannot read the expression.
    """
    body = {
        "clientId": client_id,
        "group": group,
        "subscriptionData": subscription.to_json(version_ms),
    }
    return RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, ext_fields={}, body=encode_json(body))


def dead_letter_request(group: str, message: Message, max_attempts: int) -> RemotingCommand:
    """Hand a message to the group's dead letters (``%DLQ%group``) on the broker that has it."""
    fields = {
        "delayLevel": str(_TO_DEAD_LETTERS),
        "group": group,
        "maxReconsumeTimes": str(max_attempts),
        "offset": str(message.commit_log_offset),
        "originMsgId": message.properties.get(PROPERTY_UNIQ_KEY, ""),
        "originTopic": message.queue.topic,
        "unitMode": "false",
    }
    return RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, ext_fields=fields)


def parse_reset(request: RemotingCommand) -> tuple[str, dict[MessageQueue, int]]:
    """The group and the new offsets in RESET_CONSUMER_CLIENT_OFFSET."""
    what = "offset reset"
    table = typed(decode_object(request.body, what), "offsetTable", dict, what)
    offsets = {queue_from_key(key, what): typed(table, key, int, what) for key in table}
    return request.ext("group"), offsets


def running_info(
    properties: Mapping[str, str],
    subscriptions: Iterable[Subscription],
    queues: Mapping[MessageQueue, Mapping[str, Any]],
) -> bytes:
    """RocketMQ's ``ConsumerRunningInfo``, as much of it as mqadmin prints.

    Queues are keys as Java writes them: objects, which JSON does not know. Java's reader of version
    5.5 takes nothing else.
    """
    rows = (
        encode_json(queue_to_json(queue)) + b":" + encode_json(state)
        for queue, state in queues.items()
    )
    rest = encode_json(
        {
            "mqPopTable": {},
            "properties": dict(properties),
            "statusTable": {},
            "subscriptionSet": [one.to_json(0) for one in subscriptions],
            "userConsumerInfo": {},
        }
    )
    return b'{"mqTable":{' + b",".join(rows) + b"}," + rest[1:]


def _tag_code(tag: str) -> int:
    """Java's ``String.hashCode``, by which brokers compare tags."""
    value = 0
    for unit in memoryview(tag.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return (value ^ 0x8000_0000) - 0x8000_0000
