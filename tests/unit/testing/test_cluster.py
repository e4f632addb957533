"""The cluster in memory, used as a user would."""

import os
import subprocess
import sys

from rmq_ordered.client import OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.model import QueueRange
from rmq_ordered.testing import ClusterDouble


def test_what_was_sent_can_be_read_from_every_broker() -> None:
    cluster = ClusterDouble(brokers=3)
    for broker in cluster.brokers:
        broker.add_topic("orders", 2)
    with cluster.client() as client:
        sender = OrderedProducer(client, "orders")
        assert len(sender.queues) == 6
        for number in range(60):
            sender.send(f"order-{number % 7}", str(number).encode())
        read = [
            int(value)
            for queue in sender.queues
            for batch in QueueReader(client).read(
                ReadPlan(QueueRange(queue, 0, client.broker.max_offset(queue)))
            )
            for value in batch.column("value").to_pylist()
        ]
    assert sorted(read) == list(range(60))


def test_every_name_server_knows_the_cluster() -> None:
    cluster = ClusterDouble(name_servers=("n1:9876", "n2:9876"))
    cluster.brokers[0].add_topic("orders", 1)
    cluster.network.take_down("n1:9876")
    with cluster.client(request_timeout_ms=500) as client:
        assert client.routes.topics() == ("orders",)
        assert client.request_timeout_ms == 500


def test_the_doubles_do_not_need_spark() -> None:
    program = "import rmq_ordered.testing, sys; sys.exit('pyspark' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], check=False, env=environment)
    assert done.returncode == 0
