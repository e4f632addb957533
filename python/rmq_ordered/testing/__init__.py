"""Doubles for tests, of this project and of its users: time, streams, a network, a small cluster.

They speak the real protocol through the real codecs, so that only the network and the broker are
pretended. Nothing here imports Spark.

>>> from rmq_ordered.client import Client, OrderedProducer
>>> from rmq_ordered.testing import ClusterDouble
>>> cluster = ClusterDouble()
>>> (queue,) = cluster.brokers[0].add_topic("orders", queues=1)
>>> with cluster.client() as client:
...     OrderedProducer(client, "orders").send("order-1", b"created").first_offset
0
"""

from rmq_ordered.testing.broker import BrokerDouble
from rmq_ordered.testing.clock import ManualClock
from rmq_ordered.testing.cluster import ClusterDouble
from rmq_ordered.testing.faults import (
    AnswerAs,
    CutMidFrame,
    DelayReply,
    DropReply,
    Fault,
    Garble,
    HangUp,
    Refuse,
    SpoilBody,
)
from rmq_ordered.testing.locks import LockTable
from rmq_ordered.testing.nameserver import NameServerDouble
from rmq_ordered.testing.network import ScriptedNetwork
from rmq_ordered.testing.transport import ScriptedTransport

__all__ = [
    "AnswerAs",
    "BrokerDouble",
    "ClusterDouble",
    "CutMidFrame",
    "DelayReply",
    "DropReply",
    "Fault",
    "Garble",
    "HangUp",
    "LockTable",
    "ManualClock",
    "NameServerDouble",
    "Refuse",
    "ScriptedNetwork",
    "ScriptedTransport",
    "SpoilBody",
]
