"""Embedded brokers that start quickly, since the tests start so many."""

import os
import shlex
from functools import cache
from pathlib import Path
from unittest.mock import patch

from tests.support.class_archives import RECORDING, class_archive, leave_now, taking
from tests.support.jvm import SMALL_JVM

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.embedded.classpath import class_path
from rmq_ordered.embedded.launcher import JAVA_OPTIONS
from rmq_ordered.model import QueueRange


@cache
def quick_brokers() -> dict[str, str]:
    """What a process needs in its environment for its brokers to start quickly."""
    archive = class_archive("embedded", class_path(), _rehearse)
    return {JAVA_OPTIONS: shlex.join([*SMALL_JVM, taking(archive)])}


def _rehearse(archive: Path) -> None:
    with patch.dict(os.environ, {JAVA_OPTIONS: RECORDING}), EmbeddedBroker() as broker:
        with Client(broker.name_server) as client:
            _use(client)
        assert broker.pid is not None
        leave_now(broker.pid, archive)


def _use(client: Client) -> None:
    client.broker.create_topic("rehearsal", 1)
    (queue,) = client.routes.readable("rehearsal")
    producer = OrderedProducer(client, "rehearsal")
    producer.send_all({queue: [producer.message(b"body", key="key")]})
    read = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 1)))
    assert sum(batch.num_rows for batch in read) == 1
