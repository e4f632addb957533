"""From the text of one option to its value; raises ValueError, TypeError or KeyError."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rmq_ordered.model import MessageQueue

# RocketMQ's TopicValidator: these characters and no others, at most 127 of them.
_TOPIC_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%|"
)
# A year. Python's locks cannot wait for what 64 bits of milliseconds can say.
LONGEST_DURATION: Final = "at most 8760h"
_LONGEST_MS: Final = 8_760 * 3_600_000
_MOST: Final = 2**63 - 1
# In JSON offsets, as in Spark's Kafka source.
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2


def parse_name_servers(text: str) -> tuple[str, ...]:
    """``host:port;host:port`` (a comma will do as well) in its addresses."""
    addresses = tuple(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
            raise ValueError(address)
    if not addresses:
        raise ValueError(text)
    return addresses


def parse_topic(text: str) -> str:
    """A legal topic name."""
    name = text.strip()
    if not name or len(name) > 127 or not set(name) <= _TOPIC_CHARACTERS:
        raise ValueError(text)
    return name


def parse_topics(text: str) -> tuple[str, ...]:
    """Topic names separated by commas, sorted."""
    return tuple(sorted({parse_topic(part) for part in text.split(",")}))


def parse_group(text: str) -> str:
    """A legal consumer group name."""
    name = text.strip()
    if not name or len(name) > 120 or not set(name) <= _TOPIC_CHARACTERS:
        raise ValueError(text)
    return name


def parse_pattern(text: str) -> str:
    """A regular expression that compiles."""
    if not text.strip():
        raise ValueError(text)
    try:
        re.compile(text.strip())
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(text) from error
    return text.strip()


def parse_duration_ms(text: str) -> int:
    """``90s``, ``1500ms``, ``2m`` in milliseconds; a bare number counts milliseconds."""
    units = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
    number = text.strip().rstrip("msh")
    unit = text.strip()[len(number) :] or "ms"
    duration_ms = int(number) * units[unit] if number.isdecimal() else 0
    if not 0 < duration_ms <= _LONGEST_MS:
        raise ValueError(text)
    return duration_ms


def parse_count(text: str) -> int:
    """A whole number above 0 that fits in 64 bits."""
    number = int(text) if text.strip().isdecimal() else 0
    if not 0 < number <= _MOST:
        raise ValueError(text)
    return number


def parse_bytes(text: str) -> int:
    """``64m``, ``1g``, ``512k`` or a bare number of bytes, that fits in 64 bits."""
    units = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
    lowered = text.strip().lower().removesuffix("b")
    number = lowered.rstrip("kmg")
    size = parse_count(number) * units[lowered[len(number) :]]
    if size > _MOST:
        raise ValueError(text)
    return size


def parse_flag(text: str) -> bool:
    """``true`` or ``false``."""
    return {"true": True, "false": False}[text.strip().lower()]


def parse_words(text: str) -> str:
    """Any text that is not blank."""
    if not text.strip():
        raise ValueError(text)
    return text.strip()


def parse_instance(text: str) -> str:
    """A name for client ids: '#' separates their parts, '@' the topic from the group."""
    if not text.strip() or set("#@") & set(text):
        raise ValueError(text)
    return text.strip()


def parse_key_source(text: str) -> str:
    """The property that becomes the key."""
    named = {"shardingKey": "__SHARDINGKEY", "keys": "KEYS", "tags": "TAGS"}
    kind, separator, name = text.strip().partition(":")
    if kind == "property" and separator and name:
        return name
    return named[text.strip()]


def parse_tags(text: str) -> tuple[str, ...]:
    """``A || B`` in its tags, sorted; RocketMQ keeps tags in one property, so no blanks inside."""
    tags = {part.strip() for part in text.split("||")}
    if not all(tags) or "*" in tags or any(re.search(r"[\s|\x01\x02]", tag) for tag in tags):
        raise ValueError(text)
    return tuple(sorted(tags))


def parse_timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, or ISO 8601; without an offset the time is UTC."""
    if text.strip().isdecimal():
        return parse_count(text)
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds <= 0:
        raise ValueError(text)
    return milliseconds


def parse_queue_offsets(text: str) -> dict[MessageQueue, int]:
    """``{topic:{broker:{queue:offset}}}``, also as it stands in a query's progress."""
    return _queue_values(_json_topics(text), lowest=EARLIEST_OFFSET)


def parse_assignment(text: str) -> tuple[MessageQueue, ...]:
    """``{topic:{broker:[queue, ...]}}`` in its queues, sorted."""
    found: set[MessageQueue] = set()
    for topic, brokers in _table(_json_topics(text)):
        for broker, queue_ids in _table(brokers):
            if not isinstance(queue_ids, list) or not queue_ids:
                raise ValueError(text)
            found |= {
                MessageQueue(parse_topic(topic), broker, _whole(queue_id, 0))
                for queue_id in queue_ids
            }
    if not found:
        raise ValueError(text)
    return tuple(sorted(found))


def _json_topics(text: str) -> Any:
    loaded = json.loads(text)
    is_progress = isinstance(loaded, dict) and loaded.get("version") == 1 and "topics" in loaded
    return loaded["topics"] if is_progress else loaded


def _queue_values(topics: Any, lowest: int) -> dict[MessageQueue, int]:
    found: dict[MessageQueue, int] = {}
    for topic, brokers in _table(topics):
        for broker, queues in _table(brokers):
            for queue_id, value in _table(queues):
                # A jump in an offset of a query's progress: it stands at the second number.
                position = value[1] if isinstance(value, list) and len(value) == 2 else value
                queue = MessageQueue(parse_topic(topic), broker, _whole(int(queue_id), 0))
                found[queue] = _whole(position, lowest)
    if not found:
        raise ValueError(topics)
    return found


def _table(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return list(value.items())


def _whole(value: Any, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 2**63:
        raise ValueError(value)
    return value
