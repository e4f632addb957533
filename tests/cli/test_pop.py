from collections.abc import Iterator

import pytest
from tests.cli.conftest import Cli
from tests.support.brokers import unique_name

from rmq_ordered import Client, EmbeddedBroker
from rmq_ordered.client import OrderedProducer, PopConsumer
from rmq_ordered.client.broker import BrokerOperations
from rmq_ordered.errors import BrokerError


@pytest.fixture
def client(embedded_broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(embedded_broker.name_server) as opened:
        yield opened


def test_pop_shows_what_is_out(cli: Cli, client: Client) -> None:
    topic, group = unique_name("orders"), unique_name("billing")
    client.broker.create_topic(topic, 1)
    producer = OrderedProducer(client, topic)
    for number in range(3):
        producer.send("key", b"%d" % number)
    consumer = PopConsumer(client, group, topic)
    popped = consumer.pop(2, wait_ms=5_000)
    consumer.ack(popped[0])
    (answer,) = cli("pop", "--group", group, "--json").objects
    (row,) = answer["pops"]
    assert (row["topic"], row["queue"], row["inFlight"], row["toRevive"]) == (topic, 0, 1, 0)
    assert (row["nextOffset"], row["maxOffset"], row["orderly"]) == (2, 3, False)
    assert row["oldest"].endswith("Z")
    header, (first, *_) = cli("pop", "--topic", topic).cells
    assert header[:2] == ["group", "topic"]
    assert first == group
    (none,) = cli("pop", "--group", "nobody", "--json").objects
    assert none == {"pops": []}


def test_a_broker_that_cannot_tell_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BrokerError("mq:10911", "the state of pops", 3, "only the embedded broker can tell")

    monkeypatch.setattr(BrokerOperations, "pop_state", refuse)
    refused = cli("pop", exit_code=1)
    assert refused.stderr == (
        "error: mq:10911 refused the state of pops with code 3: only the embedded broker can tell\n"
    )
