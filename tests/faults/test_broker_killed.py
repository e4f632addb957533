"""kill -9 of the embedded broker: what was acknowledged is there, and clients go on."""

from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import QueueLease, QueueRange


def connect(broker: EmbeddedBroker) -> Client:
    """A client with patience for busy machines."""
    return Client(broker.name_server, request_timeout_ms=15_000)


def revive(broker: EmbeddedBroker) -> EmbeddedBroker:
    """Kill with SIGKILL and start again on the same data and address."""
    address = broker.name_server
    broker.kill()
    return EmbeddedBroker(broker.data, listen=address)


@proves("acked-survives-kill")
def test_what_was_acknowledged_survives_kill_9(fresh_embedded: EmbeddedBroker) -> None:
    with connect(fresh_embedded) as client:
        client.broker.create_topic("orders", 2)
        producer = OrderedProducer(client, "orders")
        sent = [producer.send(f"key-{n % 7}", b"%d" % n) for n in range(200)]
    with revive(fresh_embedded) as again, connect(again) as client:
        found = {}
        for queue, span in client.broker.topic_stats("orders").items():
            for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, span.maximum))):
                for offset, value in zip(
                    batch.column("offset").to_pylist(),
                    batch.column("value").to_pylist(),
                    strict=True,
                ):
                    found[queue, offset] = int(value)
        assert found == {(r.queue, r.first_offset): n for n, r in enumerate(sent)}
        assert OrderedProducer(client, "orders").send("key-0", b"more").first_offset > 0


def test_topics_offsets_and_epochs_survive_kill_9(fresh_embedded: EmbeddedBroker) -> None:
    with connect(fresh_embedded) as client:
        client.broker.create_topic("orders", 1)
        (queue,) = client.routes.readable("orders")
        OrderedProducer(client, "orders").send("k", b"m")
        client.broker.heartbeat("owner", "group", ["orders"])
        (granted,) = client.broker.lock("group", "owner", [queue])
        lease = QueueLease("group", queue, "owner", granted.epoch)
        client.broker.commit_offset("group", queue, 1, lease=lease)
    with revive(fresh_embedded) as again, connect(again) as client:
        # The recorded owner keeps its lease over the restart; nobody else gets it meanwhile.
        (refused,) = client.broker.lock("group", "other", [queue])
        assert (refused.granted, refused.owner) == (False, "owner")
        (renewed,) = client.broker.lock("group", "owner", [queue])
        assert (renewed.granted, renewed.epoch) == (True, granted.epoch)
        client.broker.unlock("group", "owner", [queue])
        (next_owner,) = client.broker.lock("group", "other", [queue])
        assert next_owner.granted
        assert (next_owner.epoch or 0) > (granted.epoch or 0)
