"""A queue whose batches RocketMQ keeps as one record each."""

from dataclasses import replace

from tests.support.brokers import Broker
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.model import MessageQueue, OutgoingMessage
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.message import encode_batch
from rmq_ordered.protocol.sends import send_batch_request
from rmq_ordered.protocol.topics import create_topic_request

BATCH_SIZE = 50
_ATTRIBUTE = "+queue.type=BatchCQ"
_TIMEOUT_MS = 15_000


def folded_queue(broker: Broker, client: Client, count: int) -> MessageQueue:
    """Makes a topic of one queue and sends it the numbers below ``count``, 50 a batch.

    The embedded broker keeps every batch unfolded; what a reader sees is the same.
    """
    topic = broker.unique("folded")
    plain = create_topic_request(topic, 1)
    request = replace(plain, ext_fields={**(plain.ext_fields or {}), "attributes": _ATTRIBUTE})
    answer = client.remoting.call(broker.broker_address, request, "a creation", _TIMEOUT_MS)
    assert answer.code == ResponseCode.SUCCESS
    wait_until(lambda: topic in client.routes.topics(), f"{topic} is known", 20)
    (queue,) = client.routes.writable(topic)
    for first in range(0, count, BATCH_SIZE):
        messages = [
            OutgoingMessage(b"%d" % n, {"__SHARDINGKEY": f"k{n}", "UNIQ_KEY": f"id-{n}"})
            for n in range(first, first + BATCH_SIZE)
        ]
        send = send_batch_request(queue, encode_batch(messages), producer_group="p", born_ms=1)
        # RocketMQ folds only batches that have an id of their own, as Java's have.
        fields = {**(send.ext_fields or {}), "i": f"UNIQ_KEY\x01B{first}\x02WAIT\x01true\x02"}
        landed = client.broker.start(queue, replace(send, ext_fields=fields), "a send", _TIMEOUT_MS)
        assert landed.result().ext_int("queueOffset") == first
    return queue
