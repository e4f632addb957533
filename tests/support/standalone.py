"""A standalone Spark cluster of its own: a master and two workers of one core each."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_base_port
from tests.support.processes import command_line, end, family, start_tethered
from tests.support.spark_home import quick_start, spark_home
from tests.support.waiting import wait_until

WORKERS = 2
START_TIMEOUT_S = 120


@dataclass(frozen=True)
class Standalone:
    """A running cluster.

    Attributes:
        url: of the master.
        folder: where the workers keep what executors write.
    """

    url: str
    folder: Path
    _workers: tuple[subprocess.Popen[bytes], ...]

    def executors(self) -> list[int]:
        """The JVMs that run tasks at this moment."""
        processes = [pid for worker in self._workers for pid in family(worker.pid)]
        return [pid for pid in processes if "CoarseGrainedExecutorBackend" in command_line(pid)]


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """Start a cluster that leaves nothing behind."""
    port = free_base_port((0,))
    url = f"spark://127.0.0.1:{port}"
    home, deploy = spark_home(), "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--port", "0", "--cores", "1",
              "--memory", "1g", "--work-dir", str(folder / "work")]  # fmt: skip
    log = folder / "master.log"
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{quick_start()} -Dspark.master.rest.enabled=false",
    }
    with ExitStack() as stack:
        processes = []
        for number, command in enumerate([master, *[[*worker, url]] * WORKERS]):
            place = log if number == 0 else folder / f"worker-{number}.log"
            process = start_tethered(
                [str(home / "bin" / "spark-class"), *command, "--webui-port", "0"],
                stdout=stack.enter_context(place.open("wb")),
                stderr=subprocess.STDOUT,
                environment=environment,
            )
            stack.callback(end, process)
            processes.append(process)
        wait_until(
            lambda: log.read_text(errors="replace").count("Registering worker") == WORKERS,
            "both workers are registered",
            START_TIMEOUT_S,
        )
        yield Standalone(url, folder / "work", tuple(processes[1:]))
