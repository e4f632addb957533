"""JSON bodies: how queues are written, and how to take fields out without trusting the peer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol import fastjson

T = TypeVar("T")


def encode_json(value: Mapping[str, Any]) -> bytes:
    """A body as fastjson would write it: no spaces, keys in order."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a body is not valid Unicode text: {error}") from error


def decode_object(body: bytes, what: str) -> dict[str, Any]:
    """A body that must be a JSON object."""
    value = fastjson.loads(body)
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{what}: expected a JSON object, found {value!r:.80}")
    return value


def typed(source: Mapping[str, Any], name: str, kind: type[T], what: str) -> T:
    """A field that must be there with this type (and no bool for an int)."""
    value = source.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RemoteProtocolError(
            f"{what}: field '{name}' should be {kind.__name__}, found {value!r:.80}"
        )
    return value


def objects(source: Mapping[str, Any], name: str, what: str) -> list[dict[str, Any]]:
    """A field that is a list of JSON objects; absent counts as empty, as fastjson omits nulls."""
    items = source.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise RemoteProtocolError(f"{what}: field '{name}' should be a list of objects")
    return items


def texts(source: Mapping[str, Any], name: str, what: str) -> list[str]:
    """A field that is a list of strings; absent counts as empty, as fastjson omits nulls."""
    items = source.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise RemoteProtocolError(f"{what}: field '{name}' should be a list of strings")
    return items


def queue_to_json(queue: MessageQueue) -> dict[str, Any]:
    """RocketMQ's JSON form of a message queue."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def queues_to_json(queues: Iterable[MessageQueue]) -> list[dict[str, Any]]:
    """A Java ``Set`` of message queues: a plain array."""
    return [queue_to_json(queue) for queue in queues]


def queue_from_json(source: Mapping[str, Any], what: str) -> MessageQueue:
    """Read RocketMQ's JSON form of a message queue."""
    return MessageQueue(
        typed(source, "topic", str, what),
        typed(source, "brokerName", str, what),
        typed(source, "queueId", int, what),
    )


def queue_from_key(key: str, what: str) -> MessageQueue:
    """Read a message queue used as a map's key: its JSON text."""
    # JSON can spell a lone surrogate, which has no UTF-8 form: let the body's own check refuse it.
    return queue_from_json(decode_object(key.encode("utf-8", "surrogatepass"), what), what)
