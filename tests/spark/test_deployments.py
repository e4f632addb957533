"""Where the connector runs: spark-submit with the code beside it, a cluster, another Spark."""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.drivers import ALL_AT_ONCE, LOCAL, Driver
from tests.spark.harness import produce
from tests.support.brokers import unique_name
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.paths import ROOT
from tests.support.processes import tail
from tests.support.spark_home import INSTALLED, SHORT_LIVED, driver_options
from tests.support.spark_releases import python_with_spark
from tests.support.standalone import Standalone, standalone

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker

pytestmark = pytest.mark.proof


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
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    with standalone(tmp_path) as running:
        yield running


def test_a_cluster_of_two_workers_runs_a_submitted_query_with_its_code_beside_it(
    cluster: Standalone, options: dict[str, str], tmp_path: Path
) -> None:
    code = tmp_path / "code.zip"
    with zipfile.ZipFile(code, "w") as archive:
        for path in sorted((ROOT / "python").rglob("*.py")):
            archive.write(path, path.relative_to(ROOT / "python"))
    submit = [str(INSTALLED / "bin" / "spark-submit"), "--master", cluster.url,
              "--py-files", str(code)]  # fmt: skip
    conf = {name: value for name, value in LOCAL.items() if name != "spark.master"}
    with Driver(
        options,
        tmp_path / "checkpoint",
        tmp_path / "output",
        trigger=ALL_AT_ONCE,
        conf=conf,
        command=submit,
        environment={"PYTHONPATH": str(code), "SPARK_HOME": str(INSTALLED)},
        register=True,
    ) as driver:
        assert_all_in_order(driver)
        assert code.name in (driver.output / "module.txt").read_text()
    executors = {path.parent.name for path in cluster.folder.glob("app-*/*/stderr")}
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
        environment={"PYSPARK_PYTHON": str(python), **driver_options(SHORT_LIVED)},
    ) as driver:
        assert_all_in_order(driver)
    assert "4.2." in (driver.output / "version.txt").read_text()
    assert sys.executable != str(python)
