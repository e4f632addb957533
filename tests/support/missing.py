"""What a test does when a tool outside Python is missing: it fails under CI, else is skipped."""

import os
from typing import NoReturn

import pytest
from tests.support.maven import ToolUnavailable

MISSING = "the real Apache RocketMQ is missing"


def give_up(missing: ToolUnavailable) -> NoReturn:
    """Skips the test, or fails it under ``CI=true``, so that its half of the proof cannot rot."""
    reason = f"{MISSING}: {missing.reason}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
