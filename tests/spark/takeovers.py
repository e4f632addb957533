"""Two drivers of one group with a checkpoint each: one stands still, the other takes over."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.spark.drivers import DriverProcess, driver_environment
from tests.spark.harness import produce
from tests.support.brokers import unique_name
from tests.support.paths import ROOT
from tests.support.processes import start_tethered, tail
from tests.support.spark_home import spark_environment
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.model import QueueRange

JOB = ROOT / "tests" / "support" / "gated_job.py"
TIMEOUT_S = 240
MOST_ATTEMPTS = 4
KEYS, SEQUENCES = 8, 50
TOTAL = KEYS * SEQUENCES
CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # Rows pass from worker to worker as they come, not ten thousand at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "10",
}


@dataclass
class GatedDriver(DriverProcess):
    """A driver that runs pipelines one after the other."""

    folder: Path
    command: tuple[str, ...] = (sys.executable,)
    environment: dict[str, str] = field(default_factory=spark_environment)
    conf: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._answers.open("wb") as answers, self.log.open("wb") as log:
            self.process = start_tethered(
                [*self.command, str(JOB), json.dumps(CONF | self.conf)],
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=log,
                environment=driver_environment(self.command[-1], self.environment),
            )
        self._asked = 0
        return self

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    @property
    def _answers(self) -> Path:
        return self.folder / "answers"

    def ask(self, pipeline: dict[str, Any]) -> None:
        """Have a pipeline run after those before."""
        self._asked += 1
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: found out with the answer
            self.process.stdin.write(json.dumps(pipeline).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self) -> str:
        """What became of the last pipeline: ``ended``, ``failed`` and why, or ``died``."""
        return wait_until(self._answer, f"the driver answers, {self.folder}", TIMEOUT_S)

    @property
    def has_answered(self) -> bool:
        """Whether the last pipeline is over, or the driver."""
        return self._answer() is not None

    def _answer(self) -> str | None:
        is_over = self.process.poll() is not None
        # The first line says that it is ready.
        lines = self._answers.read_text().splitlines()
        if len(lines) > self._asked:
            return lines[self._asked]
        return f"died\n{tail(self.log)}" if is_over else None


@dataclass(frozen=True)
class Damage:
    """What an order checker finds in the sink's topic.

    Attributes:
        behind: rows of the former owner that were stored after one of the next owner.
        twice: rows that one owner stored more than once.
        disordered: rows of an owner before which a later row of their key was stored by it.
        lost: rows that nobody stored.
    """

    behind: int
    twice: int
    disordered: int
    lost: int


NONE = Damage(0, 0, 0, 0)


@dataclass
class TakeOver:
    """One topic into another, by a first and a second owner.

    Args:
        client: of the cluster.
        name_server: its address.
        folder: for checkpoints and gates.
        instance: the ``instanceId`` of both, if they have one.
    """

    client: Client
    name_server: str
    folder: Path
    instance: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.input, self.output = unique_name("taken"), unique_name("written")
        for topic in (self.input, self.output):
            self.client.broker.create_topic(topic, 2)
        produce(self.client, self.input, keys=KEYS, sequences=range(SEQUENCES))
        self.folder.mkdir(parents=True, exist_ok=True)

    def pipeline(
        self, who: str, *, row: int | None = None, batch: int = 0, **further: Any
    ) -> dict[str, Any]:
        """What to ask a driver for; with a row its first task stands still there."""
        source = {
            "nameServer": self.name_server,
            "subscribe": self.input,
            "group": f"{self.input}-group",
            "requestTimeout": "15s",
            "maxOffsetsPerTrigger": str(TOTAL // 2),
            "leaseTimeout": "120s",
            **({} if self.instance is None else {"instanceId": self.instance}),
            **self.options,
        }
        # Small requests, so that some of a task's rows can be stored and others not.
        sink = {
            "nameServer": self.name_server,
            "topic": self.output,
            "batchBytes": "1k",
            "bufferBytes": "1k",
        }
        held = {"folder": str(self.folder), "batch": batch, "partition": 0, "row": row}
        return {
            "source": source,
            "sink": sink,
            "checkpoint": str(self.folder / f"checkpoint-{who}"),
            "who": who,
            "gate": None if row is None else held,
            **further,
        }

    def hold(self, driver: GatedDriver, pipeline: dict[str, Any]) -> None:
        """Have the driver run a pipeline until the gate's task stands still.

        A query that fails before is started again, as by a supervisor: a busy machine does that.
        """
        for _ in range(MOST_ATTEMPTS):
            driver.ask(pipeline)
            wait_until(
                lambda: (self.folder / "held").exists() or driver.has_answered,
                "a task stands at the gate",
                TIMEOUT_S,
            )
            if (self.folder / "held").exists():
                return
        raise AssertionError(driver.answer())

    def finish(self, driver: GatedDriver, pipeline: dict[str, Any]) -> None:
        """Have the driver run a pipeline to its end, likewise."""
        for _ in range(MOST_ATTEMPTS):
            driver.ask(pipeline)
            if driver.answer() == "ended":
                return
            assert "WriteFenced" not in driver.answer(), "an owner is refused nothing"
        raise AssertionError(driver.answer())

    def open(self) -> None:
        """Let the gate's task go on."""
        (self.folder / "go").touch()

    def stored(self) -> list[list[tuple[str, str, int]]]:
        """Who, key and number of every row of the sink's topic, queue by queue."""
        found: list[list[tuple[str, str, int]]] = []
        for queue, span in self.client.broker.topic_stats(self.output).items():
            rows: list[tuple[str, str, int]] = []
            plan = ReadPlan(QueueRange(queue, span.minimum, span.maximum))
            for part in QueueReader(self.client, DecodeOptions()).read(plan):
                columns = (part.column(name).to_pylist() for name in ("tags", "key", "value"))
                rows += [(who, key, int(value)) for who, key, value in zip(*columns, strict=True)]
            found.append(rows)
        return found

    def damage(self) -> Damage:
        """What the former owner did to the rows of the next one, or they to themselves."""
        queues = self.stored()
        behind = disordered = 0
        for rows in queues:
            owners = [who for who, _, _ in rows]
            if "second" in owners:
                behind += owners[owners.index("second") :].count("first")
            last: dict[tuple[str, str], int] = defaultdict(lambda: -1)
            for who, key, number in rows:
                disordered += number < last[who, key]
                last[who, key] = max(last[who, key], number)
        rows = [row for queue in queues for row in queue]
        twice = sum(count - 1 for count in Counter(rows).values())
        lost = TOTAL - len({(key, number) for _, key, number in rows})
        return Damage(behind, twice, disordered, lost)

    def count(self, who: str) -> int:
        """How many rows somebody has stored."""
        return sum(row[0] == who for rows in self.stored() for row in rows)
