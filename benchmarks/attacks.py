"""What one bad client may try. Each attack is a function of the broker's address, and ends.

The largest bodies are those that the broker reads at all: 2 MiB of JSON, 4 MiB of a message.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from benchmarks.raw import Raw, frame, json_body

Attack = Callable[[str], None]

TOPIC = "victims"
HEAVY_TOPIC = "heavy"
WIDE_TOPIC = "wide"
WIDE_QUEUES = 65_536
_LARGE = 1_900_000
_JSON_LIMIT = 2 * 1024 * 1024
_ANSWER_S = 120.0
# A chain that is false of every message, as long as an expression may be.
_CHAIN = " OR ".join(f"p{i % 100} CONTAINS 'absent{i}'" for i in range(250))
_LONGEST_CHAIN = " OR ".join(f"p{i % 100} CONTAINS 'n{i}'" for i in range(640))[:15_000].rsplit(
    " OR ", 1
)[0]


def prepare(address: str) -> None:
    """Topics and messages that the attacks are about."""
    client = Raw(address)
    for name, queues in ((TOPIC, 8), (HEAVY_TOPIC, 1), (WIDE_TOPIC, WIDE_QUEUES)):
        fields = {"topic": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
        _ensure(client.call(17, fields)[0])
    properties = "".join(f"p{i}\x01{'v' * 20}{i}\x02" for i in range(100)) + "KEYS\x01same\x02"
    for _ in range(800):
        _ensure(client.call(310, send_fields(HEAVY_TOPIC, 0, properties), b"x" * 100)[0])
    client.close()


def send_fields(topic: str, queue: int, properties: str = "") -> dict[str, object]:
    """The header of a send (310)."""
    return {
        "a": "bench",
        "b": topic,
        "c": "TBW102",
        "d": 8,
        "e": queue,
        "f": 0,
        "g": int(time.time() * 1000),
        "h": 0,
        "i": properties,
        "j": 0,
    }


def pull_fields(topic: str, group: str, offset: int, **more: object) -> dict[str, object]:
    """The header of a pull (11), by default of everything and without waiting."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subscription": "*",
        "subVersion": 0,
        **more,
    }


def _ensure(header: dict[str, object]) -> None:
    if header["code"] != 0:
        raise RuntimeError(f"the broker answered {header}")


