"""Which queues a query reads now, and what the brokers hold of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import BrokerError, OptionError, TopicNotFound, TransportError
from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.options import Selection
from rmq_ordered.protocol.codes import ResponseCode

T = TypeVar("T")
# A cluster may have thousands of topics: their list is asked for this often at most.
_TOPIC_LIST_LIFETIME_MS: Final = 10_000
_WAIT_POLL_MS: Final = 500
# How long a deleted topic may be listed after its brokers have forgotten it.
_DELETION_MS: Final = 5_000
# RocketMQ's TopicValidator, and the topics that each of its brokers keeps for itself.
_SYSTEM_TOPICS: Final = frozenset(
    {
        "BenchmarkTest", "DefaultCluster", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC", "TBW102", "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)  # fmt: skip
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_", "%RETRY%", "%DLQ%")
_SYSTEM_SUFFIX: Final = "_REPLY_TOPIC"


class Subscription:
    """Turns ``subscribe``, ``subscribePattern`` or ``assign`` into queues. Not thread-safe.

    Args:
        client: where to look.
        selection: what was asked for.
        wait_ms: how long to wait for topics that are not there.
        keeps_unlisted: whether a topic of a pattern is still read when no name server lists it
            because its brokers are away. Who has a place in it must not take it for deleted.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection,
        wait_ms: int | None,
        *,
        keeps_unlisted: bool = True,
    ) -> None:
        self._client = client
        self._selection = selection
        self._wait_ms = wait_ms
        self._keeps_unlisted = keeps_unlisted
        self._matching: tuple[str, ...] = ()
        self._listed_at_ms: int | None = None

    @property
    def is_open_ended(self) -> bool:
        """Whether topics may join that nobody named."""
        return self._selection.pattern is not None

    @property
    def assigned(self) -> frozenset[MessageQueue]:
        """The queues that were named one by one; none where topics are read whole."""
        return frozenset(self._selection.queues)

    def topics(self) -> tuple[str, ...]:
        """The topics to read now; raises when there is none."""
        if self._selection.topics:
            return self._selection.topics
        if self._selection.queues:
            return tuple(sorted({queue.topic for queue in self._selection.queues}))
        return self._waiting(self._topics_of_pattern)

    def spans(self) -> dict[MessageQueue, OffsetSpan]:
        """What the brokers hold of every queue now; one request per broker and topic."""
        spans = self._waiting(self._readable_spans)
        if not self._selection.queues:
            return spans
        for queue in self._selection.queues:
            if queue not in spans:
                known = ", ".join(str(one) for one in sorted(spans) if one.topic == queue.topic)
                raise OptionError("assign", str(queue), f"a queue that can be read, one of {known}")
        return {queue: spans[queue] for queue in self._selection.queues}

    def ensure_complete(self) -> None:
        """Raise unless every broker with queues of the topics has a master now."""
        for topic in self.topics():
            self._client.routes.ensure_complete(topic)

    def _readable_spans(self) -> dict[MessageQueue, OffsetSpan]:
        """Look once; a topic of a pattern that was deleted since the last list is left out."""
        clock = self._client.clock
        deadline_ms = clock.monotonic_ms() + _DELETION_MS
        while True:
            try:
                return self._spans_of(self.topics())
            except TopicNotFound as error:
                if not self.is_open_ended:
                    raise
                self._listed_at_ms = None
                self._client.routes.forget(error.topic)
                if error.topic in self.topics():
                    # The brokers forget a topic before the name servers do.
                    if clock.monotonic_ms() >= deadline_ms:
                        raise
                    clock.pause_ms(_WAIT_POLL_MS)

    def _spans_of(self, topics: tuple[str, ...]) -> dict[MessageQueue, OffsetSpan]:
        spans = self._client.broker.topics_stats(topics)
        for topic in sorted(set(topics) - {queue.topic for queue in spans}):
            raise BrokerError(
                self._client.routes.name_servers,
                f"reading topic {topic}",
                ResponseCode.NO_PERMISSION,
                "the topic has no readable queue on a broker with a master; check the topic's "
                "permission and its brokers",
            )
        return spans

    def _topics_of_pattern(self) -> tuple[str, ...]:
        now_ms = self._client.clock.monotonic_ms()
        is_fresh = (
            self._listed_at_ms is not None and now_ms - self._listed_at_ms < _TOPIC_LIST_LIFETIME_MS
        )
        if not self._matching or not is_fresh:
            listed = self._listed()
            away = {topic for topic in self._matching if self._is_away(topic, listed)}
            self._matching = tuple(sorted(listed | away))
            self._listed_at_ms = now_ms
        if not self._matching:
            raise TopicNotFound(
                self._client.routes.name_servers, f"(matching {self._selection.pattern})"
            )
        return self._matching

    def _listed(self) -> set[str]:
        pattern = re.compile(self._selection.pattern or "")
        own = {broker.name for broker in self._client.routes.brokers()}
        known = [topic for topic in self._client.routes.topics() if not _is_system(topic)]
        return {topic for topic in known if topic not in own and pattern.fullmatch(topic)}

    def _is_away(self, topic: str, listed: set[str]) -> bool:
        """Whether a topic is not listed because its brokers are away: it was not deleted."""
        if topic in listed or not self._keeps_unlisted:
            return False
        self._client.routes.forget(topic)
        try:
            self._client.routes.route(topic)
        except TopicNotFound:
            return False
        except TransportError:
            pass  # who would know of a deletion is away
        return True

    def _waiting(self, attempt: Callable[[], T]) -> T:
        """Try again while a topic is missing and ``waitForTopic`` allows."""
        clock = self._client.clock
        deadline_ms = clock.monotonic_ms() + (self._wait_ms or 0)
        while True:
            try:
                return attempt()
            except TopicNotFound:
                if clock.monotonic_ms() >= deadline_ms:
                    raise
            clock.pause_ms(_WAIT_POLL_MS)


def _is_system(topic: str) -> bool:
    return (
        topic in _SYSTEM_TOPICS
        or topic.startswith(_SYSTEM_PREFIXES)
        or topic.endswith(_SYSTEM_SUFFIX)
    )
