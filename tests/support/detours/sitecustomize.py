"""Sends the connections of a Python process, and of all it forks, another way.

Put this folder first in PYTHONPATH and set RMQ_ORDERED_DETOURS to JSON: addresses of servers, and
where to connect instead. Brokers tell clients their own address, so that a proxy in front of them
would be passed by otherwise.
"""

import json
import os

from rmq_ordered.net import transport

_CONNECT = transport.connect_tcp
_DETOURS: dict[str, str] = json.loads(os.environ.get("RMQ_ORDERED_DETOURS", "{}"))


def _connect(address: str, /) -> transport.Transport:
    return _CONNECT(_DETOURS.get(address, address))


transport.connect_tcp = _connect
