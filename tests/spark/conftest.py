"""One Spark for the whole session, as a user's notebook would have it."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.harness import Source
from tests.support.brokers import Broker
from tests.support.spark_home import spark_environment

from rmq_ordered.client import Client


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Workers must run this environment, not whichever "python3" comes first.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    quick = spark_environment()
    os.environ |= quick
    session = (
        SparkSession.builder.master("local[2]")
        .appName("rmq-ordered tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    for name in quick:
        del os.environ[name]  # only for that JVM: other Sparks are started too
    yield session
    session.stop()


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    # Patience for busy machines; what is tested is what is answered, not how fast.
    with Client(broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def group(broker: Broker) -> str:
    return broker.unique("group")


@pytest.fixture
def source(spark: SparkSession, broker: Broker, topic: str, group: str) -> Source:
    """A source of the `topic` that the test module names."""
    return Source(
        spark,
        {
            "nameServer": broker.name_server,
            "subscribe": topic,
            "group": group,
            "requestTimeout": "15s",
        },
    )
