"""A RocketMQ client for ordered topics; useful with and without Spark.

>>> from rmq_ordered.client import Client, OrderedProducer  # doctest: +SKIP
>>> with Client("127.0.0.1:9876") as client:                # doctest: +SKIP
...     OrderedProducer(client, "orders").send("order-1", b"created")
"""

from rmq_ordered.client.connection import Client
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.client.producer import OrderedProducer
from rmq_ordered.client.reader import QueueReader, ReadPlan
from rmq_ordered.client.settings import (
    Compression,
    OnDivergence,
    OnLayoutChange,
    SendSettings,
)
from rmq_ordered.client.writer import OrderedWriter

__all__ = [
    "Client",
    "Compression",
    "LeaseKeeper",
    "OnDivergence",
    "OnLayoutChange",
    "OrderedProducer",
    "OrderedWriter",
    "QueueReader",
    "ReadPlan",
    "SendSettings",
]
