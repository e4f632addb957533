"""What a Python worker process of Spark is told once, before it moves data.

Workers live for many tasks and do the same all the time: they need not give back what they will
need again a moment later.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from typing import Final

# glibc's names and numbers (malloc.h). It takes no larger threshold for the first one.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT_BYTES: Final = 32 * 1024 * 1024
_MOST_KEPT_BYTES: Final = 128 * 1024 * 1024


@cache
def settle_in() -> None:
    """Once per worker."""
    _spare_the_collector()
    _keep_freed_memory()


def _spare_the_collector() -> None:
    """Modules stay for good, so do not look through them for garbage.

    Spark collects garbage after every task, and reading fills the young generation quickly: without
    this a twelfth of a worker's time goes into visiting what is never freed.
    """
    gc.freeze()


def _keep_freed_memory() -> None:
    """Let the process keep freed arrays, where glibc can be asked to.

    numpy's arrays of some hundred kilobytes otherwise come from the kernel and go back to it with
    every chunk, and each of their pages is a fault: on a virtual machine that was more than half of
    the time in which properties are taken apart.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
