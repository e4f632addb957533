"""Makes the network of a Python process, and of all it forks, fail now and then.

Put this folder first in PYTHONPATH and set RMQ_ORDERED_CUTS to how many of a thousand answers are
to be lost with their connection. The request has been served by then: nobody hears of it.
"""

import os
import random

from rmq_ordered.errors import ConnectionLost
from rmq_ordered.net import transport

_CONNECT = transport.connect_tcp
_PER_THOUSAND = int(os.environ.get("RMQ_ORDERED_CUTS", "0"))


class _Cut:
    """A connection that ends instead of giving an answer."""

    def __init__(self, inner: transport.Transport, address: str) -> None:
        self._inner = inner
        self._address = address
        # Workers are forked: each connection needs luck of its own.
        self._random = random.Random(os.urandom(8))

    def send_all(self, data: bytes, timeout_ms: int = transport.STALL_TIMEOUT_MS) -> None:
        self._inner.send_all(data, timeout_ms)

    def receive_into(self, buffer: bytearray) -> int:
        count = self._inner.receive_into(buffer)
        if self._random.randrange(1_000) < _PER_THOUSAND:
            raise ConnectionLost(self._address, "the test has cut it")
        return count

    def close(self) -> None:
        self._inner.close()


def _connect(address: str, /) -> transport.Transport:
    return _Cut(_CONNECT(address), address)


if _PER_THOUSAND:
    transport.connect_tcp = _connect
