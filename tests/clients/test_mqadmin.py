"""Apache's mqadmin: an operator's commands work, and say the same, on either broker."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.order import keyed_messages, wait_until_all_committed
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import Answer, JavaClients
from tests.support.java_programs import JavaProgramFailed
from tests.support.waiting import wait_until

CONSUME_TIMEOUT_S = 60.0
ADMIN_TIMEOUT_S = 20.0
# RocketMQ tells the rate of a minute when it has run for one.
RATES_TIMEOUT_S = 100.0
PRODUCER_GROUP = "rmq-ordered-test-producer"


class Operator:
    """Somebody at mqadmin, on one broker."""

    def __init__(self, broker: Broker, clients: JavaClients) -> None:
        self._broker = broker
        self._clients = clients
        row = self.rows(self("clusterList"), "#Cluster Name")[0]
        self.cluster, self.broker_name = row[0], row[1]

    def __call__(self, command: str, *arguments: str) -> str:
        """Runs a command; returns what it printed."""
        return self._clients.mqadmin(self._broker.name_server, command, *arguments)

    @staticmethod
    def rows(printed: str, header: str) -> list[list[str]]:
        """Returns the words of each line below a header, up to the next empty line."""
        lines = printed[printed.index(header) :].splitlines()[1:]
        rows: list[list[str]] = []
        for line in lines:
            if not line.strip():
                break
            rows.append(line.split())
        return rows

    def route(self, topic: str) -> dict[str, Any]:
        """Returns a topic's route."""
        printed = self("topicRoute", "-t", topic)
        # Java prints broker ids as bare numbers; JSON wants them quoted.
        quoted = re.sub(r"^(\s*)(\d+):", r'\1"\2":', printed, flags=re.MULTILINE)
        route: dict[str, Any] = json.loads(quoted)
        return route


@pytest.fixture
def mqadmin(broker: Broker, javaclients: JavaClients) -> Operator:
    """The tool, on the broker under test."""
    return Operator(broker, javaclients)


def test_a_topic_lives_from_update_topic_to_delete_topic(broker: Broker, mqadmin: Operator) -> None:
    topic = broker.unique("admin")
    name = ["-c", mqadmin.cluster, "-t", topic]

    created = mqadmin("updateTopic", *name, "-r", "3", "-w", "3")

    assert "success" in created
    wait_for_route(broker, topic, frames.SUCCESS)
    assert topic in mqadmin("topicList").split()
    (queues,) = mqadmin.route(topic)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 3, 6)

    mqadmin("deleteTopic", *name)

    wait_for_route(broker, topic, frames.TOPIC_NOT_EXIST)
    assert topic not in mqadmin("topicList").split()
    with pytest.raises(JavaProgramFailed, match="No topic route info in name server"):
        mqadmin("topicRoute", "-t", topic)


def test_the_order_of_a_topic_is_declared_changed_and_taken_back(
    broker: Broker, mqadmin: Operator
) -> None:
    topic = broker.unique("ordered")
    name = ["-c", mqadmin.cluster, "-t", topic]

    created = mqadmin("updateTopic", *name, "-r", "2", "-w", "2", "-o", "true")

    assert re.search(rf"isOrder=true, orderConf=\[{mqadmin.broker_name}:2\]", created)
    wait_for_route(broker, topic, frames.SUCCESS)
    assert mqadmin.route(topic)["orderTopicConf"] == f"{mqadmin.broker_name}:2"

    wanted = f"{mqadmin.broker_name}:4"
    mqadmin("updateOrderConf", "-m", "put", "-t", topic, "-v", wanted)

    assert wanted in mqadmin("updateOrderConf", "-m", "get", "-t", topic)
    assert mqadmin.route(topic)["orderTopicConf"] == wanted

    mqadmin("updateOrderConf", "-m", "delete", "-t", topic)

    assert "orderTopicConf" not in mqadmin.route(topic)


def test_the_cluster_and_its_broker_show_their_state(broker: Broker, mqadmin: Operator) -> None:
    (line,) = mqadmin.rows(mqadmin("clusterList"), "#Cluster Name")
    values = broker_status(mqadmin, broker)

    assert line[2:4] == ["0", broker.broker_address]
    assert values["brokerVersionDesc"] == line[4]
    assert int(values["bootTimestamp"]) > 0


