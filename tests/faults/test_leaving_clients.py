"""Clients that commit on their way out and close at once, with answers of the broker unread.

RocketMQ's Go client ends like this: it unregisters, commits its offsets in one-way requests and
closes. The answer to the first then meets a closed socket, which resets the connection.
"""

import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.support import frames
from tests.support.brokers import unique_name
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.protocol.command import RemotingCommand, encode_command

DEADLINE_S = 30.0
QUEUES = 4
ROUNDS = 150
ONE_WAY = 2


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Takes every core, so that clients and broker run in turns of the kernel's choice."""
    ended = threading.Event()
    cores = os.cpu_count() or 1
    workers = [threading.Thread(target=_hash_until, args=(ended,)) for _ in range(cores)]
    for worker in workers:
        worker.start()
    yield
    ended.set()
    for worker in workers:
        worker.join()


def _hash_until(ended: threading.Event) -> None:
    block = b"x" * 1_000_000
    while not ended.is_set():
        hashlib.sha256(block).digest()


@proves("one-way-commit-served")
@pytest.mark.parametrize("in_one_write", [True, False], ids=["one write", "many writes"])
def test_offsets_committed_one_way_before_a_close_are_never_lost(
    embedded_broker: EmbeddedBroker, busy_machine: None, in_one_write: bool
) -> None:
    address = embedded_broker.name_server
    topic = unique_name("left")
    frames.create_topic(address, topic, QUEUES)
    groups = [unique_name("left") for _ in range(ROUNDS)]

    for group in groups:
        leave(address, topic, group, in_one_write)

    expected = list(range(1, QUEUES + 1))
    wait_until(
        lambda: all(committed(address, topic, group) == expected for group in groups),
        "all offsets of all groups are committed",
        DEADLINE_S,
    )


def leave(address: str, topic: str, group: str, in_one_write: bool) -> None:
    """Joins, and once it has: unregisters, commits one way and closes, without reading more."""
    host, _, port = address.rpartition(":")
    requests = [unregistration(group)]
    requests += [commit(topic, group, queue_id) for queue_id in range(QUEUES)]
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(heartbeat(topic, group))
        assert client.recv(1)
        for data in [b"".join(requests)] if in_one_write else requests:
            client.sendall(data)


def heartbeat(topic: str, group: str) -> bytes:
    subscription = {"topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 1}
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "subscriptionDataSet": [subscription],
    }  # fmt: skip
    body = json.dumps({"clientID": group, "consumerDataSet": [consumer]}).encode()
    return encode_command(RemotingCommand(34, opaque=1, ext_fields={}, body=body))


def unregistration(group: str) -> bytes:
    fields = {"clientID": group, "consumerGroup": group}
    return encode_command(RemotingCommand(35, opaque=2, ext_fields=fields))


def commit(topic: str, group: str, queue_id: int) -> bytes:
    fields = {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id),
        "commitOffset": str(queue_id + 1),
    }  # fmt: skip
    return encode_command(RemotingCommand(15, opaque=3 + queue_id, flag=ONE_WAY, ext_fields=fields))


def committed(address: str, topic: str, group: str) -> list[int | None]:
    return [frames.committed_offset(address, group, topic, queue) for queue in range(QUEUES)]