def _pipeline(address: str, requests: Iterable[bytes], connections: int = 1) -> None:
    """Write everything on each connection, then read until all is answered or it is closed."""
    frames = list(requests)
    threads = [threading.Thread(target=_one, args=(address, frames)) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _one(address: str, frames: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        client = Raw(address, _ANSWER_S)
        writer = threading.Thread(target=_write, args=(client, frames), daemon=True)
        writer.start()
        answered = 0
        while answered < len(frames):
            header, _ = client.read()
            answered += int(header["flag"]) & 1
        client.close()


def _write(client: Raw, frames: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        for one in frames:
            client.socket.sendall(one)


def _heartbeat(client_id: str, consumers: list[object], producers: list[object]) -> bytes:
    body = {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": producers}
    return frame(34, {}, json_body(body))


def _consumer(group: str, subscriptions: list[object]) -> dict[str, object]:
    return {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": subscriptions,
    }


def _lock(client_id: str, group: str, topic: str, queues: Iterable[int]) -> bytes:
    where = [{"brokerName": "broker-a", "queueId": q, "topic": topic} for q in queues]
    return frame(41, {}, json_body({"clientId": client_id, "consumerGroup": group, "mqSet": where}))


def _filtered(expression: str, code: int = 11, **more: object) -> bytes:
    fields = pull_fields(
        HEAVY_TOPIC, "filters", 0, subscription=expression, expressionType="SQL92", **more
    )
    return frame(code, fields)


def new_groups(address: str) -> None:
    """One heartbeat that names 3,000 groups which nobody knows."""
    run = time.monotonic_ns()
    groups: list[object] = [_consumer(f"g{run}_{i}", []) for i in range(3_000)]
    _pipeline(address, [_heartbeat("many", groups, [])])


def long_filters(address: str) -> None:
    """200 pulls with long chains of CONTAINS, on two connections."""
    _pipeline(address, [_filtered(_LONGEST_CHAIN)] * 100 + [_filtered(_CHAIN)] * 100, 2)


def long_tags(address: str) -> None:
    """Pulls with lists of tags of 900 KB, and as long as they may be."""
    tags = "||".join(f"tag{i}" for i in range(100_000))[:900_000]
    longest = "||".join(f"t{i}" for i in range(2_200))[:16_000]
    pulls = [_tagged(tags)] * 40 + [_tagged(longest)] * 200
    _pipeline(address, pulls, 2)


def _tagged(tags: str) -> bytes:
    return frame(11, pull_fields(HEAVY_TOPIC, "filters", 0, subscription=tags))


def filtered_waits(address: str) -> None:
    """Pulls and pops with filters that wait where the normal client sends."""
    wait = pull_fields(TOPIC, "waits", 1 << 40, subscription=_CHAIN, expressionType="SQL92")
    client = Raw(address)
    end = int(client.call(30, {"topic": TOPIC, "queueId": 0})[0]["extFields"]["offset"])
    client.close()
    pull = frame(11, {**wait, "queueOffset": end, "sysFlag": 6, "suspendTimeoutMillis": 8_000})
    _pipeline(address, [pull] * 300 + [_pop(200_050, 8_000, TOPIC)] * 100, 2)


def filtered_pops(address: str) -> None:
    """Pops and notifications with long filters."""
    requests = [_pop(200_050, 0, HEAVY_TOPIC), _pop(200_054, 0, HEAVY_TOPIC)] * 200
    _pipeline(address, requests, 2)


def _pop(code: int, poll_ms: int, topic: str) -> bytes:
    fields = {
        "consumerGroup": f"pops{time.monotonic_ns()}",
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": 60_000,
        "pollTime": poll_ms,
        "bornTime": int(time.time() * 1000),
        "initMode": 0,
        "order": "false",
        "exp": _CHAIN,
        "expType": "SQL92",
    }
    return frame(code, fields)


def queries(address: str) -> None:
    """Queries for a key that all messages share, also in a time in which nothing was stored."""
    query = {"topic": HEAVY_TOPIC, "key": "same", "maxNum": 64, "beginTimestamp": 0}
    late = {**query, "endTimestamp": 1}
    _pipeline(address, [frame(12, query), frame(12, late)] * 300, 2)


def statistics(address: str) -> None:
    """The state of a topic with 65,536 queues, again and again."""
    requests = [frame(202, {"topic": WIDE_TOPIC})] * 10
    listed = {"consumerGroup": "g", "topicList": ";".join([WIDE_TOPIC] * 10)}
    _pipeline(address, [*requests, *[frame(208, listed)] * 10], 2)


def restless_members(address: str) -> None:
    """600 connections of one group that read nothing and join again and again."""
    clients = [Raw(address) for _ in range(600)]
    for turn in range(5):
        for number, client in enumerate(clients):
            with contextlib.suppress(OSError):
                client.socket.settimeout(1)
                member: list[object] = [_consumer("restless", [])]
                client.socket.sendall(_heartbeat(f"m{number}_{turn}", member, []))
    time.sleep(3)
    for client in clients:
        client.close()


def large_subscriptions(address: str) -> None:
    """265 heartbeats with subscriptions of 1.9 MB."""
    _pipeline(address, (_subscribing(i) for i in range(265)))


def _subscribing(number: int) -> bytes:
    one = {"topic": TOPIC, "subString": "t" * _LARGE, "expressionType": "TAG", "subVersion": 1}
    return _heartbeat(f"s{number}", [_consumer(f"subscribers{number}", [one])], [])


def producer_groups(address: str) -> None:
    """95 heartbeats, each with 2 MB of producer groups."""
    _pipeline(address, (_producing(i) for i in range(95)))


def _producing(number: int) -> bytes:
    names: list[object] = [{"groupName": f"p{number}_{i}_{'n' * 40}"} for i in range(28_000)]
    return _heartbeat(f"p{number}", [], names)


def large_lock_clients(address: str) -> None:
    """77 locks whose client ids have 1.9 MB."""
    _pipeline(address, (_lock(f"{i}" + "c" * _LARGE, "locks", TOPIC, [i]) for i in range(77)))


def many_locks(address: str) -> None:
    """Locks of 15,000 queues each."""
    groups = range(7)
    _pipeline(address, (_lock("l", f"l{g}", WIDE_TOPIC, range(15_000)) for g in groups))


def strange_offsets(address: str) -> None:
    """Commits for queues that the topic does not have."""
    for start in range(0, 800_000, 50_000):
        _pipeline(address, (_commit(q) for q in range(start, start + 50_000)))


def _commit(queue: int) -> bytes:
    fields = {"consumerGroup": "filters", "topic": TOPIC, "queueId": queue, "commitOffset": 1}
    return frame(15, fields)


def large_values(address: str) -> None:
    """Values of the name server and attributes of topics of 900 KB."""
    values = [
        frame(100, {"namespace": "n", "key": f"k{i}", "value": "v" * 900_000}) for i in range(100)
    ]
    attributes = [
        frame(
            17,
            {
                "topic": f"attributes{i}",
                "readQueueNums": 1,
                "writeQueueNums": 1,
                "perm": 6,
                "attributes": f"+k={'v' * 900_000}",
            },
        )
        for i in range(50)
    ]
    _pipeline(address, values + attributes)


def resets(address: str) -> None:
    """Connections that are reset as soon as they are there, for ten seconds."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            one = socket.create_connection((host, int(port)), 5)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()


# What the broker serves, but for what would delete the normal client's topic and group.
_CODES = (
    *(11, 12, 14, 15, 17, 21, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 41, 42, 46),
    *(100, 101, 102, 105, 106, 200, 201, 202, 203, 204, 206, 207, 208, 215, 216, 219, 222, 224),
    *(225, 300, 307, 309, 310, 320, 343, 345, 351, 352, 361, 400, 401),
    *(19_001, 19_002, 19_010, 200_050, 200_051, 200_053, 200_054, 200_055, 200_151),
)


def _any_code(code: int) -> Attack:
    def attack(address: str) -> None:
        body = _message(code) if code in {36, 310, 320} else _widest_json(code)
        _pipeline(address, [frame(code, _any_fields(code), body)] * 20)

    attack.__doc__ = f"Request {code} with the largest body, 20 times."
    return attack


def _any_fields(code: int) -> dict[str, object]:
    if code in {310, 320}:
        return send_fields("others", 0)
    group = "others"
    return {
        **pull_fields("others", group, 0),
        "group": group,
        "groupName": group,
        "producerGroup": group,
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "key": "k",
        "namespace": "n",
        "value": "v",
        "offset": 0,
        "timestamp": 0,
        "isForce": "true",
        "delayLevel": 1,
        "clientId": "nobody",
        "msgId": "0" * 32,
        "brokerName": "broker-a",
        "invisibleTime": 1_000,
        "pollTime": 0,
        "initMode": 0,
        "extraInfo": "0 0 0 0 0 broker-a 0 0",
    }


def _message(code: int) -> bytes:
    return b"" if code == 36 else b"x" * (4 * 1024 * 1024)


def _widest_json(code: int) -> bytes:
    """As many small things as fit, under all names that a handler may read."""
    names = {34: "producerDataSet", 225: "groupConfigList", 200_151: "acks"}
    one = b'{"groupName":"others"}'
    count = (_JSON_LIMIT - 200) // (len(one) + 1)
    head = b'{"clientID":"x","clientId":"x","consumerGroup":"others","'
    items = b",".join([one] * count)
    return head + names.get(code, "mqSet").encode() + b'":[' + items + b"]}"


def all_attacks() -> Iterator[tuple[str, Attack]]:
    """Names and attacks, in the order of a run."""
    for attack in (
        new_groups,
        long_filters,
        long_tags,
        filtered_waits,
        filtered_pops,
        queries,
        statistics,
        restless_members,
        large_subscriptions,
        producer_groups,
        large_lock_clients,
        many_locks,
        strange_offsets,
        large_values,
        resets,
    ):
        yield attack.__name__.replace("_", " "), attack
    for code in _CODES:
        yield f"code {code}", _any_code(code)
