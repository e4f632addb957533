"""Apache's mqadmin: an operator's first commands work on either broker."""

import json
import re

import pytest
from tests.clients.order import keyed_messages, wait_until_all_committed
from tests.support import frames
from tests.support.brokers import Broker
from tests.support.java_clients import JavaClients
from tests.support.java_programs import JavaProgramFailed
from tests.support.waiting import wait_until

CONSUME_TIMEOUT_S = 60.0


def test_a_topic_lives_from_update_topic_to_delete_topic(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic, cluster = broker.unique("admin"), cluster_name(broker, javaclients)

    created = javaclients.mqadmin(
        broker.name_server, "updateTopic", "-c", cluster, "-t", topic, "-r", "3", "-w", "3"
    )

    assert "success" in created
    wait_for_route(broker, topic, frames.SUCCESS)
    assert topic in javaclients.mqadmin(broker.name_server, "topicList").split()
    (queues,) = route_of(broker, javaclients, topic)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 3, 6)

    javaclients.mqadmin(broker.name_server, "deleteTopic", "-c", cluster, "-t", topic)

    wait_for_route(broker, topic, frames.TOPIC_NOT_EXIST)
    assert topic not in javaclients.mqadmin(broker.name_server, "topicList").split()
    with pytest.raises(JavaProgramFailed, match="No topic route info in name server"):
        javaclients.mqadmin(broker.name_server, "topicRoute", "-t", topic)


def test_an_ordered_topic_can_be_declared(broker: Broker, javaclients: JavaClients) -> None:
    topic, cluster = broker.unique("ordered"), cluster_name(broker, javaclients)

    created = javaclients.mqadmin(
        broker.name_server,
        "updateTopic",
        "-c",
        cluster,
        "-t",
        topic,
        "-r",
        "2",
        "-w",
        "2",
        "-o",
        "true",
    )

    assert re.search(r"isOrder=true, orderConf=\[\S+:2\]", created)


def test_cluster_list_shows_the_broker_under_its_address(
    broker: Broker, javaclients: JavaClients
) -> None:
    listed = javaclients.mqadmin(broker.name_server, "clusterList")

    header, line = [text for text in listed.splitlines() if text.strip()]
    assert header.startswith("#Cluster Name")
    assert line.split()[3] == broker.broker_address


def test_topic_status_shows_how_far_each_queue_is(broker: Broker, javaclients: JavaClients) -> None:
    topic = broker.create_topic("status", 3)
    sent = javaclients.send_ordered(broker.name_server, topic, keyed_messages(keys=5, each=2))

    status = javaclients.mqadmin(broker.name_server, "topicStatus", "-t", topic)

    rows = [
        line.split() for line in status.splitlines() if re.match(r"\S+\s+\d+\s+\d+\s+\d+", line)
    ]
    ends = {int(row[1]): (int(row[2]), int(row[3])) for row in rows}
    counts = [sum(message.queue_id == queue_id for message in sent) for queue_id in range(3)]
    assert ends == {queue_id: (0, count) for queue_id, count in enumerate(counts)}


def test_consumer_progress_shows_no_lag_after_everything_was_consumed(
    broker: Broker, javaclients: JavaClients
) -> None:
    topic, group = broker.create_topic("progress", 2), broker.unique("progress")
    pairs = keyed_messages(keys=4, each=3)
    sent = javaclients.send_ordered(broker.name_server, topic, pairs)
    with javaclients.orderly_consumer(broker.name_server, topic, group) as consumer:
        consumer.wait_for_messages(len(pairs), CONSUME_TIMEOUT_S)
        wait_until_all_committed(broker, group, topic, sent)
        progress = javaclients.mqadmin(broker.name_server, "consumerProgress", "-g", group)

    assert topic in progress
    assert re.search(r"Consume Diff Total: 0\b", progress)


def cluster_name(broker: Broker, javaclients: JavaClients) -> str:
    return javaclients.mqadmin(broker.name_server, "clusterList").splitlines()[1].split()[0]


def route_of(
    broker: Broker, javaclients: JavaClients, topic: str
) -> dict[str, list[dict[str, int]]]:
    printed = javaclients.mqadmin(broker.name_server, "topicRoute", "-t", topic)
    # Java prints broker ids as bare numbers; JSON wants them quoted.
    route: dict[str, list[dict[str, int]]] = json.loads(
        re.sub(r"^(\s*)(\d+):", r'\1"\2":', printed, flags=re.MULTILINE)
    )
    return route


def wait_for_route(broker: Broker, topic: str, code: int) -> None:
    wait_until(
        lambda: frames.route(broker.name_server, topic).code == code,
        f"the route of {topic} is answered with {code}",
        20,
    )
