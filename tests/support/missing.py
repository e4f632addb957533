"""What a test does when a tool outside Python is missing: it fails under CI, else is skipped."""

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest
from tests.support.maven import ToolUnavailable
from tests.support.rocketmq import RocketMq

MISSING = "something is missing here"
# Environment: why no test that needs a server can run, said by who tried to build the broker.
LACKING = "RMQ_ORDERED_TESTS_LACK"


def give_up(missing: ToolUnavailable | str) -> NoReturn:
    """Skips the test, or fails it under ``CI=true``, so that its half of the proof cannot rot."""
    why = missing if isinstance(missing, str) else missing.reason
    reason = f"{MISSING}: {why}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def running(cluster: RocketMq) -> Iterator[RocketMq]:
    """What a fixture with a RocketMQ of its own yields from: started, and stopped at the end."""
    try:
        cluster.start()
    except ToolUnavailable as missing:
        give_up(missing)
    yield cluster
    cluster.stop()
