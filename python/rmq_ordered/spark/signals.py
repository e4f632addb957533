"""Ending well: Spark stops a streaming source with SIGTERM, twice, and rarely waits for stop().

The first signal becomes a normal exit, whose ``finally`` calls ``stop()``; from then on SIGTERM is
ignored, so that the second one does not cut off the release of leases. Only ever installed in
Spark's source runner.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

_RUNNER = "python_streaming_source_runner"


def is_source_runner() -> bool:
    """Whether this process is Spark's dedicated process for one streaming source."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.endswith(_RUNNER)


def exit_on_sigterm() -> None:
    """Turn SIGTERM into a normal exit of the source runner; elsewhere do nothing."""
    if is_source_runner():
        signal.signal(signal.SIGTERM, _exit)


def ignore_sigterm() -> None:
    """Let what is being released be released; elsewhere than in the source runner do nothing."""
    if is_source_runner():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _exit(signum: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)
