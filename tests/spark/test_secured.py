"""Spark on brokers with TLS and access control: who is let in, and what the others are told."""

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.drivers import LOCAL, Driver
from tests.spark.harness import Source, collect_available, failure_of, start_collecting
from tests.support.brokers import unique_name
from tests.support.jvm import SMALL_HEAP
from tests.support.ports import free_base_port
from tests.support.promises import proves
from tests.support.secured import (
    ADMIN,
    READER,
    TOPIC,
    Secured,
    secured_broker,
)
from tests.support.waiting import wait_until

from rmq_ordered.client import OrderedProducer
from rmq_ordered.protocol.acl import Credentials

FORBIDDEN = "forbidden"
# A permission may come back, so the sink asks for half a minute by default.
HASTY = {"sendTimeout": "2s"}
# Everything that Spark logs of a query's plans and progress.
CHATTY = """
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
logger.sql.name = org.apache.spark.sql
logger.sql.level = debug
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
"""
OptionsOf = Callable[[Credentials], dict[str, str]]


@pytest.fixture(scope="module", params=["embedded", "rocketmq"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    yield from secured_broker(request.param, tmp_path_factory.mktemp("secured"), SMALL_HEAP)


@pytest.fixture
def options_of(secured: Secured, tmp_path: Path) -> OptionsOf:
    """What a user of a secured cluster sets; the secret key lies in a file."""

    def make(credentials: Credentials) -> dict[str, str]:
        secret = tmp_path / f"{unique_name('secret')}.txt"
        secret.write_text(f"{credentials.secret_key}\n")
        return {
            "nameServer": secured.name_server,
            "requestTimeout": "15s",
            "accessKey": credentials.access_key,
            "secretKey": f"file:{secret}",
            "tls": "true",
            "tlsCaFile": str(secured.tls.ca_file),
            "tlsCertificateFile": str(secured.tls.certificate_file),
            "tlsKeyFile": str(secured.tls.key_file),
        }

    return make


def orders(spark: SparkSession, numbers: range) -> DataFrame:
    rows = [("order-1", str(number)) for number in numbers]
    return spark.createDataFrame(rows, "key string, value string").coalesce(1)


def send(rows: DataFrame, options: dict[str, str]) -> None:
    rows.write.format("rmq-ordered").options(**options, topic=TOPIC).mode("append").save()


def stored(secured: Secured) -> int:
    with secured.client() as admin:
        return sum(span.maximum for span in admin.broker.topic_stats(TOPIC).values())


@proves("access-in-spark")
def test_who_may_write_writes_and_who_may_read_reads(
    secured: Secured, spark: SparkSession, options_of: OptionsOf, tmp_path: Path
) -> None:
    before = stored(secured)
    send(orders(spark, range(20)), options_of(ADMIN))
    wait_until(lambda: stored(secured) == before + 20, "all is visible", 20)
    group = unique_name("group")
    reader = Source(spark, options_of(READER) | {"subscribe": TOPIC, "group": group})
    rows = collect_available(reader.stream(), tmp_path / "cp").rows
    assert [row.value.decode() for row in rows][-20:] == [str(number) for number in range(20)]
    assert len(rows) == before + 20
    with secured.client() as admin:
        queues = admin.routes.readable(TOPIC)
        found = admin.broker.committed_offsets(group, queues)
    assert sum(offset or 0 for offset in found.values()) == before + 20


@proves("access-in-spark")
def test_a_wrong_secret_is_refused_with_a_sentence_that_does_not_show_it(
    secured: Secured, spark: SparkSession, options_of: OptionsOf, tmp_path: Path
) -> None:
    wrong = options_of(replace(READER, secret_key="a-wrong-secret"))
    reader = Source(spark, wrong | {"subscribe": TOPIC, "group": unique_name("group")})
    query, collected = start_collecting(reader.stream(), tmp_path / "cp")
    text = failure_of(query)
    assert "AccessDenied" in text
    assert "check the access key" in text
    assert "a-wrong-secret" not in text
    assert collected.rows == []
    before = stored(secured)
    with pytest.raises(PySparkException, match=r"(?s)AccessDenied.*check the access key") as raised:
        send(orders(spark, range(1)), wrong | HASTY)
    assert "a-wrong-secret" not in str(raised.value)
    assert stored(secured) == before


@proves("access-in-spark")
def test_a_user_is_refused_what_it_was_not_allowed(
    secured: Secured, spark: SparkSession, options_of: OptionsOf, tmp_path: Path
) -> None:
    with secured.client() as admin:
        admin.broker.create_topic(FORBIDDEN, 1)
        wait_until(lambda: FORBIDDEN in admin.routes.topics(), "the topic is there", 20)
        OrderedProducer(admin, FORBIDDEN).send("k", b"not for everyone")
    options = options_of(READER)
    reader = Source(spark, options | {"subscribe": FORBIDDEN, "group": unique_name("group")})
    query, collected = start_collecting(reader.stream(), tmp_path / "cp")
    text = failure_of(query)
    assert "AccessDenied" in text
    assert "what this user may do" in text
    assert collected.rows == []
    before = stored(secured)
    with pytest.raises(PySparkException, match=r"(?s)AccessDenied.*what this user may do"):
        send(orders(spark, range(1)), options | HASTY)
    assert stored(secured) == before


def pages_of(port: int) -> dict[str, str]:
    """What Spark's own pages and its REST interface show of the queries that run."""
    root = f"http://127.0.0.1:{port}"
    interface = "/api/v1/applications"
    (application,) = json.loads(_get(f"{root}{interface}"))
    ours = f"{interface}/{application['id']}"
    paths = [
        "/environment/",
        "/jobs/",
        "/stages/",
        "/SQL/",
        "/SQL/execution/?id=0",
        "/StreamingQuery/",
        f"{ours}/environment",
        f"{ours}/jobs",
        f"{ours}/sql?details=true&planDescription=true&length=1000",
    ]
    return {path: _get(root + path) for path in paths}


def _get(url: str) -> str:
    with urlopen(url, timeout=30) as answer:
        return str(answer.read(), "utf-8")


@pytest.mark.proof
@proves("secrets-stay-hidden")
@pytest.mark.parametrize("secured", ["embedded"], indirect=True)
@pytest.mark.parametrize("kept", ["file", "env"])
def test_a_secret_is_in_no_page_no_log_and_no_file_of_spark(
    secured: Secured, options_of: OptionsOf, tmp_path: Path, kept: str
) -> None:
    with secured.client() as admin:
        OrderedProducer(admin, TOPIC).send("k", b"1")
    options = options_of(ADMIN) | {"subscribe": TOPIC, "group": unique_name("group")}
    if kept == "env":
        options["secretKey"] = "env:SECRET_OF_THE_TEST"
    spark_files = tmp_path / "spark"
    (spark_files / "events").mkdir(parents=True)
    logging = spark_files / "log4j2.properties"
    logging.write_text(CHATTY)
    port = free_base_port((0,))
    seen = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (spark_files / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(spark_files / "local"),
        "spark.driver.extraJavaOptions": f"-Dlog4j.configurationFile={logging}",
    }
    driver = Driver(
        options,
        spark_files / "checkpoint",
        spark_files / "output",
        conf=LOCAL | seen,
        environment={"SECRET_OF_THE_TEST": ADMIN.secret_key},
    )
    with driver:
        driver.wait_for_rows(1)
        pages = pages_of(port)
        driver.send(signal.SIGTERM)
        driver.wait_for_end()
    texts = {str(path): path.read_bytes() for path in spark_files.rglob("*") if path.is_file()}
    texts |= {path: page.encode() for path, page in pages.items()}
    # Where the query is shown at all, or this would prove nothing.
    showing = {name for name, text in texts.items() if b"MicroBatchScan" in text}
    assert {"/SQL/execution/?id=0", str(driver.log)} <= showing
    assert [name for name in showing if "/events/" in name]
    found = [name for name, text in texts.items() if ADMIN.secret_key.encode() in text]
    assert found == []
