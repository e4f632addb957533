"""One face for the two brokers, so that a contract test need not know which one it talks to."""

import itertools
import os
import re
from dataclasses import dataclass
from typing import Literal

from tests.support import frames
from tests.support.waiting import wait_until

_RUN = f"{os.getpid():x}"
_COUNTER = itertools.count(1)
# RocketMQ allows 127 characters in a topic and 120 in a group; the rest is for the suffix and for
# %RETRY%.
_MAX_CHARACTERS = 80
ROUTE_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Broker:
    """A broker under contract: the embedded one or the real Apache RocketMQ."""

    name_server: str
    broker_address: str
    kind: Literal["embedded", "rocketmq"]

    def unique(self, name: str) -> str:
        """Returns a topic or group name that no other test uses."""
        return unique_name(name)

    def create_topic(self, name: str, queues: int) -> str:
        """Creates a topic under a unique name like this one; returns it once it has a route."""
        topic = unique_name(name)
        frames.create_topic(self.broker_address, topic, queues)
        wait_until(
            lambda: frames.route(self.name_server, topic).code == frames.SUCCESS,
            f"the new topic {topic} has a route",
            ROUTE_TIMEOUT_S,
        )
        return topic


def unique_name(name: str) -> str:
    """Returns a name that no other test, of this run or another, uses; RocketMQ allows it."""
    allowed = re.sub(r"[^a-zA-Z0-9_-]", "-", name)
    return f"{allowed[:_MAX_CHARACTERS]}-{_RUN}-{next(_COUNTER)}"
