"""A RocketMQ client for ordered topics; useful with and without Spark.

>>> from rmq_ordered.client import Client, OrderedProducer  # doctest: +SKIP
>>> with Client("127.0.0.1:9876") as client:                # doctest: +SKIP
...     OrderedProducer(client, "orders").send("order-1", b"created")
"""

from rmq_ordered.client.batches import ConsumeResult, MessageBatch
from rmq_ordered.client.connection import Client
from rmq_ordered.client.consumer import OrderedConsumer
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.client.pop import PopConsumer
from rmq_ordered.client.producer import OrderedProducer
from rmq_ordered.client.reader import QueueReader, ReadPlan
from rmq_ordered.client.settings import ConsumerSettings
from rmq_ordered.protocol.members import FilterKind, StartPoint, Subscription

__all__ = [
    "Client",
    "ConsumeResult",
    "ConsumerSettings",
    "FilterKind",
    "LeaseKeeper",
    "MessageBatch",
    "OrderedConsumer",
    "OrderedProducer",
    "PopConsumer",
    "QueueReader",
    "ReadPlan",
    "StartPoint",
    "Subscription",
]
