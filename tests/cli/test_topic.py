import pytest
from tests.cli.conftest import Cli
from tests.support.brokers import unique_name

from rmq_ordered import EmbeddedBroker
from rmq_ordered.cli import topic as topic_commands
from rmq_ordered.client.routes import RouteTable
from rmq_ordered.model import BrokerData


def test_a_topic_is_created_described_listed_and_deleted(cli: Cli) -> None:
    topic = unique_name("orders")
    created = cli("topic", "create", topic, "--queues", "3")
    assert created.stdout == f"created topic {topic} with 3 queues\n"
    described = cli("topic", "describe", topic)
    assert described.cells[0] == ["broker", "queue", "min", "max", "count", "last", "stored"]
    assert described.cells[1:] == [["broker-a", str(n), "0", "0", "0", "-"] for n in range(3)]
    assert [topic, "3"] in cli("topic", "list").cells
    assert cli("topic", "delete", topic).stdout == f"deleted topic {topic}\n"
    assert [topic, "3"] not in cli("topic", "list").cells


def test_the_same_as_json(cli: Cli) -> None:
    topic = unique_name("orders")
    (created,) = cli("topic", "create", topic, "--queues", "2", "--json").objects
    assert created == {"topic": topic, "queues": 2, "globalOrder": False, "created": True}
    cli("send", topic, stdin=b"k\tv\n")
    (described,) = cli("topic", "describe", topic, "--json").objects
    assert (described["topic"], described["count"]) == (topic, 1)
    full, empty = sorted(described["queues"], key=lambda queue: -queue["count"])
    assert (full["minOffset"], full["maxOffset"], full["count"]) == (0, 1, 1)
    assert full["lastStored"].endswith("Z")
    assert (empty["broker"], empty["count"], empty["lastStored"]) == ("broker-a", 0, None)
    (listed,) = cli("topic", "list", "--json").objects
    assert {"topic": topic, "queues": 2} in listed["topics"]
    (deleted,) = cli("topic", "delete", topic, "--json").objects
    assert deleted == {"topic": topic, "deleted": True}


def test_a_topic_with_global_order_has_one_queue(cli: Cli) -> None:
    topic = unique_name("ledger")
    assert cli("topic", "create", topic, "--global-order").stdout.endswith("with 1 queue\n")
    assert len(cli("topic", "describe", topic, "--json").objects[0]["queues"]) == 1


def test_creating_a_topic_again_changes_nothing(cli: Cli) -> None:
    topic = unique_name("orders")
    cli("topic", "create", topic, "--queues", "2")
    cli("send", topic, stdin=b"k\tv\n")
    again = cli("topic", "create", topic, "--queues", "2")
    assert again.stdout == f"nothing to do: there is a topic {topic} with 2 queues\n"
    assert cli("topic", "describe", topic, "--json").objects[0]["count"] == 1


def test_creating_a_topic_with_another_number_of_queues_is_refused(cli: Cli) -> None:
    topic = unique_name("orders")
    cli("topic", "create", topic, "--queues", "2")
    refused = cli("topic", "create", topic, "--queues", "4", exit_code=1)
    assert refused.stdout == ""
    assert f"topic '{topic}' is there already, with 2 queues in all instead of 4" in refused.stderr
    assert "break their order" in refused.stderr


@pytest.mark.parametrize("command", ["describe", "delete"])
def test_an_unknown_topic_is_one_sentence_that_says_how_to_create_it(
    cli: Cli, command: str
) -> None:
    refused = cli("topic", command, "nowhere", exit_code=1)
    assert refused.stderr.startswith("error: topic 'nowhere' is not known at ")
    assert "rmq-ordered topic create nowhere --queues N" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_system_topics_are_listed_only_when_asked_for(cli: Cli) -> None:
    def names(*options: str) -> set[str]:
        return {
            item["topic"] for item in cli("topic", "list", "--json", *options).objects[0]["topics"]
        }

    system = {"TBW102", "DefaultCluster", "broker-a"}
    assert system <= names("--all")
    assert not system & names()


def test_global_order_is_refused_where_each_broker_would_get_a_queue(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = (BrokerData("broker-a", "127.0.0.1:1"), BrokerData("broker-b", "127.0.0.1:2"))
    monkeypatch.setattr(RouteTable, "brokers", lambda _: brokers)
    refused = cli("topic", "create", unique_name("ledger"), "--global-order", exit_code=1)
    assert "each of this cluster's 2 brokers" in refused.stderr


def test_a_topic_that_does_not_appear_in_time_is_an_error(
    cli: Cli, embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_commands, "_ROUTE_TIMEOUT_MS", 100)
    monkeypatch.setattr(topic_commands, "_readable_count", lambda *_: 0)
    refused = cli("topic", "create", unique_name("late"), "--queues", "2", exit_code=1)
    assert f"{embedded_broker.name_server} did not learn of all its 2 queues" in refused.stderr
