"""The embedded broker as users see it: one class, two ways to run."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from rmq_ordered.clock import Clock
from rmq_ordered.embedded.injvm import DriverBroker
from rmq_ordered.embedded.process import BrokerProcess
from rmq_ordered.errors import EmbeddedBrokerError, EmbeddedBrokerUnavailable
from rmq_ordered.net.system import SystemClock

_LOG: Final = logging.getLogger("rmq_ordered.embedded")
# A JVM takes under a second; recovery of a large log and a loaded machine take longer.
_START_TIMEOUT_MS: Final = 60_000


class _Running(Protocol):
    """A broker that runs, however."""

    @property
    def address(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def is_running(self) -> bool: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class EmbeddedBroker:
    """A broker of one's own: name server and broker on one port, for tests, demos and laptops.

    Use it as a context manager, or call ``start`` and ``stop``. Not thread-safe. It ends with this
    process, even if that is killed. Once started it keeps its port: after ``stop`` or ``kill``,
    ``start`` serves the same data at the same address, as clients expect of a restart.

    Args:
        data: where messages are kept; None for a temporary directory that ``stop`` removes.
        listen: ``host:port``; port 0 picks a free one.
        settings: the broker's settings by name, as in its configuration file.
        spark: a classic SparkSession in whose driver JVM the broker shall run; None for a process.
        start_timeout_ms: how long the process may take until it serves.
        clock: time; tests pass their own.
    """

    def __init__(
        self,
        data: Path | str | None = None,
        *,
        listen: str = "127.0.0.1:0",
        settings: Mapping[str, str] | None = None,
        spark: object | None = None,
        start_timeout_ms: int = _START_TIMEOUT_MS,
        clock: Clock | None = None,
    ) -> None:
        self._data = None if data is None else Path(data).expanduser().absolute()
        self._is_temporary = data is None
        self._listen = listen
        self._settings = dict(settings or {})
        self._spark = spark
        self._start_timeout_ms = start_timeout_ms
        self._clock: Clock = clock or SystemClock()
        self._running: _Running | None = None
        self._owner_pid = os.getpid()

    @property
    def name_server(self) -> str:
        """The address to give to clients, ``host:port``; raises unless started."""
        return self._started().address

    @property
    def data(self) -> Path:
        """The data directory; a temporary one exists between ``start`` and ``stop``."""
        if self._data is None:
            raise _not_started()
        return self._data

    @property
    def pid(self) -> int | None:
        """The process id of the broker, None inside a driver's JVM; raises unless started."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the broker was started and has not ended, by itself or otherwise."""
        return self._running is not None and self._running.is_running

    def start(self) -> Self:
        """Start the broker and return when it serves.

        Raises:
            EmbeddedBrokerError: it runs already, something it needs is missing, or it failed; the
                sentence has the last lines of its log.
        """
        if self._running is not None:
            raise EmbeddedBrokerUnavailable(
                "the embedded broker was started already; stop it first"
            )
        try:
            self._running = self._run(self._ensure_data())
        except BaseException:
            self._remove_temporary()
            raise
        host, _, _ = self._listen.rpartition(":")
        _, _, port = self._running.address.rpartition(":")
        self._listen = f"{host}:{port}"
        atexit.register(self._stop_at_exit)
        return self

    def stop(self) -> None:
        """Flush, close and end the broker, and wait for that. Idempotent.

        Raises:
            EmbeddedBrokerError: it had died before or did not end in order.
        """
        atexit.unregister(self._stop_at_exit)
        running, self._running = self._running, None
        try:
            if running is not None:
                running.stop()
        finally:
            self._remove_temporary()

    def kill(self) -> None:
        """End the broker's process as a crash would (SIGKILL); its data stays until ``stop``."""
        self._started().kill()
        self._running = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except EmbeddedBrokerError as failure:
            if error is None:
                raise
            # The error on its way out is the one to see; this is often its cause.
            _LOG.warning("while another error was raised: %s", failure)

    def _run(self, data: Path) -> _Running:
        if self._spark is not None:
            return DriverBroker(self._spark, data, self._listen, self._settings)
        return BrokerProcess(
            data,
            self._listen,
            self._settings,
            start_timeout_ms=self._start_timeout_ms,
            clock=self._clock,
        )

    def _ensure_data(self) -> Path:
        if self._data is None:
            self._data = Path(tempfile.mkdtemp(prefix="rmq-ordered-"))
        try:
            self._data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedBrokerUnavailable(
                f"the data directory {self._data} cannot be made: {error.strerror}"
            ) from error
        return self._data

    def _remove_temporary(self) -> None:
        if self._is_temporary and self._data is not None:
            shutil.rmtree(self._data)
            self._data = None

    def _started(self) -> _Running:
        if self._running is None:
            raise _not_started()
        return self._running

    def _stop_at_exit(self) -> None:
        # A forked child inherits this registration but not the broker.
        if os.getpid() == self._owner_pid:
            self.stop()


def _not_started() -> EmbeddedBrokerUnavailable:
    return EmbeddedBrokerUnavailable(
        "the embedded broker is not started: use `with EmbeddedBroker() as broker:` or call start()"
    )
