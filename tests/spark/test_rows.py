"""What rows look like and which come: formats, filters, dead letters, secrets; on both brokers."""

import json
from dataclasses import dataclass
from pathlib import Path

import msgpack
import pytest
from tests.spark.harness import (
    Source,
    collect_available,
    failure_of,
    owners,
    start_collecting,
)
from tests.support.brokers import Broker
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer

COUNT = 12


@dataclass(frozen=True)
class Format:
    """How the orders are written, and a body among them that is none."""

    name: str
    poison: bytes
    reason: str

    @property
    def options(self) -> dict[str, str]:
        schema = "id bigint NOT NULL, items array<string>"
        return {"valueFormat": self.name, "valueSchema": schema}

    def body(self, number: int) -> bytes:
        if number == 7:
            return self.poison
        order = {"id": number, "items": ["a", "b"]}
        packed: bytes = msgpack.packb(order)
        return packed if self.name == "msgpack" else json.dumps(order).encode()


JSON = Format("json", b"poison", "not JSON: ")
# A map without the field that must be there: a null in it would end the task in Spark itself.
MSGPACK = Format("msgpack", msgpack.packb({"items": []}), "value.id: expected a value, because")
BY_FORMAT = pytest.mark.parametrize(
    ("broker", "written"),
    [("embedded", JSON), ("rocketmq", JSON), ("embedded", MSGPACK)],
    ids=["embedded-json", "rocketmq-json", "embedded-msgpack"],
    indirect=["broker"],
)


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic("rows", 2)


@pytest.fixture
def written() -> Format:
    return JSON


@pytest.fixture
def orders(client: Client, topic: str, written: Format) -> None:
    """Twelve orders of three keys, tagged in turns, with a property `amount`; one is poison."""
    producer = OrderedProducer(client, topic)
    for number in range(COUNT):
        key = f"key-{number % 3}"
        message = producer.message(
            written.body(number),
            key=key,
            tags=["paid", "shipped"][number % 2],
            properties={"amount": str(number)},
        )
        producer.send_all({producer.queue_of(key): [message]})
    wait_until(
        lambda: sum(s.maximum for s in client.broker.topic_stats(topic).values()) == COUNT,
        "all is visible",
        20,
    )


@proves("undecodable-body")
@BY_FORMAT
@pytest.mark.usefixtures("orders")
def test_bodies_become_columns_and_poison_a_reason(source: Source, written: Format) -> None:
    rows = source.batch(onDecodeError="null", **written.options).collect()
    by_number = {row.value.id: row.value["items"] for row in rows if row.value is not None}
    assert by_number == {n: ["a", "b"] for n in range(COUNT) if n != 7}
    (reason,) = (row._error for row in rows if row._error is not None)
    assert reason.startswith(written.reason)


@pytest.mark.usefixtures("orders")
def test_the_broker_filters_by_tag_and_by_condition(source: Source) -> None:
    tagged = source.batch(tags="paid || lost", valueFormat="string").collect()
    assert {row.tags for row in tagged} == {"paid"}
    assert len(tagged) == COUNT // 2
    chosen = source.batch(sql92="amount BETWEEN 3 AND 5", includeProperties="true").collect()
    assert sorted(row.properties["amount"] for row in chosen) == ["3", "4", "5"]


@proves("undecodable-body")
@BY_FORMAT
@pytest.mark.usefixtures("orders")
def test_poison_goes_to_the_dead_letters_and_the_rest_is_read(
    client: Client, group: str, source: Source, written: Format, tmp_path: Path
) -> None:
    stream = source.stream(onDecodeError="dlq", **written.options)
    collected = collect_available(stream, tmp_path / "cp")
    assert sorted(row.value.id for row in collected.rows) == [n for n in range(COUNT) if n != 7]
    dead = source.batch(subscribe=f"%DLQ%{group}")
    wait_until(
        lambda: sum(s.maximum for s in client.broker.topic_stats(f"%DLQ%{group}").values()),
        "the dead letter is visible",
        20,
    )
    assert [bytes(row.value) for row in dead.collect()] == [written.poison]


@proves("undecodable-body")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
@pytest.mark.usefixtures("orders")
def test_poison_fails_the_query_by_default_and_is_named(
    client: Client, topic: str, group: str, source: Source, tmp_path: Path
) -> None:
    query, _ = start_collecting(source.stream(**JSON.options), tmp_path / "cp")
    text = failure_of(query)
    assert "UndecodableMessage" in text
    assert f"of {topic}@broker-a#" in text
    assert "not JSON" in text
    # A query that fails gives its queues back as one that is stopped.
    wait_until(lambda: owners(client, group, topic) == {True}, "the queues are free", 20)
    # The checkpoint is whole: the batch is planned and not finished, and another policy reads it.
    assert list((tmp_path / "cp" / "commits").glob("[0-9]*")) == []
    forgiving = source.stream(onDecodeError="null", **JSON.options)
    collected = collect_available(forgiving, tmp_path / "cp")
    reasons = {row.offset: row._error for row in collected.rows if row._error is not None}
    assert len(collected.rows) == COUNT
    assert ["not JSON" in reason for reason in reasons.values()] == [True]


@proves("secrets-stay-hidden")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_secrets_are_in_no_plan_and_in_no_error(
    source: Source, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MQ_SECRET", "hunter2")
    frame = source.batch(accessKey="me", secretKey="env:MQ_SECRET")
    frame.explain(extended=True)
    assert "hunter2" not in capsys.readouterr().out
    with pytest.raises(Exception, match="secretKey") as raised:
        source.batch(accessKey="me", secretKey="hunter2")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_a_value_schema_that_is_no_schema_fails_at_load(source: Source) -> None:
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        source.batch(valueFormat="json", valueSchema="nothing ::")


@proves("value-schema-checked-early")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
@pytest.mark.usefixtures("orders")
def test_a_value_schema_with_a_type_that_no_body_holds_fails_before_anything_is_planned(
    source: Source, tmp_path: Path
) -> None:
    options = {"valueFormat": "json", "valueSchema": "id int, took interval day to second"}
    expected = "'valueSchema': expected types that JSON and MessagePack can hold, found 'value.took"
    query, _ = start_collecting(source.stream(**options), tmp_path / "cp")
    assert expected in failure_of(query)
    assert list((tmp_path / "cp" / "offsets").glob("[0-9]*")) == []
    with pytest.raises(Exception, match="valueSchema") as raised:
        source.batch(**options).collect()
    assert expected in str(raised.value)
