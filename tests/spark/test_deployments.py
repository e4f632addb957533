"""Where the connector runs: spark-submit with the code beside it, a cluster, another Spark."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from tests.spark.drivers import ALL_AT_ONCE, LOCAL, Driver
from tests.spark.harness import produce
from tests.support.brokers import unique_name
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.paths import ROOT
from tests.support.ports import free_base_port
from tests.support.processes import end, start_tethered, tail
from tests.support.spark_releases import python_with_spark
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker

SPARK_HOME = Path(pyspark.__file__).parent
DAEMON = {
    "SPARK_HOME": str(SPARK_HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@pytest.fixture
def client(embedded_broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(embedded_broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def options(embedded_broker: EmbeddedBroker, client: Client) -> dict[str, str]:
    """Of a topic with a hundred messages."""
    topic = unique_name("deployed")
    client.broker.create_topic(topic, 4)
    produce(client, topic, keys=10, sequences=range(10))
    return {
        "nameServer": embedded_broker.name_server,
        "subscribe": topic,
        "group": f"{topic}-group",
        "maxOffsetsPerTrigger": "60",
        "requestTimeout": "15s",
    }


def assert_all_in_order(driver: Driver) -> None:
    assert driver.wait_for_end() == 0, f"{driver.failure}\n{tail(driver.log)}"
    seen: dict[tuple[str, int], int] = {}
    for broker, queue, offset, _, _ in driver.rows:
        assert offset == seen.get((broker, queue), 0)
        seen[broker, queue] = offset + 1
    assert sum(seen.values()) == 100


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """The address of a standalone cluster with two workers of one core each."""
    port = free_base_port((0,))
    url = f"spark://127.0.0.1:{port}"
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--port", "0", "--cores", "1",
              "--memory", "1g", "--work-dir", str(tmp_path / "work")]  # fmt: skip
    log = tmp_path / "master.log"
    with ExitStack() as stack:
        for number, command in enumerate([master, [*worker, url], [*worker, url]]):
            place = log if number == 0 else tmp_path / f"worker-{number}.log"
            process = start_tethered(
                [spark_class, *command, "--webui-port", "0"],
                stdout=stack.enter_context(place.open("wb")),
                stderr=subprocess.STDOUT,
                environment={**os.environ, **DAEMON},
            )
            stack.callback(end, process)
        wait_until(
            lambda: log.read_text(errors="replace").count("Registering worker") == 2,
            "both workers are registered",
            120,
        )
        yield url


def test_a_cluster_of_two_workers_runs_a_submitted_query_with_its_code_beside_it(
    standalone: str, options: dict[str, str], tmp_path: Path
) -> None:
    code = tmp_path / "code.zip"
    with zipfile.ZipFile(code, "w") as archive:
        for path in sorted((ROOT / "python").rglob("*.py")):
            archive.write(path, path.relative_to(ROOT / "python"))
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", standalone,
              "--py-files", str(code)]  # fmt: skip
    conf = {name: value for name, value in LOCAL.items() if name != "spark.master"}
    with Driver(
        options,
        tmp_path / "checkpoint",
        tmp_path / "output",
        trigger=ALL_AT_ONCE,
        conf=conf,
        command=submit,
        environment={"PYTHONPATH": str(code), "SPARK_HOME": str(SPARK_HOME)},
        register=True,
    ) as driver:
        assert_all_in_order(driver)
        assert code.name in (driver.output / "module.txt").read_text()
    executors = {path.parent.name for path in (tmp_path / "work").glob("app-*/*/stderr")}
    assert len(executors) == 2


def test_the_oldest_spark_that_is_supported_runs_a_query(
    options: dict[str, str], tmp_path: Path
) -> None:
    try:
        python = python_with_spark("4.2")
    except ToolUnavailable as missing:
        give_up(missing)
    with Driver(
        options,
        tmp_path / "checkpoint",
        tmp_path / "output",
        trigger=ALL_AT_ONCE,
        command=[str(python)],
        environment={"PYSPARK_PYTHON": str(python)},
    ) as driver:
        assert_all_in_order(driver)
    assert "4.2." in (driver.output / "version.txt").read_text()
    assert sys.executable != str(python)
