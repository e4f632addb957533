"""``rmq-ordered send``: lines from standard input become messages, in order per key."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final

from rmq_ordered.cli.options import DEFAULT_NAME_SERVER, AsJson, NameServer, Topic, open_client
from rmq_ordered.cli.output import fail, print_json, print_line, print_table
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import MessageQueue, OutgoingMessage, SendResult

if TYPE_CHECKING:
    from rmq_ordered.client import OrderedProducer

_READ_BYTES: Final = 1024 * 1024
# They separate properties on the wire, and a key travels as a property.
_SEPARATORS: Final = frozenset(b"\x01\x02")


class BadLine(Exception):
    """A line that is not KEY<TAB>VALUE."""

    def __init__(self, number: int, expected: str) -> None:
        super().__init__(number, expected)
        self.number = number
        self.expected = expected


@dataclass(slots=True)
class _Landed:
    """What one queue got."""

    count: int = 0
    first_offset: int = -1
    last_offset: int = -1

    def add(self, result: SendResult) -> None:
        if self.count == 0:
            self.first_offset = result.first_offset
        self.count += result.count
        self.last_offset = result.first_offset + result.count - 1


@dataclass(slots=True)
class _Tally:
    """What was sent until now, by queue."""

    queues: dict[MessageQueue, _Landed] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(landed.count for landed in self.queues.values())

    def add(self, results: dict[MessageQueue, list[SendResult]]) -> None:
        for queue, landed in results.items():
            for result in landed:
                self.queues.setdefault(queue, _Landed()).add(result)


def send(
    topic: Topic, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: AsJson = False
) -> None:
    """Send the lines of standard input, each KEY<TAB>VALUE, to a topic that exists.

    Lines of one key go to one queue, in their order. Lines are sent as they come in, many at once
    when they come fast. A line without a tab ends the command; what came before it is sent.
    """
    from rmq_ordered.client import OrderedProducer

    tally = _Tally()
    with open_client(name_server) as client:
        producer = OrderedProducer(client, topic)
        lines = 0
        try:
            for chunk in chunks_of_lines(sys.stdin.buffer):
                _send_chunk(producer, chunk, lines, tally)
                lines += len(chunk)
        except BadLine as bad:
            fail(f"line {bad.number}: {bad.expected}; the {tally.count} lines before it were sent")
    _report(topic, tally, as_json=as_json)


def chunks_of_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Whole lines as soon as they are there, without their line ends; never an empty list."""
    rest = b""
    # read1 returns what a pipe or terminal has now, instead of waiting for a full buffer.
    while data := stream.read1(_READ_BYTES):  # type: ignore[attr-defined]
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def parse_lines(lines: Iterable[bytes], before: int) -> Iterator[tuple[int, str, bytes]]:
    """Number, key and value of each line, or BadLine; ``before`` lines came before these."""
    for number, line in enumerate(lines, before + 1):
        key, tab, value = line.partition(b"\t")
        if not tab:
            raise BadLine(number, "expected KEY<TAB>VALUE, found no tab")
        if _SEPARATORS.intersection(key):
            raise BadLine(number, f"expected a key without the bytes 0x01 and 0x02, found {key!r}")
        try:
            yield number, key.decode(), value
        except UnicodeDecodeError:
            raise BadLine(number, f"expected a key in UTF-8, found {key!r}") from None


def _send_chunk(producer: OrderedProducer, lines: list[bytes], before: int, tally: _Tally) -> None:
    outgoing: dict[MessageQueue, list[OutgoingMessage]] = {}
    bad: BadLine | None = None
    try:
        for number, key, value in parse_lines(lines, before):
            message = _message(producer, number, key, value)
            outgoing.setdefault(producer.queue_of(key), []).append(message)
    except BadLine as error:
        bad = error
    tally.add(producer.send_all(outgoing))
    if bad is not None:
        raise bad


def _message(producer: OrderedProducer, number: int, key: str, value: bytes) -> OutgoingMessage:
    try:
        return producer.message(value, key=key)
    except LocalProtocolError as error:
        raise BadLine(number, str(error)) from error


def _report(topic: str, tally: _Tally, *, as_json: bool) -> None:
    rows = [
        (queue.broker_name, queue.queue_id, landed.count, landed.first_offset, landed.last_offset)
        for queue, landed in sorted(tally.queues.items())
    ]
    if as_json:
        names = ("broker", "queue", "count", "firstOffset", "lastOffset")
        details = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"topic": topic, "count": tally.count, "queues": details})
        return
    noun = "message" if tally.count == 1 else "messages"
    print_line(f"sent {tally.count} {noun} to {topic}")
    if rows:
        print_table(("broker", "queue", "count", "first offset", "last offset"), rows)
