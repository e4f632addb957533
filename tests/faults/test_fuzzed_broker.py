"""Tens of thousands of random and spoiled frames: the broker serves on, and nothing is lost.

40,000 requests with wrong contents, and 400 streams of 50 frames with wrong bytes. The seed is
fixed and printed by a failure's name.
"""

import json
import random
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.requests import TOPICS, Request, flip, served_codes, spoil, valid_requests
from tests.faults.sockets import connect
from tests.support.frames import read_frame
from tests.support.paths import GOLDEN
from tests.support.processes import anonymous_memory_mib
from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import QueueRange
from rmq_ordered.protocol.command import RemotingCommand, encode_command
from rmq_ordered.protocol.frame import HeaderCodec

CONNECTIONS = 4
SPOILED_REQUESTS = 40_000
SPOILED_STREAMS = 400
FRAMES_PER_STREAM = 50
MESSAGES = 20
BURST = 250
LAST_OPAQUE = 2_000_000_000
# The launcher allows 512 MiB of heap and as much of direct buffers. None of these requests is
# large, so both stay far below that, unless each request leaves something behind.
MAX_ANONYMOUS_MIB = 700
# What a log may hold after such a run: refusals and closed connections, told in one line each. A
# stack trace, an ERROR or a request that failed means that the broker met the unexpected.
BAD_LOG_LINE = re.compile(
    r"^\tat |^Caused by: | ERROR |request failed|Exception in thread|OutOfMemory|StackOverflow"
)


Attack = Callable[[EmbeddedBroker, int, int], None]


@pytest.fixture
def witness(fresh_embedded: EmbeddedBroker) -> Iterator[tuple[Client, str]]:
    """A client with a topic of its own."""
    with Client(fresh_embedded.name_server) as client:
        topic = "intact"
        client.broker.create_topic(topic, 1)
        producer = OrderedProducer(client, topic)
        for number in range(MESSAGES):
            producer.send("k", b"%d" % number)
        yield client, topic


def encode(request: Request, opaque: int, codec: HeaderCodec = HeaderCodec.JSON) -> bytes:
    fields = {
        name: value.encode("utf-8", "replace").decode() for name, value in request.fields.items()
    }
    return encode_command(
        RemotingCommand(request.code, opaque, request.flag, fields, request.body, codec=codec)
    )


def opaque_of(frame: bytes) -> int:
    header_length = struct.unpack(">i", frame[:4])[0] & 0xFFFFFF
    return int(json.loads(frame[4 : 4 + header_length])["opaque"])


def send_spoiled_requests(broker: EmbeddedBroker, seed: int, count: int) -> None:
    """Well-formed frames with wrong contents: the connection must survive all of them."""
    rng = random.Random(seed)
    originals = valid_requests()
    with connect(broker) as sock:
        for burst in range(count // BURST):
            last = LAST_OPAQUE + burst
            frames = [
                encode(spoil(rng.choice(originals), rng), rng.randrange(1000)) for _ in range(BURST)
            ]
            frames.append(encode(Request(106, {}), last))
            sender = threading.Thread(target=sock.sendall, args=(b"".join(frames),))
            sender.start()
            while opaque_of(read_frame(sock)) != last:
                pass
            sender.join()


def send_spoiled_streams(broker: EmbeddedBroker, seed: int, count: int) -> None:
    """Bytes that may be no frames at all: the connection may end, and must end when we stop."""
    rng = random.Random(seed)
    golden = [
        bytes.fromhex(case["hex"]) for case in json.loads((GOLDEN / "frames.json").read_text())
    ]
    codecs = list(HeaderCodec)
    valid = [
        encode(request, 1, rng.choice(codecs) if request.code < 2**15 else HeaderCodec.JSON)
        for request in valid_requests()
    ]
    for _ in range(count):
        frames = [rng.choice(golden + valid) for _ in range(FRAMES_PER_STREAM)]
        spoiled = [flip(frame, rng) if rng.random() < 0.3 else frame for frame in frames]
        data = b"".join(spoiled) if rng.random() < 0.95 else rng.randbytes(400)
        with connect(broker) as sock:
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65_536):
                    pass
            except TimeoutError:
                raise  # the broker kept a dead connection
            except OSError:
                continue  # it hung up while we were speaking


def in_parallel(broker: EmbeddedBroker, attack: Attack, seed: int, count: int) -> None:
    failures: list[BaseException] = []

    def run(part: int) -> None:
        try:
            attack(broker, seed + part, count // CONNECTIONS)
        except BaseException as error:  # raised again below, in the test's thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(part,)) for part in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def ensure_intact(witness: tuple[Client, str], log: Path, pid: int | None) -> None:
    client, topic = witness
    (queue,) = client.routes.readable(topic)
    assert client.broker.max_offset(queue) == MESSAGES
    batches = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, MESSAGES)))
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    assert values == [b"%d" % number for number in range(MESSAGES)]
    bad = [
        line for line in log.read_text(errors="replace").splitlines() if BAD_LOG_LINE.search(line)
    ]
    assert not bad, bad[:20]
    assert pid is not None
    assert anonymous_memory_mib(pid) < MAX_ANONYMOUS_MIB


@pytest.mark.parametrize("seed", [20_261])
def test_spoiled_requests_are_answered_and_nothing_else_happens(
    fresh_embedded: EmbeddedBroker, witness: tuple[Client, str], seed: int
) -> None:
    in_parallel(fresh_embedded, send_spoiled_requests, seed, SPOILED_REQUESTS)
    ensure_intact(witness, fresh_embedded.data / "broker.log", fresh_embedded.pid)


@proves("fuzzed-bytes")
@pytest.mark.parametrize("seed", [20_262])
def test_spoiled_streams_end_their_connection_and_nothing_else(
    fresh_embedded: EmbeddedBroker, witness: tuple[Client, str], seed: int
) -> None:
    in_parallel(fresh_embedded, send_spoiled_streams, seed, SPOILED_STREAMS)
    ensure_intact(witness, fresh_embedded.data / "broker.log", fresh_embedded.pid)
    log = fresh_embedded.data / "broker.log"
    fresh_embedded.stop()
    fresh_embedded.start()
    ensure_intact(witness, log, fresh_embedded.pid)


def test_every_request_code_of_the_broker_is_attacked() -> None:
    assert served_codes() <= {request.code for request in valid_requests()}
    assert "intact" not in TOPICS
