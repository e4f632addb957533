"""Plain sockets for tests that send and read bytes themselves."""

import socket

from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.protocol.command import RemotingCommand, encode_command

DEADLINE_S = 60.0
# What one answer to `large_pull` holds.
LARGE_MESSAGES = 4


def connect(broker: EmbeddedBroker) -> socket.socket:
    """A connection whose every call has a deadline."""
    host, _, port = broker.name_server.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=DEADLINE_S)


def large_pull(topic: str, opaque: int = 1) -> bytes:
    """A request for the first messages of a topic, which are large."""
    fields = {
        "consumerGroup": "unread", "topic": topic, "queueId": "0", "queueOffset": "0",
        "maxMsgNums": str(LARGE_MESSAGES), "maxMsgBytes": "4194304", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    return encode_command(RemotingCommand(11, opaque=opaque, ext_fields=fields))
