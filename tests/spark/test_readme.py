"""The README's examples are run as they stand, only with this test's addresses and folders."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rmq_ordered import Client, EmbeddedBroker, OrderedProducer

README = Path(__file__).parents[2] / "README.md"


def code_blocks() -> dict[str, str]:
    """Python blocks of the README by the heading they stand under; the first of each."""
    blocks: dict[str, str] = {}
    sections = re.split(r"^## ", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for section in sections[1:]:
        found = re.search(r"```python\n(.*?)```", section, flags=re.DOTALL)
        if found:
            blocks.setdefault(section.splitlines()[0], found.group(1))
    return blocks


def run(block: str, replacements: dict[str, str], names: dict[str, Any]) -> dict[str, Any]:
    for old, new in replacements.items():
        assert old in block, f"the README no longer has {old}"
        block = block.replace(old, new)
    exec(block, names)
    return names


@pytest.fixture
def orders(fresh_embedded: EmbeddedBroker) -> str:
    with Client(fresh_embedded.name_server) as client:
        for topic in ("orders", "invoices"):
            client.broker.create_topic(topic, 2)
        producer = OrderedProducer(client, "orders")
        for number in range(6):
            producer.send(f"order-{number % 2}", b"event %d" % number)
    return fresh_embedded.name_server


@pytest.mark.proof
def test_the_read_and_write_examples_run(spark: SparkSession, orders: str, tmp_path: Path) -> None:
    blocks = code_blocks()
    reading = run(
        blocks["Read"],
        {"127.0.0.1:9876": orders, "/tmp/cp": str(tmp_path / "read")},
        {"spark": spark},
    )
    reading["query"].processAllAvailable()
    reading["query"].stop()
    assert sum(progress.numInputRows for progress in reading["query"].recentProgress) == 6

    source = spark.read.format("rmq-ordered").options(nameServer=orders, subscribe="orders").load()
    stream = (
        spark.readStream.format("rmq-ordered")
        .options(nameServer=orders, subscribe="orders", group="writer")
        .load()
    )
    writing = run(
        blocks["Write"],
        {"127.0.0.1:9876": orders, "/tmp/cp-invoices": str(tmp_path / "write")},
        {"invoices": stream},
    )
    writing["query"].processAllAvailable()
    writing["query"].stop()
    written = spark.read.format("rmq-ordered").options(nameServer=orders, subscribe="invoices")
    assert sorted(map(bytes, (row.value for row in written.load().collect()))) == sorted(
        map(bytes, (row.value for row in source.collect()))
    )


def test_the_embedded_broker_example_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = code_blocks()["Where the messages live"]
    run(block, {"/var/lib/rmq": str(tmp_path)}, {})
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", capsys.readouterr().out)
