"""What a plan says of itself."""

import pytest

from rmq_ordered.client import ReadPlan
from rmq_ordered.model import MessageQueue, QueueRange

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("expression", "kind", "tags", "is_filtered"),
    [
        ("*", "TAG", set(), False),
        ("", "TAG", set(), False),
        ("a", "TAG", {"a"}, True),
        ("a|| b", "TAG", {"a", "b"}, True),
        ("a = 1", "SQL92", set(), True),
        ("*", "SQL92", set(), True),
    ],
)
def test_a_plan_knows_whether_messages_may_be_missing(
    expression: str, kind: str, tags: set[str], *, is_filtered: bool
) -> None:
    plan = ReadPlan(QueueRange(QUEUE, 0, 1), expression=expression, expression_type=kind)
    assert (plan.tags, plan.is_filtered) == (tags, is_filtered)


def test_a_queue_may_be_looked_up_by_another_topic_s_route() -> None:
    plan = ReadPlan(QueueRange(QUEUE, 0, 1))
    assert plan.address_queue == QUEUE
    elsewhere = ReadPlan(QueueRange(QUEUE, 0, 1), route_topic="payments")
    assert elsewhere.address_queue == MessageQueue("payments", "broker-a", 0)
