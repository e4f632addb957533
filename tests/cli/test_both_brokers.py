"""The same commands against the embedded broker and a real Apache RocketMQ."""

import json

from tests.support.brokers import Broker
from typer.testing import CliRunner

from rmq_ordered.cli.main import app


def run(broker: Broker, *arguments: str, stdin: bytes = b"") -> str:
    runner = CliRunner(env={"NAMESRV_ADDR": broker.name_server})
    result = runner.invoke(app, [*arguments, "--json"], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_topic_lives_from_create_to_delete(broker: Broker) -> None:
    topic = broker.unique("life")
    run(broker, "topic", "create", topic, "--queues", "3")
    assert {"topic": topic, "queues": 3} in json.loads(run(broker, "topic", "list"))["topics"]
    lines = b"".join(b"key-%d\t%d\n" % (n % 5, n) for n in range(100))
    assert json.loads(run(broker, "send", topic, stdin=lines))["count"] == 100
    assert json.loads(run(broker, "topic", "describe", topic))["count"] == 100
    tailed = run(broker, "tail", topic, "--from", "earliest", "--max", "100")
    messages = [json.loads(line) for line in tailed.splitlines()]
    for key in range(5):
        values = [int(m["value"]) for m in messages if m["key"] == f"key-{key}"]
        assert values == list(range(key, 100, 5))
    run(broker, "topic", "delete", topic)
    assert topic not in run(broker, "topic", "list", "--all")


def test_system_topics_stay_out_of_the_list(broker: Broker) -> None:
    topic = broker.unique("mine")
    run(broker, "topic", "create", topic, "--queues", "1")
    names = [item["topic"] for item in json.loads(run(broker, "topic", "list"))["topics"]]
    assert topic in names
    assert [name for name in names if name.isupper() or "sys" in name.lower()] == []


def test_leases_are_told_by_the_embedded_broker_only(broker: Broker) -> None:
    runner = CliRunner(env={"NAMESRV_ADDR": broker.name_server})
    result = runner.invoke(app, ["leases", "--json"])
    if broker.kind == "embedded":
        assert result.exit_code == 0
        assert "leases" in json.loads(result.stdout)
    else:
        assert (result.exit_code, result.stdout) == (1, "")
        assert "only the embedded broker can tell" in result.stderr
