"""The same kind of work at several brokers at once: one that is away keeps nobody else waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from rmq_ordered.clock import Clock
from rmq_ordered.errors import RmqOrderedError

T = TypeVar("T")


def at_each(
    clock: Clock, jobs: Mapping[str, Callable[[], T]], deadline_ms: int | None = None
) -> dict[str, T | RmqOrderedError]:
    """Run a job for each broker side by side; what each returned, or the error it raised.

    A broker whose job has not ended at the deadline is missing from the answer. Its job goes on,
    on a thread that keeps no process from ending.

    Args:
        clock: what the deadline is told by.
        jobs: by the broker's name or address.
        deadline_ms: until when to wait; without one, until all have ended.

    Raises:
        BaseException: what a job raised that is no error of this package.
    """
    if len(jobs) == 1 and deadline_ms is None:
        ((name, job),) = jobs.items()
        return {name: _Running(name, job).run()}
    running = [_Running(name, job).start() for name, job in jobs.items()]
    for one in running:
        left_s = None if deadline_ms is None else (deadline_ms - clock.monotonic_ms()) / 1000
        one.wait(left_s)
    return {one.name: one.outcome() for one in running if one.has_ended}


class _Running(Generic[T]):
    """A job and what became of it."""

    def __init__(self, name: str, job: Callable[[], T]) -> None:
        self.name = name
        self._job = job
        self._found: list[T | RmqOrderedError] = []
        self._failure: BaseException | None = None
        self._ended = threading.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def start(self) -> _Running[T]:
        name = f"rmq-ordered at {self.name}"
        threading.Thread(target=self._run_aside, name=name, daemon=True).start()
        return self

    def wait(self, timeout_s: float | None) -> None:
        self._ended.wait(None if timeout_s is None else max(0.0, timeout_s))

    def run(self) -> T | RmqOrderedError:
        try:
            return self._job()
        except RmqOrderedError as error:
            return error

    def outcome(self) -> T | RmqOrderedError:
        if self._failure is not None:
            raise self._failure
        return self._found[0]

    def _run_aside(self) -> None:
        try:
            self._found.append(self.run())
        except BaseException as error:  # noqa: BLE001 (a thread's end: its starter raises it)
            self._failure = error
        self._ended.set()
