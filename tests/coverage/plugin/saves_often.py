"""A plugin of coverage.py that saves what was measured every second.

Coverage is written when a process ends. Many of those that our tests start never come so far: Spark
ends its workers by signals, and tests kill what they want to see killed. Imported by every process
that is measured, from the folder that is put on its path for that alone.
"""

import os
import threading
import time
from typing import Any

import coverage

EVERY_S = 1.0


def coverage_init(_registry: Any, _options: dict[str, str]) -> None:
    """Called in each process before it is measured."""
    _start()
    os.register_at_fork(after_in_child=_start)


def _start() -> None:
    threading.Thread(target=_save_often, name="saves-coverage", daemon=True).start()


def _save_often() -> None:
    while True:
        time.sleep(EVERY_S)
        measured = coverage.Coverage.current()
        if measured is not None:
            measured.save()
