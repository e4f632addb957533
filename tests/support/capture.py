"""Captures golden bytes from a real Apache RocketMQ.

Run from the project root: ``python -m tests.support.capture``.

Starts a RocketMQ, lets Apache's Java producer send a fixed set of messages, pulls the stored
records through a raw socket and writes them to ``tests/golden`` beside what Apache's own decoder
makes of them. Needs Maven (or a filled cache) and a JDK. Every run gives other timestamps, ports
and ids: recapture only for a new RocketMQ version, or when the set of messages changes.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.support import frames
from tests.support.java_clients import JavaClients
from tests.support.maven import ROCKETMQ_VERSION
from tests.support.paths import GOLDEN
from tests.support.rocketmq import RocketMq
from tests.support.waiting import wait_until

TOPIC = "golden"
QUEUES = 2
MESSAGES = 10
SETTLE_TIMEOUT_S = 20.0
CAPTURED_FROM = f"Apache RocketMQ {ROCKETMQ_VERSION}"


def main() -> None:
    """Captures everything and says what was written."""
    with RocketMq() as cluster, tempfile.TemporaryDirectory() as home:
        frames.create_topic(cluster.broker_address, TOPIC, QUEUES)
        wait_until(
            lambda: frames.route(cluster.name_server, TOPIC).code == frames.SUCCESS,
            "the new topic has a route",
            SETTLE_TIMEOUT_S,
        )
        with JavaClients(Path(home)) as clients:
            clients.run("CaptureSender", ["--name-server", cluster.name_server, "--topic", TOPIC])
            pulled = _pull_all(cluster.broker_address)
            decoded = clients.run("BodyDecoder", [], [pulled.body.hex()])
        _write("pull", _pull_document(pulled, decoded))
        _write("topic-stats", _admin_document(cluster))


def _pull_all(broker_address: str) -> frames.Reply:
    # Records become visible to pulls a moment after the send was answered: the consume queue is
    # built behind.
    def everything() -> frames.Reply | None:
        reply = frames.pull(broker_address, TOPIC, 0, 0)
        return reply if reply.fields.get("nextBeginOffset") == str(MESSAGES) else None

    reply = wait_until(everything, "all messages can be pulled at once", SETTLE_TIMEOUT_S)
    assert reply is not None
    return reply


def _pull_document(pulled: frames.Reply, decoded: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(decoded) == MESSAGES, f"Java decoded {len(decoded)} of {MESSAGES} messages"
    for message in decoded:
        del message["event"], message["at"]
    return {
        "captured from": f"{CAPTURED_FROM}: PULL_MESSAGE of queue 0",
        "decoded by": "MessageDecoder.decodes, which clears the compression bit of sysFlag",
        "replyFields": dict(pulled.fields),
        "bodyHex": pulled.body.hex(),
        "messages": decoded,
    }


def _admin_document(cluster: RocketMq) -> dict[str, Any]:
    stats = frames.request(cluster.broker_address, frames.GET_TOPIC_STATS_INFO, {"topic": TOPIC})
    clusters = frames.request(cluster.name_server, frames.GET_BROKER_CLUSTER_INFO)
    route = frames.request(cluster.name_server, frames.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
    old_route = frames.request(
        cluster.name_server, frames.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}, version=0
    )
    return {
        "captured from": f"{CAPTURED_FROM}: answer bodies as text, not all of them valid JSON",
        "GET_TOPIC_STATS_INFO": stats.body.decode(),
        "GET_ROUTEINFO_BY_TOPIC": route.body.decode(),
        "GET_ROUTEINFO_BY_TOPIC asked by an old client": old_route.body.decode(),
        "GET_BROKER_CLUSTER_INFO": clusters.body.decode(),
    }


def _write(name: str, document: dict[str, Any]) -> None:
    target = GOLDEN / f"rocketmq-{ROCKETMQ_VERSION}-{name}.json"
    text = json.dumps(document, ensure_ascii=False, indent=2)
    target.write_text(f"{text}\n", encoding="utf-8")
    print(f"wrote {target.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
