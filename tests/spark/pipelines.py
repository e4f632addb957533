"""Pipelines in a driver of their own on a cluster, started again whenever they have failed."""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.paths import ROOT
from tests.support.processes import command_line, end, family, start_tethered, tail
from tests.support.spark_home import quick_start, spark_environment
from tests.support.standalone import Standalone
from tests.support.waiting import wait_until

JOB = ROOT / "tests" / "support" / "sink_job.py"
DETOURS = ROOT / "tests" / "support" / "detours"
PYTHON_PATH = os.pathsep.join(map(str, [DETOURS, ROOT / "python"]))
# Most of the time of such JVMs would go into compiling what is not run again.
MOST_ATTEMPTS = 12
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Pipeline:
    """Everything of one topic into another, in small batches."""

    name_server: str
    number: int

    @property
    def input(self) -> str:
        return f"in-{self.number}"

    @property
    def output(self) -> str:
        return f"out-{self.number}"

    def specification(self, folder: Path) -> str:
        """What the job wants to know."""
        common = {"nameServer": self.name_server, "requestTimeout": "5s"}
        source = {
            **common,
            "subscribe": self.input,
            "group": f"kills-{self.number}",
            "instanceId": "kills",
            "maxOffsetsPerTrigger": "90",
        }
        sink = {
            **common,
            "topic": self.output,
            "sendTimeout": "90s",
            "checkpointLocation": str(folder / f"checkpoint-{self.number}"),
        }
        return json.dumps({"source": source, "sink": sink})


class Supervised:
    """One driver at a time, for one pipeline after the other. Leaves nothing behind.

    Args:
        cluster: where the executors are.
        detours: addresses of servers, and where to connect instead.
        folder: for checkpoints and logs.
    """

    def __init__(self, cluster: Standalone, detours: dict[str, str], folder: Path) -> None:
        self._cluster = cluster
        self._detours = json.dumps(detours)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = folder / "answers"
        self._asked: str | None = None
        self._seen = 0
        self._attempts = 0
        self.starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill_driver()
        wait_until(lambda: not self._cluster.executors(), "the executors have ended", TIMEOUT_S)

    def begin(self, pipeline: Pipeline) -> None:
        """Ask for a pipeline; starts a driver if there is none."""
        self._asked = pipeline.specification(self._folder)
        self._attempts = 0
        self._ask()

    def has_ended(self) -> bool:
        """Whether the pipeline has ended well; asks for it again if it has not ended so."""
        lines = self._answers.read_text().splitlines()
        if len(lines) > self._seen:
            self._seen = len(lines)
            if lines[-1] == "ended":
                return True
            if lines[-1] == "failed":
                self._ask()
        elif self._process is None or self._process.poll() is not None:
            self._ask()
        return False

    # Faults

    def kill_driver(self) -> None:
        """Its Python and its JVM, with SIGKILL; the executors find out by themselves."""
        process, self._process = self._process, None
        if process is not None:
            _kill(family(process.pid))
            _let_go(process)

    def kill_executor(self, chance: random.Random) -> None:
        """One of the JVMs that run tasks."""
        found = wait_until(self._cluster.executors, "there is an executor", TIMEOUT_S)
        _kill([chance.choice(sorted(found))])

    def kill_worker(self, chance: random.Random) -> None:
        """One of the Python processes that Spark runs, for tasks or for the source's planning."""
        found = wait_until(self._workers, "there is a Python worker", TIMEOUT_S)
        _kill([chance.choice(sorted(found))])

    def _workers(self) -> list[int]:
        roots = self._cluster.executors()
        if self._process is not None:
            roots.append(self._process.pid)
        below = {pid for root in roots for pid in family(root)[1:]}
        return [pid for pid in below if " -m pyspark." in command_line(pid)]

    # The job

    def _ask(self) -> None:
        self._attempts += 1
        assert self._attempts <= MOST_ATTEMPTS, f"it fails again and again:\n{tail(self._log)}"
        if self._process is None or self._process.poll() is not None:
            self.kill_driver()
            self._process = self._start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has just died: found out at the next look
            self._process.stdin.write(f"{self._asked}\n".encode())
            self._process.stdin.flush()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        self._seen = 0
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": PYTHON_PATH,
            "RMQ_ORDERED_DETOURS": self._detours,
            **spark_environment(),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with self._answers.open("wb") as answers, self._log.open("ab") as log:
            return start_tethered(
                [sys.executable, str(JOB), json.dumps(self._conf())],
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=log,
                environment=environment,
            )

    def _conf(self) -> dict[str, str]:
        return {
            "spark.master": self._cluster.url,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": quick_start(),
            "spark.executorEnv.PYTHONPATH": PYTHON_PATH,
            "spark.executorEnv.RMQ_ORDERED_DETOURS": self._detours,
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }

    @property
    def _log(self) -> Path:
        return self._folder / "driver.log"


def _let_go(process: subprocess.Popen[bytes]) -> None:
    with suppress(BrokenPipeError):
        if process.stdin is not None:
            process.stdin.close()
    end(process)


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
