"""Where the embedded broker and Apache RocketMQ differ on purpose, each with its reason.

A test marks itself with ``diverges(request, "name")``; the mark is strict, so that a difference
that has gone makes the suite fail until it is taken off the list.
"""

from dataclasses import dataclass

import pytest
from tests.support.brokers import Broker


@dataclass(frozen=True)
class Divergence:
    """One difference: on which broker the contract does not hold, and why that is accepted."""

    kind: str
    reason: str


DIVERGENCES = {
    "fenced pulls": Divergence("rocketmq", "RocketMQ does not check locks on pulls"),
    "fenced commits": Divergence("rocketmq", "RocketMQ accepts an offset from anybody"),
    "fenced writes": Divergence("rocketmq", "RocketMQ does not know what a sender has read"),
    "lease table": Divergence("rocketmq", "RocketMQ has no request that reads its lock table"),
    "wide pulls": Divergence("rocketmq", "RocketMQ returns at most 32 messages per pull"),
    "pop acks": Divergence(
        "rocketmq", "RocketMQ hands out acknowledged messages again behind one that timed out"
    ),
    "pop times": Divergence("rocketmq", "RocketMQ takes any invisible time"),
    "pop state": Divergence("rocketmq", "RocketMQ has no request that shows what is popped"),
    "idempotent sends": Divergence("rocketmq", "RocketMQ stores whatever it is sent, repeats too"),
    "lock owner": Divergence("rocketmq", "RocketMQ does not say who holds a lock"),
}


def diverges(request: pytest.FixtureRequest, broker: Broker, name: str) -> None:
    """Expect the test to fail on the broker that differs."""
    divergence = DIVERGENCES[name]
    if broker.kind == divergence.kind:
        request.node.add_marker(pytest.mark.xfail(reason=divergence.reason, strict=True))
