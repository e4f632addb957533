"""``rmq-ordered tail``: the messages of a topic as lines, each queue in its order.

Reads ranges with the same reader as the Spark source, round by round: what each queue has now, at
most a thousand messages of each, merged by the time they were stored. No group, no lease, no
commit: looking does not disturb consumers.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rmq_ordered.cli.options import DEFAULT_NAME_SERVER, AsJson, NameServer, Topic, open_client
from rmq_ordered.cli.output import iso, note, print_json, print_line, printable
from rmq_ordered.model import MessageQueue, OffsetSpan, QueueRange

if TYPE_CHECKING:
    from rmq_ordered.client import Client

# A round holds this many messages of each queue in memory.
_ROUND_OFFSETS: Final = 1_000
# One request per broker and round while nothing happens.
_IDLE_PAUSE_MS: Final = 200

Row = dict[str, Any]


class Start(StrEnum):
    """Where to begin."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Follower:
    """Positions in the queues of one topic, and what came since."""

    def __init__(self, client: Client, topic: str, start: Start) -> None:
        self._client = client
        self._topic = topic
        # Asked before anything is printed: what is sent from now on is seen.
        self._positions = {
            queue: span.minimum if start is Start.EARLIEST else span.maximum
            for queue, span in client.broker.topic_stats(topic).items()
        }

    def rows(self, *, follow: bool) -> Iterator[Row]:
        """Messages in the order of each queue; endless if following, else to the current end."""
        ends: dict[MessageQueue, int] | None = None
        while True:
            spans = self._client.broker.topic_stats(self._topic)
            if ends is None and not follow:
                ends = {queue: span.maximum for queue, span in spans.items()}
            ranges = [
                found
                for queue, span in spans.items()
                if len(found := self._next_range(queue, span, ends))
            ]
            yield from self._merge(ranges)
            if ranges:
                continue
            if not follow:
                return
            self._client.clock.pause_ms(_IDLE_PAUSE_MS)

    def _next_range(
        self, queue: MessageQueue, span: OffsetSpan, ends: dict[MessageQueue, int] | None
    ) -> QueueRange:
        # A queue that appeared meanwhile is read from its beginning.
        position = self._positions.get(queue, span.minimum)
        if not span.minimum <= position <= span.maximum:
            note(
                f"{queue}: the next message was to be {position}, but the broker holds "
                f"[{span.minimum}, {span.maximum}); messages expired or the topic was created "
                f"anew; going on at {span.minimum}"
            )
            position = span.minimum
        self._positions[queue] = position
        end = span.maximum if ends is None else ends.get(queue, position)
        return QueueRange(queue, position, min(end, position + _ROUND_OFFSETS))

    def _merge(self, ranges: list[QueueRange]) -> Iterator[Row]:
        features = self._client.routes.features(self._topic)
        streams = [self._read(one, features) for one in ranges]
        yield from heapq.merge(*streams, key=lambda row: row["timestamp"])

    def _read(self, found: QueueRange, features: frozenset[str]) -> Iterator[Row]:
        from rmq_ordered.client import QueueReader, ReadPlan

        for batch in QueueReader(self._client).read(ReadPlan(found, features=features)):
            yield from batch.to_pylist()
        self._positions[found.queue] = found.end


def tail(
    topic: Topic,
    start: Annotated[
        Start, typer.Option("--from", help="Begin with the first message still there, or the next.")
    ] = Start.LATEST,
    limit: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="Stop after N messages.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow/--no-follow", help="Wait for further messages, or stop at the current end."
        ),
    ] = True,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: AsJson = False,
) -> None:
    """Print messages as they come, like `tail -f`, until Ctrl-C or --max.

    A line is PLACE<TAB>KEY<TAB>VALUE, where PLACE is broker/queue/offset; `cut -f 2-` makes of it
    what `send` reads. Control characters are escaped. With --json a line is an object, exact in
    every byte: `value` is text if `encoding` is utf-8, else base64. Each queue is in its order.
    """
    with open_client(name_server) as client:
        follower = Follower(client, topic, start)
        if follow:
            note(f"following {topic} from {start.value}; Ctrl-C stops")
        for row in islice(follower.rows(follow=follow), limit):
            if as_json:
                print_json(row_json(row))
            else:
                print_line(row_line(row))


def row_json(row: Row) -> Row:
    """One message as a JSON object."""
    value: bytes = row["value"]
    try:
        text, encoding = value.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(value).decode(), "base64"
    return {
        "key": row["key"],
        "value": text,
        "encoding": encoding,
        "topic": row["topic"],
        "broker": row["broker"],
        "queue": row["queue"],
        "offset": row["offset"],
        "timestamp": iso(row["timestamp"]),
        "tags": row["tags"],
        "keys": row["index_keys"],
        "messageId": row["message_id"],
    }


def row_line(row: Row) -> str:
    """One message as a line for people."""
    value = row["value"].decode("utf-8", "backslashreplace")
    key = (row["key"] or "").replace("\t", "\\t")
    return printable(f"{row['broker']}/{row['queue']}/{row['offset']}\t{key}\t{value}")