def test_what_came_in_and_went_out_is_shown_in_totals_and_rates(
    broker: Broker, javaclients: JavaClients, mqadmin: Operator
) -> None:
    topic, group = broker.create_topic("traffic", 2), broker.unique("traffic")
    pairs = keyed_messages(keys=4, each=5)
    stored, got = totals(mqadmin, broker)

    javaclients.send_ordered(broker.name_server, topic, pairs)
    with javaclients.orderly_consumer(broker.name_server, topic, group) as consumer:
        consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)

    stored_after, got_after = totals(mqadmin, broker)
    assert stored_after - stored >= len(pairs)
    assert got_after - got >= len(pairs)
    wait_until(
        lambda: all(rate > 0 for rate in minute_rates(mqadmin, broker)),
        "both rates of the last minute are shown",
        RATES_TIMEOUT_S,
    )
    ((_, _, _, _, today, _),) = mqadmin.rows(mqadmin("clusterList", "-m"), "#Cluster Name")
    assert int(today) <= stored_after


def test_progress_and_connections_of_a_topic_are_shown_while_it_is_in_use(
    broker: Broker, javaclients: JavaClients, mqadmin: Operator
) -> None:
    topic, group = broker.create_topic("progress", 2), broker.unique("progress")
    pairs = keyed_messages(keys=4, each=3)
    sent = javaclients.send_ordered(broker.name_server, topic, pairs)
    with (
        javaclients.sender(broker.name_server, topic) as producer,
        javaclients.orderly_consumer(broker.name_server, topic, group) as consumer,
    ):
        consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)
        wait_until_all_committed(broker, group, topic, sent)
        status = mqadmin("topicStatus", "-t", topic)
        progress = mqadmin("consumerProgress", "-g", group)
        consumers = mqadmin("consumerConnection", "-g", group)
        users = mqadmin("topicList", "-c")
        producer.write_lines(["n=1\tone more"])
        producer.wait_for_event("sent", CONSUME_TIMEOUT_S)
        producers = wait_until(
            lambda: producer_rows(mqadmin, topic),
            "the producer's heartbeat has come",
            ADMIN_TIMEOUT_S,
        )

    counts = [sum(message.queue_id == queue_id for message in sent) for queue_id in range(2)]
    assert ends(mqadmin.rows(status, "#Broker Name")) == dict(enumerate(counts))
    consumed = [row for row in mqadmin.rows(progress, "#Topic") if row[0] == topic]
    assert {int(row[2]): row[3:5] for row in consumed} == {
        queue_id: [str(count), str(count)] for queue_id, count in enumerate(counts)
    }
    assert re.search(r"Consume Diff Total: 0\b", progress)
    ((client_id, _, language, _),) = mqadmin.rows(consumers, "#ClientId")
    assert (client_id, language) == (consumer.client_id, "JAVA")
    assert "ConsumeType: CONSUME_PASSIVELY" in consumers
    assert "MessageModel: CLUSTERING" in consumers
    assert [topic, "*"] in mqadmin.rows(consumers, "#Topic")
    assert [mqadmin.cluster, topic, group] in [line.split() for line in users.splitlines()]
    assert {row[3] for row in producers} == {"JAVA"}


def test_a_message_is_found_by_its_offset(
    broker: Broker, javaclients: JavaClients, mqadmin: Operator
) -> None:
    topic, key = broker.create_topic("found", 1), broker.unique("found")
    sent = send_one_to_find(broker, javaclients, topic, key)
    place = ["-b", mqadmin.broker_name, "-i", str(sent.queue_id), "-o", str(sent.queue_offset)]

    assert_shows(mqadmin("queryMsgByOffset", "-t", topic, *place), topic, key)


