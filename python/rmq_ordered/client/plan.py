"""What is to be read: a range of a queue, in whose name, and which of its messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from rmq_ordered.model import MessageQueue, QueueLease, QueueRange
from rmq_ordered.protocol.codes import FEATURE_FENCED_WRITE
from rmq_ordered.protocol.members import ALL_TAGS, FilterKind, Subscription

# A group name for reads that belong to no group: pulls need one, but nothing is committed under it.
ANONYMOUS_GROUP: Final = "rmq-ordered-reader"
# The tag expression that lets everything through.
ALL_MESSAGES: Final = ALL_TAGS
# What an expression is: tags joined by "||", or a condition over properties.
TAG_EXPRESSION: Final = FilterKind.TAG.value
SQL92_EXPRESSION: Final = FilterKind.SQL92.value


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Everything an executor needs to read one range; plain and picklable.

    Attributes:
        range: What is read.
        group: Under whose name.
        lease: The right to read it; its epoch goes with every pull.
        features: What the broker announces beyond RocketMQ.
        expression: Which messages the broker should give.
        expression_type: ``TAG`` or ``SQL92``. Tags are compared again here, as Java's clients do:
            the broker compares their hashes.
        route_topic: The topic whose route leads to the queue's broker, where that is another one:
            RocketMQ's name servers learn late of the retry topics of pops.
        run: Which run of a query reads, so that its writes can be fenced; known to tasks only.
    """

    range: QueueRange
    group: str = ANONYMOUS_GROUP
    lease: QueueLease | None = None
    features: frozenset[str] = frozenset()
    expression: str = ALL_MESSAGES
    expression_type: str = TAG_EXPRESSION
    route_topic: str | None = None
    run: str | None = None

    @property
    def fenced_run(self) -> str | None:
        """The run to name in pulls, if the broker fences the writes of runs."""
        is_leased = self.lease is not None and self.lease.epoch is not None
        return self.run if is_leased and FEATURE_FENCED_WRITE in self.features else None

    @property
    def address_queue(self) -> MessageQueue:
        """The queue to name when the broker's address is looked up."""
        queue = self.range.queue
        return queue if self.route_topic is None else replace(queue, topic=self.route_topic)

    @property
    def subscription(self) -> Subscription:
        """What of the topic is wanted."""
        kind = FilterKind(self.expression_type)
        return Subscription(self.range.queue.topic, self.expression, kind)

    @property
    def tags(self) -> frozenset[str]:
        """The tags that are wanted; empty if the expression does not choose by tags."""
        return self.subscription.tags

    @property
    def is_filtered(self) -> bool:
        """Whether the broker may rightly leave messages out."""
        return self.expression_type != TAG_EXPRESSION or bool(self.tags)
