"""A valid request of every code the broker knows, and ways to spoil it.

Names come from short lists, so that spoiled requests meet things that exist, and never touch what
the tests look at afterwards.
"""

import json
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.support.paths import ROOT

TOPICS = ("fuzz-a", "fuzz-b", "fuzz-c", "%RETRY%fuzz-group", "%DLQ%fuzz-group")
GROUPS = ("fuzz-group", "fuzz-other")
STRANGE = (
    "", " ", "0", "-1", "1", "7", "65536", "2147483647", "2147483648", "-9223372036854775808",
    "9223372036854775808", "1e9", "NaN", "true", "null", "../../etc/passwd", "a/b", "a.b", "\x00",
    "\x01\x02", "é", "\ud83d\ude00", "%", "%RETRY%", "TBW102", "SCHEDULE_TOPIC_XXXX", "x" * 300,
    "k\x01v\x02" * 50, "DELAY\x0118\x02", "RMQO_STAMP\x01s/1/0/0/0123456789abcdef\x02",
    "RMQO_STAMP\x01s/1/0/99/0123456789abcdef\x02", "RMQO_STAMP\x01nonsense\x02", "*", "a || b",
)  # fmt: skip
# SQL filters: good ones, ones that mean nothing, and ones that are long or deep.
EXPRESSIONS = (
    "a = 1", "a = 1 AND b <> 'x' OR NOT c IS NULL", "price BETWEEN 1 AND 2.5", "a IN ('x', 'y')",
    "TAGS CONTAINS 'x'", "a > b", "a = TRUE", "NULL", "", "a =", "a = 'x", "a # b", "= = =",
    "(" * 90 + "a" + ")" * 90, "(" * 5000 + "a" + ")" * 5000, "NOT " * 90 + "a",
    "=".join(["a"] * 400), "=".join(["a"] * 8_190), "<>".join(["a"] * 5_000),
    " AND ".join(["a = 1"] * 1_500), " OR ".join(["a = 1"] * 1_500), "a" + " IS NULL" * 2_000,
    "a" + " CONTAINS 'x'" * 1_200, "-" * 90 + "1 = a", "a = " + "9" * 300, "a" * 20_000,
)  # fmt: skip
STRANGE_BODIES = (
    b"", b"{", b"{}", b"[]", b"null", b'"text"', b"1e999", b"[" * 2000, b'{"a":' * 1500,
    b"\xff\xfe\x00", b"\x00" * 64, b'{"mqSet":{"a":1},"clientId":7,"consumerGroup":[]}',
    b'{"clientID":"c","consumerDataSet":[null,1,{"groupName":null,"subscriptionDataSet":"x"}]}',
    struct.pack(">iiiii", 22, 0, 0, 0, -1) + b"\x00\x00",
    struct.pack(">iiiii", 2**31 - 1, 0, 0, 0, 9),
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request as it would be sent."""

    code: int
    fields: Mapping[str, str]
    body: bytes = b""
    flag: int = 0


def _record(body: bytes, properties: bytes = b"") -> bytes:
    size = 22 + len(body) + len(properties)
    return (
        struct.pack(">iiiii", size, 0, 0, 0, len(body))
        + body
        + struct.pack(">h", len(properties))
        + properties
    )


_TOPIC = {"topic": TOPICS[0]}
_QUEUE = {"topic": TOPICS[0], "queueId": "0"}
_MEMBER = {"consumerGroup": GROUPS[0], **_QUEUE}
_KV = {"namespace": "fuzz", "key": "k", "value": "v"}
_SEND = {
    "a": "pg", "b": TOPICS[0], "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
    "i": "KEYS\x01k\x02", "j": "0", "k": "false", "l": "3", "m": "false",
}  # fmt: skip
_LONG_SEND = {
    "producerGroup": "pg", "topic": TOPICS[0], "defaultTopic": "TBW102", "queueId": "0",
    "defaultTopicQueueNums": "4", "sysFlag": "0", "bornTimestamp": "1", "flag": "0",
    "properties": "", "reconsumeTimes": "0",
}  # fmt: skip
_PULL = {
    **_MEMBER, "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
    "suspendTimeoutMillis": "100", "subscription": "*", "subVersion": "0", "maxMsgBytes": "65536",
    "leaseEpoch": "1",
}  # fmt: skip
# Waits a little, so that what arrives meanwhile is filtered by whoever stores it.
_SQL = {
    **{name: value for name, value in _PULL.items() if name != "leaseEpoch"},
    "expressionType": "SQL92", "subscription": EXPRESSIONS[0], "sysFlag": "6",
    "queueOffset": "1000000",
}  # fmt: skip
_SQL_POP = {
    **_MEMBER, "maxMsgNums": "8", "invisibleTime": "1000", "pollTime": "100", "initMode": "0",
    "expType": "SQL92", "exp": EXPRESSIONS[0],
}  # fmt: skip
_NEW_TOPIC = {**_TOPIC, "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "order": "true"}
_LOCK = {
    "clientId": "c1",
    "consumerGroup": GROUPS[0],
    "mqSet": [{"topic": TOPICS[0], "brokerName": "broker-a", "queueId": 0}],
}
_SUBSCRIPTION = {"topic": TOPICS[0], "subString": "*", "expressionType": "TAG", "subVersion": 1}
_HEARTBEAT = {
    "clientID": "c1",
    "consumerDataSet": [
        {
            "groupName": GROUPS[0],
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [_SUBSCRIPTION],
        }
    ],
    "producerDataSet": [{"groupName": "pg"}],
}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def valid_requests() -> list[Request]:
    """One of each; what needs a body has a good one."""
    group = {"consumerGroup": GROUPS[0]}
    batch = _record(b"one", b"TAGS\x01t\x02") + _record(b"two")
    stamped = _record(b"one", b"RMQO_STAMP\x01s/1/0/0/0123456789abcdef\x02")
    once = batch + bytes(16)
    unfenced = {name: value for name, value in _PULL.items() if name != "leaseEpoch"}
    plain = [
        (10, _LONG_SEND, b"body"), (310, _SEND, b"body"), (320, _SEND, batch), (11, _PULL, b""),
        (361, unfenced, b""), (11, _SQL, b""), (361, {**_SQL, "queueOffset": "0"}, b""),
        (200050, _SQL_POP, b""), (200054, _SQL_POP, b""),
        (320, _SEND, stamped), (320, {**_SEND, "stamp": "s/2/0/0", "digests": "2"}, once),
        (14, _MEMBER, b""), (15, {**_MEMBER, "commitOffset": "1"}, b""),
        (17, _NEW_TOPIC, b""), (21, {}, b""), (28, {}, b""),
        (29, {**_QUEUE, "timestamp": "1"}, b""),
        (30, _QUEUE, b""), (31, _QUEUE, b""), (32, _QUEUE, b""), (34, {}, _json(_HEARTBEAT)),
        (35, {"clientID": "c1", **group}, b""), (36, {"group": GROUPS[0], "offset": "0"}, b""),
        (38, group, b""), (41, {}, _json(_LOCK)), (42, {}, _json(_LOCK)),
        (46, {}, _json({"group": GROUPS[0], "subscriptionData": _SUBSCRIPTION})), (100, _KV, b""),
        (101, _KV, b""), (102, _KV, b""), (105, _TOPIC, b""), (106, {}, b""),
        (200, {}, _json({"groupName": GROUPS[1], "retryMaxTimes": 3})), (201, {}, b""),
        (202, _TOPIC, b""), (203, group, b""), (204, {"producerGroup": "pg"}, b""), (206, {}, b""),
        (207, {"groupName": GROUPS[1]}, b""), (208, {**group, **_TOPIC}, b""),
        (215, {"topic": TOPICS[2]}, b""), (216, {"topic": TOPICS[2]}, b""),
        (219, {"namespace": "fuzz"}, b""), (224, {"cluster": "DefaultCluster"}, b""),
        (300, _TOPIC, b""), (351, _TOPIC, b""), (19001, {}, b""),
        (19002, {**_QUEUE, "sink": "s", "partition": "0"}, b""),
    ]  # fmt: skip
    requests = [Request(code, fields, body) for code, fields, body in plain]
    # Codes that came later are attacked with everything there is, until somebody lists them above.
    everything = {**_PULL, **_NEW_TOPIC, **_KV, "group": GROUPS[0], "offset": "0", "maxNum": "1"}
    later = served_codes() - {request.code for request in requests}
    return requests + [Request(code, everything, _json(_LOCK)) for code in sorted(later)]


def served_codes() -> set[int]:
    """The request codes in the broker's own table."""
    source = ROOT / "src/main/scala/rmqordered/protocol/RequestCode.scala"
    return {int(code) for code in re.findall(r"val \w+ = (\d+)", source.read_text())}


def spoil(request: Request, rng: random.Random) -> Request:
    """The request with a field, its body or its code changed, perhaps several."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        request = rng.choice(_SPOILERS)(request, rng)
    return request


def _change_field(request: Request, rng: random.Random) -> Request:
    names = list(request.fields) or ["topic"]
    name = rng.choice(names)
    values: Sequence[str] = STRANGE
    if name in ("topic", "b") and rng.random() < 0.7:
        values = TOPICS
    elif name in ("subscription", "exp") and rng.random() < 0.9:
        values = EXPRESSIONS
    return Request(
        request.code, {**request.fields, name: rng.choice(values)}, request.body, request.flag
    )


def _drop_field(request: Request, rng: random.Random) -> Request:
    kept = {name: value for name, value in request.fields.items() if rng.random() < 0.8}
    return Request(request.code, kept, request.body, request.flag)


def _replace_body(request: Request, rng: random.Random) -> Request:
    return Request(request.code, request.fields, rng.choice(STRANGE_BODIES), request.flag)


def _flip_body(request: Request, rng: random.Random) -> Request:
    return Request(request.code, request.fields, flip(request.body, rng), request.flag)


def _other_code(request: Request, rng: random.Random) -> Request:
    code = rng.choice((0, -1, 1, 9, 12, 33, 37, 220, 222, 400, 200050, 31999, 2**31 - 1))
    return Request(code, request.fields, request.body, request.flag)


def _one_way(request: Request, rng: random.Random) -> Request:
    return Request(request.code, request.fields, request.body, rng.choice((1, 2, 3, 4, -1)))


Spoiler = Callable[[Request, random.Random], Request]
_SPOILERS: tuple[Spoiler, ...] = (
    _change_field, _change_field, _change_field, _drop_field, _replace_body, _flip_body,
    _other_code, _one_way,
)  # fmt: skip


def flip(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some flipped, cut out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + rng.randint(1, 8)]
        elif kind == 2:
            changed[at:at] = changed[max(0, at - rng.randint(1, 16)) : at]
        else:
            changed[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(changed)
