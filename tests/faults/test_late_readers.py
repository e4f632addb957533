"""Clients that ask for the largest answers and read them late: everyone gets every answer."""

from contextlib import ExitStack

from tests.faults.sockets import LARGE_MESSAGES, connect, large_pull
from tests.support.brokers import unique_name
from tests.support.frames import read_frame
from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer
from rmq_ordered.embedded import EmbeddedBroker

CLIENTS = 40
PULLS = 4
MESSAGE_BYTES = 1_000_000


@proves("late-readers-served")
def test_many_clients_that_read_late_get_all_their_answers(fresh_embedded: EmbeddedBroker) -> None:
    topic = unique_name("late")
    with Client(fresh_embedded.name_server, request_timeout_ms=15_000) as client:
        client.broker.create_topic(topic, 1)
        producer = OrderedProducer(client, topic)
        for _ in range(LARGE_MESSAGES):
            producer.send("k", b"x" * MESSAGE_BYTES)
        with ExitStack() as stack:
            late = [stack.enter_context(connect(fresh_embedded)) for _ in range(CLIENTS)]
            # Unread these answers are 640 MB, more than the broker has for all its buffers.
            for sock in late:
                sock.sendall(b"".join(large_pull(topic, opaque) for opaque in range(PULLS)))
            # Served meanwhile, although nobody has read anything yet.
            assert producer.send("k", b"meanwhile").first_offset == LARGE_MESSAGES
            for sock in late:
                for _ in range(PULLS):
                    assert len(read_frame(sock)) > LARGE_MESSAGES * MESSAGE_BYTES
