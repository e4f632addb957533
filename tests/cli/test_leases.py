from collections.abc import Iterator

import pytest
from tests.cli.conftest import Cli
from tests.support.brokers import unique_name

from rmq_ordered import Client, EmbeddedBroker
from rmq_ordered.client.broker import BrokerOperations
from rmq_ordered.errors import BrokerError


@pytest.fixture
def client(embedded_broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(embedded_broker.name_server) as opened:
        yield opened


@pytest.fixture
def group(client: Client) -> str:
    """A group whose client "first" owns queue 0 and gave up queue 1, which "second" took."""
    group, topic = unique_name("billing"), unique_name("orders")
    client.broker.create_topic(topic, 2)
    queues = client.routes.readable(topic)
    client.broker.lock(group, "first", queues)
    client.broker.unlock(group, "first", queues[1:])
    client.broker.lock(group, "second", queues[1:])
    return group


def test_leases_show_who_owns_what(cli: Cli, group: str) -> None:
    (answer,) = cli("leases", "--group", group, "--json").objects
    assert set(answer) == {"leases"}
    first, second = answer["leases"]
    assert (first["queue"], first["clientId"], first["live"]) == (0, "first", True)
    assert (second["queue"], second["clientId"], second["live"]) == (1, "second", True)
    assert second["epoch"] > 0
    assert 0 < first["expiresInMs"] <= 60_000
    assert first["grantedAt"].endswith("Z")
    header, *rows = cli("leases", "--group", group).cells
    assert header == ["group", "topic", "broker", "queue", "owner", "epoch", "granted", "ends"]
    assert [(row[0], row[3], row[4]) for row in rows] == [
        (group, "0", "first"),
        (group, "1", "second"),
    ]
    assert rows[0][7] == "in"


def test_history_shows_the_changes_of_owner_oldest_first(cli: Cli, group: str) -> None:
    (answer,) = cli("leases", "--group", group, "--history", "--json").objects
    owners = [
        (event["previousOwner"], event["owner"])
        for event in answer["history"]
        if event["queue"] == 1
    ]
    assert owners == [(None, "first"), ("first", None), (None, "second")]
    header, *rows = cli("leases", "--group", group, "--history").cells
    assert header[:2] == ["at", "group"]
    assert len(rows) == len(answer["history"])


def test_leases_can_be_asked_for_by_topic(cli: Cli, group: str) -> None:
    topic = cli("leases", "--group", group, "--json").objects[0]["leases"][0]["topic"]
    (found,) = cli("leases", "--topic", topic, "--json").objects
    assert {lease["group"] for lease in found["leases"]} == {group}
    (none,) = cli("leases", "--topic", "nowhere", "--json").objects
    assert none == {"leases": []}


def test_a_broker_that_cannot_tell_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BrokerError("mq:10911", "the lease table", 3, "only the embedded broker can tell")

    monkeypatch.setattr(BrokerOperations, "leases", refuse)
    refused = cli("leases", exit_code=1)
    assert refused.stderr == (
        "error: mq:10911 refused the lease table with code 3: only the embedded broker can tell\n"
    )
