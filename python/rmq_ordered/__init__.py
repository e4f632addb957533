"""Apache RocketMQ ordered topics in PySpark, and without it.

Public names are loaded when first used: Spark imports this package in every Python worker, where
neither the broker nor the command line is wanted.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from rmq_ordered.version import __version__

if TYPE_CHECKING:
    from rmq_ordered.client import (
        Client,
        Credentials,
        LeaseKeeper,
        OrderedProducer,
        QueueReader,
        ReadPlan,
        TlsSettings,
    )
    from rmq_ordered.embedded import EmbeddedBroker
    from rmq_ordered.errors import RmqOrderedError

__all__ = [
    "Client",
    "Credentials",
    "EmbeddedBroker",
    "LeaseKeeper",
    "OrderedProducer",
    "QueueReader",
    "ReadPlan",
    "RmqOrderedError",
    "TlsSettings",
    "__version__",
]

_HOMES: Final = {
    "Client": "rmq_ordered.client",
    "Credentials": "rmq_ordered.client",
    "EmbeddedBroker": "rmq_ordered.embedded",
    "LeaseKeeper": "rmq_ordered.client",
    "OrderedProducer": "rmq_ordered.client",
    "QueueReader": "rmq_ordered.client",
    "ReadPlan": "rmq_ordered.client",
    "RmqOrderedError": "rmq_ordered.errors",
    "TlsSettings": "rmq_ordered.client",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # asked once
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
