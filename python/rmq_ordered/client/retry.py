"""The one retry loop: for requests that may safely be sent again, until a deadline."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from rmq_ordered.clock import Clock
from rmq_ordered.errors import RmqOrderedError

T = TypeVar("T")
_LOG: Final = logging.getLogger("rmq_ordered.client")
_FIRST_PAUSE_MS: Final = 50
_LONGEST_PAUSE_MS: Final = 1_000


def retry_until(clock: Clock, deadline_ms: int, attempt: Callable[[], T]) -> T:
    """Call until it succeeds, fails for good, or the deadline passes: then raise the last error."""
    pause_ms = _FIRST_PAUSE_MS
    while True:
        try:
            return attempt()
        except RmqOrderedError as error:
            if not error.retryable or clock.monotonic_ms() + pause_ms >= deadline_ms:
                raise
            _LOG.debug("= will try again in %s ms: %s", pause_ms, error)
        clock.pause_ms(pause_ms)
        pause_ms = min(pause_ms * 2, _LONGEST_PAUSE_MS)