def test_a_message_is_found_by_its_ids_and_by_its_key(
    broker: Broker, javaclients: JavaClients, mqadmin: Operator
) -> None:
    topic, key = broker.create_topic("found", 1), broker.unique("found")
    sent = send_one_to_find(broker, javaclients, topic, key)

    by_offset_id = mqadmin("queryMsgById", "-t", topic, "-i", sent.offset_message_id)
    rows = wait_until(lambda: key_rows(mqadmin, topic, key), "the key is indexed", ADMIN_TIMEOUT_S)
    by_unique_id = mqadmin("queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id)

    assert_shows(by_offset_id, topic, key)
    assert [row[:3] for row in rows] == [[sent.message_id, "0", "1"]]
    assert_shows(by_unique_id, topic, key)


def test_a_group_is_configured(broker: Broker, mqadmin: Operator) -> None:
    group = broker.unique("configured")

    arguments = ["-c", mqadmin.cluster, "-g", group, "-r", "5", "-q", "2", "-d", "false"]
    printed = mqadmin("updateSubGroup", *arguments)

    assert "success" in printed
    reply = frames.request(broker.broker_address, GET_GROUP_CONFIG, {"group": group})
    config = json.loads(reply.body)
    assert (config["groupName"], config["retryMaxTimes"], config["retryQueueNums"]) == (group, 5, 2)
    assert config["consumeBroadcastEnable"] is False
    assert config["consumeEnable"] is True


GET_GROUP_CONFIG = 352


def broker_status(mqadmin: Operator, broker: Broker) -> dict[str, str]:
    """Returns what brokerStatus prints, by name."""
    status = mqadmin("brokerStatus", "-b", broker.broker_address)
    return dict(re.findall(r"^(\S+)\s*: *(.*?)\s*$", status, flags=re.MULTILINE))


def totals(mqadmin: Operator, broker: Broker) -> tuple[int, int]:
    """Returns how many messages clients stored and got since the broker's start."""
    status = broker_status(mqadmin, broker)
    return int(status["msgPutTotalTodayNow"]), int(status["msgGetTotalTodayNow"])


def minute_rates(mqadmin: Operator, broker: Broker) -> tuple[float, float]:
    """Returns messages stored and got per second in the last minute, 0 while that is unknown."""
    status = broker_status(mqadmin, broker)
    stored, got = (status[name].split(" ") for name in ("putTps", "getTransferredTps"))
    return (float(stored[1]), float(got[1])) if len(stored) > 1 else (0.0, 0.0)


def ends(rows: Iterable[list[str]]) -> dict[int, int]:
    """Reads the rows of topicStatus: each queue starts at 0 and ends there."""
    found = {}
    for row in rows:
        assert row[2] == "0", row
        found[int(row[1])] = int(row[3])
    return found


def send_one_to_find(broker: Broker, clients: JavaClients, topic: str, key: str) -> Answer:
    """Sends two messages; returns what was answered for the second, which has the key."""
    messages = [("n=0", "another"), (f"key={key};tag=T;colour=green", "the one")]
    return clients.send(broker.name_server, topic, messages)[1]


def assert_shows(printed: str, topic: str, key: str) -> None:
    """The message that `send_one_to_find` sent is described in full."""
    shown = dict(re.findall(r"^([A-Z][\w ]+?): +(.*?)\s*$", printed, flags=re.MULTILINE))
    assert (shown["Topic"], shown["Tags"], shown["Keys"]) == (topic, "[T]", f"[{key}]")
    assert (shown["Queue ID"], shown["Queue Offset"]) == ("0", "1")
    assert "colour=green" in shown["Properties"]
    assert Path(shown["Message Body Path"]).read_text(encoding="utf-8") == "the one"


def producer_rows(mqadmin: Operator, topic: str) -> list[list[str]]:
    """Returns what producerConnection lists; it fails before the first heartbeat of the group."""
    try:
        printed = mqadmin("producerConnection", "-g", PRODUCER_GROUP, "-t", topic)
    except JavaProgramFailed as failure:
        if "not exist" in failure.log_tail:
            return []
        raise
    return [line.split() for line in printed.splitlines() if re.match(r"\d{4}\s", line)]


def key_rows(mqadmin: Operator, topic: str, key: str) -> list[list[str]]:
    """Returns what queryMsgByKey lists; it fails while it finds nothing."""
    try:
        return mqadmin.rows(mqadmin("queryMsgByKey", "-t", topic, "-k", key), "#Message ID")
    except JavaProgramFailed as nothing:
        if "no message" in nothing.log_tail:
            return []
        raise


def wait_for_route(broker: Broker, topic: str, code: int) -> None:
    wait_until(
        lambda: frames.route(broker.name_server, topic).code == code,
        f"the route of {topic} is answered with {code}",
        ADMIN_TIMEOUT_S,
    )
