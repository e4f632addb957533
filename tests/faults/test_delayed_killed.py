"""kill -9 while messages wait for their time: all of them come, none before its time."""

import time

from tests.support import frames
from tests.support.waiting import wait_until

from rmq_ordered.embedded import EmbeddedBroker

SEND_MESSAGE = 10
DELIVERY_TIMEOUT_S = 30.0


def send(address: str, topic: str, body: bytes, **properties: object) -> None:
    """Send one message with properties of its own."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    fields = {
        "producerGroup": "delayed",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 1,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": 0,
        "flag": 0,
        "properties": text,
    }
    frames.request(address, SEND_MESSAGE, fields, body)


def test_messages_that_wait_survive_kill_9_and_come_at_their_time(
    fresh_embedded: EmbeddedBroker,
) -> None:
    address = fresh_embedded.name_server
    frames.create_topic(address, "later", 1)
    started = time.time()
    for n in range(20):
        send(address, "later", b"<level %d>" % n, DELAY=2)
        send(address, "later", b"<timer %d>" % n, TIMER_DELAY_MS=4000 + n)
    send(address, "later", b"<soon>", DELAY=1)
    wait_until(
        lambda: b"<soon>" in frames.pull(address, "later", 0, 0).body,
        "the first message has come",
        DELIVERY_TIMEOUT_S,
    )
    fresh_embedded.kill()
    with EmbeddedBroker(fresh_embedded.data, listen=address):
        assert b"<level 0>" not in frames.pull(address, "later", 0, 0).body or (
            time.time() - started >= 5.0
        )
        bodies = [b"<%s %d>" % (kind, n) for kind in (b"level", b"timer") for n in range(20)]

        def all_came() -> bool:
            pulled = b"".join(frames.pull(address, "later", 0, start).body for start in (0, 32))
            return all(body in pulled for body in bodies)

        wait_until(all_came, "everything that waited has come", DELIVERY_TIMEOUT_S)
        assert time.time() - started >= 5.0
