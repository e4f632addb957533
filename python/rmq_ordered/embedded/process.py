"""One broker as a child process: start it, wait for its ready line, end it.

The child's standard input is a pipe that this process holds and never writes to: when we die, by
whatever signal, the pipe closes and the broker ends itself (``--exit-with-stdin``). It has a
session of its own, so that Ctrl-C in our terminal reaches us only, and we stop it in order.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Final

from rmq_ordered.clock import Clock
from rmq_ordered.embedded.launcher import broker_command
from rmq_ordered.errors import EmbeddedBrokerError

_LOG: Final = logging.getLogger("rmq_ordered.embedded")
LOG_NAME: Final = "broker.log"
_CONFIG_NAME: Final = "embedded.properties"
_READY: Final = "ready "
# Closing flushes the log and the tables; a disk may be slow, but not for this long.
_STOP_TIMEOUT_S: Final = 20.0
_LAST_LINES: Final = 20
# The end of a log file that is searched for its last lines.
_LAST_BYTES: Final = 64 * 1024


class BrokerProcess:
    """A running broker. Not thread-safe. Its log is ``broker.log`` in the data directory.

    Args:
        data: an existing directory.
        listen: ``host:port``; port 0 picks a free one.
        settings: the broker's settings by name.
        start_timeout_ms: how long it may take until the broker serves.
        clock: time.

    Raises:
        EmbeddedBrokerError: it did not become ready; it does not run any more.
    """

    def __init__(
        self,
        data: Path,
        listen: str,
        settings: Mapping[str, str],
        *,
        start_timeout_ms: int,
        clock: Clock,
    ) -> None:
        self._log = data / LOG_NAME
        # Earlier runs in this directory wrote to the same file; their lines are not ours to show.
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        self._process = _spawn(_command(data, listen, settings), data, self._log)
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._reader = threading.Thread(
            target=_forward_lines,
            args=(self._process.stdout, self._lines),
            name="rmq-ordered broker output",
            daemon=True,
        )
        self._reader.start()
        try:
            self.address = self._await_ready(start_timeout_ms, clock)
        except BaseException:  # also Ctrl-C: nobody would be left to end the child
            self.kill()
            raise
        _LOG.info("embedded broker ready address=%s pid=%s", self.address, self.pid)

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it in order, by force if it does not obey.

        Raises:
            EmbeddedBrokerError: it had died before, had to be killed, or ended with an error.
        """
        had_died = not self.is_running
        was_killed = False
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            was_killed = True
        self.kill()
        if had_died:
            raise self._error("the embedded broker had died before it was stopped")
        if was_killed:
            raise self._error(
                f"the embedded broker did not end within {_STOP_TIMEOUT_S:.0f} s and was killed"
            )
        if self._process.returncode != 0:
            raise self._error("the embedded broker ended with an error when it was stopped")

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would. Idempotent."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _await_ready(self, timeout_ms: int, clock: Clock) -> str:
        deadline_ms = clock.monotonic_ms() + timeout_ms
        while True:
            remaining_ms = max(0, deadline_ms - clock.monotonic_ms())
            try:
                line = self._lines.get(timeout=remaining_ms / 1000)
            except Empty:
                self.kill()
                raise self._error(
                    f"the embedded broker was not ready within {timeout_ms} ms and was killed"
                ) from None
            if line is None:
                self.kill()
                raise self._error("the embedded broker ended before it was ready")
            # The JVM may have something to say first, for example about its options.
            if line.startswith(_READY):
                return line.removeprefix(_READY).strip()
            _LOG.debug("< %s", line)

    def _error(self, what: str) -> EmbeddedBrokerError:
        return EmbeddedBrokerError(
            what, self._process.returncode, _last_lines(self._log, self._log_start)
        )


def _command(data: Path, listen: str, settings: Mapping[str, str]) -> list[str]:
    arguments = ["--listen", listen, "--data", str(data), "--exit-with-stdin"]
    if settings:
        config = data / _CONFIG_NAME
        config.write_text(properties_text(settings), encoding="utf-8")
        arguments += ["--config", str(config)]
    return broker_command(arguments)


def _spawn(command: list[str], data: Path, log: Path) -> subprocess.Popen[bytes]:
    try:
        with log.open("ab") as errors:
            return subprocess.Popen(  # noqa: S603 - our own command, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Where a JVM that crashes leaves its report.
                cwd=data,
                start_new_session=True,
            )
    except OSError as error:
        raise EmbeddedBrokerError(f"{command[0]} cannot be run: {error}", None, ()) from error


def _forward_lines(output: IO[bytes], lines: SimpleQueue[str | None]) -> None:
    """Thread: read to the end, so that the broker never blocks on a full pipe."""
    for line in output:
        lines.put(line.decode(errors="replace").rstrip())
    lines.put(None)


def _last_lines(log: Path, start: int) -> list[str]:
    """The end of this run's log, without the frames of Java's stack traces."""
    with log.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(start, end - _LAST_BYTES))
        text = file.read().decode(errors="replace")
    return [line for line in text.splitlines() if not line.startswith("\tat ")][-_LAST_LINES:]


def properties_text(settings: Mapping[str, str]) -> str:
    """Settings as a java-properties file, whatever characters they hold."""
    lines = [f"{_escape(name)}={_escape(value)}\n" for name, value in sorted(settings.items())]
    return "".join(lines)


def _escape(text: str) -> str:
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    return "".join(
        named.get(character, f"\\{character}" if character in "\\=:#! " else character)
        for character in str(text)
    )
