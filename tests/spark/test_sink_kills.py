"""A pipeline from topic to topic while everything around it dies: nothing lost, moved or twice.

In each round a seeded plan kills, at random moments and in random order, the driver with all of its
processes, single Python workers, and the broker, while one answer in a few hundred is lost with its
connection. A query that fails is started again, as a supervisor would. At the end every key must be
in the output from its first row to its last, each once, in order.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.spark.harness import produce
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.paths import ROOT
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import QueueRange

JOB = ROOT / "tests" / "support" / "sink_job.py"
CUTS = ROOT / "tests" / "support" / "cuts"
# A longer run: RMQ_ORDERED_KILL_ROUNDS=20
ROUNDS = int(os.environ.get("RMQ_ORDERED_KILL_ROUNDS", "1"))
SEED = int(os.environ.get("RMQ_ORDERED_KILL_SEED", "7"))
KEYS, SEQUENCES, QUEUES = 40, 40, 3
TOTAL = KEYS * SEQUENCES
LOST_ANSWERS_PER_THOUSAND = 4
MOST_STARTS = 8
TIMEOUT_S = 400.0


@dataclass
class Cluster:
    """A broker that can be killed and comes back."""

    name_server: str
    restart: Callable[[], None]


@contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    with EmbeddedBroker(data=folder / "broker") as broker:

        def restart() -> None:
            broker.kill()
            broker.start()

        yield Cluster(broker.name_server, restart)


@contextmanager
def rocketmq(folder: Path) -> Iterator[Cluster]:
    try:
        cluster = RocketMq()
        cluster.start()
    except ToolUnavailable as missing:
        give_up(missing)

    def restart() -> None:
        cluster.kill_broker()
        cluster.restart_broker()

    try:
        yield Cluster(cluster.name_server, restart)
    finally:
        cluster.stop()


class Pipeline:
    """The job, started again whenever it has failed."""

    def __init__(self, name_server: str, folder: Path, number: int) -> None:
        self.source, self.output = f"in-{number}", f"out-{number}"
        self._log = folder / f"pipeline-{number}.log"
        common = {"nameServer": name_server, "requestTimeout": "5s"}
        specification = {
            "conf": {
                # A worker that dies fails its task, and the task is tried again.
                "spark.master": "local[2,4]",
                "spark.ui.enabled": "false",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
            },
            "source": {
                **common,
                "subscribe": self.source,
                "group": f"kills-{number}",
                "instanceId": "kills",
                "maxOffsetsPerTrigger": "120",
            },
            "sink": {
                **common,
                "topic": self.output,
                "sendTimeout": "90s",
                "checkpointLocation": str(folder / f"checkpoint-{number}"),
            },
        }
        self._command = [sys.executable, str(JOB), json.dumps(specification)]
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def ensure_running(self) -> bool:
        """Whether the job has ended well; starts it if it has not ended so."""
        if self._process is not None and self._process.poll() is None:
            return False
        if self._process is not None and self._process.returncode == 0:
            return True
        self.starts += 1
        assert self.starts <= MOST_STARTS, f"it fails again and again:\n{self.tail}"
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(map(str, [CUTS, ROOT / "python"])),
            "RMQ_ORDERED_CUTS": str(LOST_ANSWERS_PER_THOUSAND),
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        return False

    def kill_all(self) -> None:
        """Driver, JVM and workers at once, with SIGKILL."""
        if self._process is not None:
            _kill([pid for pid, _ in self._members()])
            self._process.wait()

    def kill_worker(self, chance: random.Random) -> None:
        """One of the Python processes that Spark runs."""
        workers = [pid for pid, command in self._members() if "pyspark" in command]
        if workers:
            _kill([chance.choice(workers)])

    @property
    def tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-60:])

    def _members(self) -> list[tuple[int, str]]:
        """The processes of the job's session: Spark's daemon makes groups of its own in it."""
        found = []
        session = None if self._process is None else self._process.pid
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    command = (entry / "cmdline").read_text().replace("\0", " ")
                    found.append((int(entry.name), command))
        return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def written(client: Client, topic: str) -> int:
    """How many messages a topic has; 0 while nobody can tell."""
    with suppress(RmqOrderedError):
        return sum(span.maximum for span in client.broker.topic_stats(topic).values())
    return 0


def sequences(client: Client, topic: str) -> dict[str, list[int]]:
    """The numbers of each key, in the order of its queue."""
    found: dict[str, list[int]] = defaultdict(list)
    for queue, span in client.broker.topic_stats(topic).items():
        for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, span.maximum))):
            pairs = zip(*(batch.column(name).to_pylist() for name in ("key", "value")), strict=True)
            for key, value in pairs:
                found[key].append(int(value))
    return found


@pytest.mark.timeout(int(ROUNDS * 2 * TIMEOUT_S) + 200)
@pytest.mark.parametrize("start", [embedded, rocketmq])
def test_a_pipeline_writes_every_row_once_and_in_order_whatever_dies(
    start: Callable[[Path], "contextmanager[Cluster]"], tmp_path: Path
) -> None:
    with (
        start(tmp_path) as cluster,
        Client(cluster.name_server, request_timeout_ms=10_000) as client,
    ):
        for number in range(ROUNDS):
            run_round(cluster, client, tmp_path, number)


def run_round(cluster: Cluster, client: Client, folder: Path, number: int) -> None:
    chance = random.Random(SEED + number)
    pipeline = Pipeline(cluster.name_server, folder, number)
    for topic in (pipeline.source, pipeline.output):
        client.broker.create_topic(topic, QUEUES)
        wait_until(lambda t=topic: t in client.routes.topics(), "the topic has a route", 20)
    assert produce(client, pipeline.source, keys=KEYS, sequences=range(SEQUENCES)) == TOTAL
    faults: list[Callable[[], None]] = [
        pipeline.kill_all,
        lambda: pipeline.kill_worker(chance),
        cluster.restart,
    ]
    chance.shuffle(faults)
    moments = sorted(chance.sample(range(1, TOTAL * 9 // 10), len(faults)))
    try:
        for moment, fault in zip(moments, faults, strict=True):
            wait_until(
                lambda at=moment: (
                    pipeline.ensure_running() or written(client, pipeline.output) >= at
                ),
                f"{moment} rows are written (round {number}, seed {SEED})",
                TIMEOUT_S,
            )
            fault()
        wait_until(pipeline.ensure_running, f"round {number}, seed {SEED} has ended", TIMEOUT_S)
        wait_until(
            lambda: written(client, pipeline.output) >= TOTAL, "all rows can be seen", TIMEOUT_S
        )
        found = sequences(client, pipeline.output)
    finally:
        pipeline.kill_all()
    expected = {f"key-{key}": list(range(SEQUENCES)) for key in range(KEYS)}
    assert found == expected, f"seed {SEED + number}, {pipeline.starts} starts"
