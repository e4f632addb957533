"""A few lines of RocketMQ's remoting protocol over a blocking socket, for checks from outside.

Deliberately not the package's own client: it stays right when that one is wrong. JSON headers only,
one request at a time.

    i32 length of the rest | i32 header length (top byte 0: JSON) | header | body
"""

import json
import socket
import ssl
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

_RECEIVE_BYTES = 1 << 20

SUCCESS = 0
TOPIC_NOT_EXIST = 17

PULL_MESSAGE = 11
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
UPDATE_AND_CREATE_TOPIC = 17
UPDATE_BROKER_CONFIG = 25
GET_BROKER_RUNTIME_INFO = 28
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
GET_TOPIC_STATS_INFO = 202

PULL_WITH_SUBSCRIPTION = 4  # sysFlag bit 2: the filter is in the request, no heartbeat is needed
CLIENT_VERSION = 479  # V5_3_3; 401 and above get routes as strict JSON
ONLY_OPAQUE = 1  # one request per connection at a time, so a constant id is unique


@dataclass(frozen=True)
class Reply:
    """A response frame."""

    code: int
    remark: str | None
    fields: Mapping[str, str]
    body: bytes


class UnexpectedReply(AssertionError):
    """The peer answered with another code than success."""

    def __init__(self, request_code: int, reply: Reply) -> None:
        self.request_code = request_code
        self.reply = reply
        super().__init__(request_code, reply)

    def __str__(self) -> str:
        return f"request {self.request_code} was answered {self.reply.code}: {self.reply.remark}"


def ask(
    address: str,
    code: int,
    fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    version: int = CLIENT_VERSION,
    timeout_s: float = 20.0,
    context: ssl.SSLContext | None = None,
) -> Reply:
    """Sends one request on a new connection and returns the answer, whatever its code.

    With a context the connection is encrypted.

    Raises:
        OSError: The peer cannot be reached, or hangs up, or does not answer in time.
    """
    host, port = address.rsplit(":", 1)
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, int(port)), timeout_s))
        if context is not None:
            secure = context.wrap_socket(connection, server_hostname=host)
            connection = stack.enter_context(secure)
        connection.sendall(_encode(code, version, fields or {}, body))
        return _decode(read_frame(connection))


def request(
    address: str,
    code: int,
    fields: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    version: int = CLIENT_VERSION,
) -> Reply:
    """Like `ask`, but only success is good enough."""
    reply = ask(address, code, fields, body, version=version)
    if reply.code != SUCCESS:
        raise UnexpectedReply(code, reply)
    return reply


def route(name_server: str, topic: str) -> Reply:
    """Asks the name server where a topic lives."""
    return ask(
        name_server, GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": True}
    )


def master_address(name_server: str, topic: str) -> str:
    """Returns the address of the (single) broker that holds a topic."""
    reply = request(name_server, GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    addresses: dict[str, str] = json.loads(reply.body)["brokerDatas"][0]["brokerAddrs"]
    return addresses["0"]


def create_topic(broker_address: str, topic: str, queues: int) -> None:
    """Creates a topic with as many read as write queues."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    request(broker_address, UPDATE_AND_CREATE_TOPIC, fields)


def committed_offset(broker_address: str, group: str, topic: str, queue_id: int) -> int | None:
    """Returns the offset a group has committed for a queue, or None if it never did."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "setZeroIfNotFound": False,
    }
    reply = ask(broker_address, QUERY_CONSUMER_OFFSET, fields)
    return int(reply.fields["offset"]) if reply.code == SUCCESS else None


def commit_offset(
    broker_address: str, group: str, topic: str, queue_id: int, queue_offset: int
) -> None:
    """Commits an offset of a queue for a group, and waits until the broker has it."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "commitOffset": queue_offset,
    }
    request(broker_address, UPDATE_CONSUMER_OFFSET, fields)


def pull(
    broker_address: str, topic: str, queue_id: int, queue_offset: int, max_messages: int = 32
) -> Reply:
    """Pulls the stored records of a queue from an offset on; neither waits nor commits."""
    fields = {
        "consumerGroup": "rmq-ordered-test-puller",
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "maxMsgNums": max_messages,
        "sysFlag": PULL_WITH_SUBSCRIPTION,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    return ask(broker_address, PULL_MESSAGE, fields)


def _encode(code: int, version: int, fields: Mapping[str, object], body: bytes) -> bytes:
    header = json.dumps(
        {
            "code": code,
            "language": "OTHER",
            "version": version,
            "opaque": ONLY_OPAQUE,
            "flag": 0,
            "extFields": {name: _text(value) for name, value in fields.items()},
        }
    ).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decode(frame: bytes) -> Reply:
    header_length = struct.unpack_from(">i", frame)[0] & 0xFFFFFF
    header = json.loads(frame[4 : 4 + header_length])
    return Reply(
        code=header["code"],
        remark=header.get("remark"),
        fields=header.get("extFields") or {},
        body=frame[4 + header_length :],
    )


def read_frame(connection: socket.socket) -> bytes:
    """Reads the next frame, without its length word."""
    (length,) = struct.unpack(">i", _read_exactly(connection, 4))
    return _read_exactly(connection, length)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = connection.recv(min(count - len(data), _RECEIVE_BYTES))
        if not chunk:
            message = f"the peer hung up after {len(data)} of {count} bytes"
            raise ConnectionError(message)
        data += chunk
    return bytes(data)
