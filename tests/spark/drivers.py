"""Spark drivers in processes of their own, to be killed, stopped for a while and continued."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.support.processes import end, family, start_tethered, tail
from tests.support.spark_home import spark_environment
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.model import MessageQueue

JOB = ROOT / "tests" / "support" / "driver_job.py"
# A driver that competes for two cores with other tests takes its time.
START_TIMEOUT_S = 180
LOCAL = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
OFTEN = {"processingTime": "200 milliseconds"}
ALL_AT_ONCE = {"availableNow": True}


class DriverProcess:
    """A driver with all of its processes. Use it as a context manager: it leaves nothing behind."""

    process: subprocess.Popen[bytes]

    def __exit__(self, *_: object) -> None:
        self.kill()

    def send(self, number: int) -> None:
        """Send a signal to every process of the driver, its own children first."""
        for pid in reversed(family(self.process.pid)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def kill(self) -> None:
        """End everything at once, as a machine that fails."""
        if self.process.poll() is None:
            self.send(signal.SIGSTOP)
            self.send(signal.SIGKILL)
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        end(self.process)


def driver_environment(python: str, further: Mapping[str, str]) -> dict[str, str]:
    """What a driver and its workers find in their environment."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": str(ROOT / "python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **further,
    }


@dataclass
class Driver(DriverProcess):
    """One driver process with one query."""

    options: Mapping[str, str]
    checkpoint: Path
    output: Path
    trigger: Mapping[str, Any] = field(default_factory=lambda: OFTEN)
    conf: Mapping[str, str] = field(default_factory=lambda: LOCAL)
    command: Sequence[str] = (sys.executable,)
    environment: Mapping[str, str] = field(default_factory=spark_environment)
    register: bool = False
    # Its batches never end.
    stuck: bool = False

    def __enter__(self) -> "Driver":
        self.output.mkdir(parents=True, exist_ok=True)
        specification = {
            "options": dict(self.options),
            "checkpoint": str(self.checkpoint),
            "output": str(self.output),
            "trigger": dict(self.trigger),
            "conf": dict(self.conf),
            "register": self.register,
            "stuck": self.stuck,
        }
        with self.log.open("wb") as log:
            self.process = start_tethered(
                [*self.command, str(JOB), json.dumps(specification)],
                stdout=log,
                stderr=subprocess.STDOUT,
                environment=driver_environment(sys.executable, self.environment),
            )
        return self

    @property
    def log(self) -> Path:
        return self.output / "driver.log"

    @property
    def batches(self) -> list[dict[str, Any]]:
        """Finished attempts of batches, by batch."""
        return [json.loads(path.read_text()) for path in sorted(self.output.glob("*.json"))]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Broker, queue, offset, key and value of every row, batch after batch."""
        return [tuple(row) for batch in self.batches for row in batch["rows"]]

    @property
    def failure(self) -> str | None:
        """The text with which the query failed, if it did."""
        path = self.output / "failure.txt"
        return path.read_text() if path.is_file() else None

    def wait_for_rows(self, count: int) -> None:
        """Until so many rows came; an end of the process before that is an error."""
        wait_until(
            lambda: len(self.rows) >= count or self._has_ended(), "rows came", START_TIMEOUT_S
        )
        assert len(self.rows) >= count, f"the driver ended early:\n{tail(self.log)}"

    def wait_for_end(self) -> int:
        """Until the driver has ended by itself; its exit code."""
        wait_until(self._has_ended, "the driver has ended", START_TIMEOUT_S)
        return self.process.wait()

    def _has_ended(self) -> bool:
        return self.process.poll() is not None


def committed(client: Client, topic: str, group: str) -> dict[MessageQueue, int]:
    """Where the group stands in every queue; 0 where it never was."""
    found = client.broker.committed_offsets(group, client.routes.readable(topic))
    return {queue: value or 0 for queue, value in found.items()}


def assert_whole_and_in_order(rows: list[tuple[object, ...]], total: int) -> None:
    """First sight of every row: offsets from 0 without a gap, keys in sequence."""
    seen: set[tuple[object, object, object]] = set()
    offsets: dict[object, int] = defaultdict(int)
    sequences: dict[object, int] = defaultdict(int)
    for broker, queue, offset, key, value in rows:
        if (broker, queue, offset) in seen:
            continue
        seen.add((broker, queue, offset))
        assert offset == offsets[broker, queue]
        assert int(str(value)) == sequences[key]
        offsets[broker, queue] += 1
        sequences[key] += 1
    assert len(seen) == total
