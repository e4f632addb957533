"""A RocketMQ client for ordered topics; useful with and without Spark (``docs/client.md``).

>>> from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
>>> from rmq_ordered.model import QueueRange
>>> with Client("127.0.0.1:9876") as client:
...     client.broker.create_topic("payments", 2)
...     sent = OrderedProducer(client, "payments").send("order-1", b"paid")
...     plan = ReadPlan(QueueRange(sent.queue, sent.first_offset, sent.first_offset + 1))
...     [rows.column("value").to_pylist() for rows in QueueReader(client).read(plan)]
[[b'paid']]
"""

from rmq_ordered.client.batches import ConsumeResult, MessageBatch
from rmq_ordered.client.connection import Client
from rmq_ordered.client.consumer import OrderedConsumer
from rmq_ordered.client.consumer_settings import ConsumerSettings
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.client.plan import ReadPlan
from rmq_ordered.client.pop import PopConsumer, PopHold
from rmq_ordered.client.producer import OrderedProducer
from rmq_ordered.client.reader import QueueReader
from rmq_ordered.client.send_settings import SendSettings
from rmq_ordered.client.writer import OrderedWriter
from rmq_ordered.model import Compression, OnDivergence, OnLayoutChange, Selector
from rmq_ordered.net.tls import TlsSettings
from rmq_ordered.protocol.acl import Credentials
from rmq_ordered.protocol.members import FilterKind, StartPoint, Subscription

__all__ = [
    "Client",
    "Compression",
    "ConsumeResult",
    "ConsumerSettings",
    "Credentials",
    "FilterKind",
    "LeaseKeeper",
    "MessageBatch",
    "OnDivergence",
    "OnLayoutChange",
    "OrderedConsumer",
    "OrderedProducer",
    "OrderedWriter",
    "PopConsumer",
    "PopHold",
    "QueueReader",
    "ReadPlan",
    "Selector",
    "SendSettings",
    "StartPoint",
    "Subscription",
    "TlsSettings",
]
