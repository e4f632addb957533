"""What a test does when a tool outside Python is missing: it fails under CI, else is skipped."""

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest
from tests.support.maven import ToolUnavailable
from tests.support.rocketmq import RocketMq

MISSING = "the real Apache RocketMQ is missing"


def give_up(missing: ToolUnavailable) -> NoReturn:
    """Skips the test, or fails it under ``CI=true``, so that its half of the proof cannot rot."""
    reason = f"{MISSING}: {missing.reason}"
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
