"""Reading a range and looking at what came."""

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.model import MessageQueue, QueueRange


def read(client: Client, queue: MessageQueue, start: int, end: int, **plan: object) -> list[int]:
    """The queue offsets read, after checking that each row has its own body."""
    offsets: list[int] = []
    for batch in QueueReader(client).read(ReadPlan(QueueRange(queue, start, end), **plan)):  # type: ignore[arg-type]
        found = batch.column("offset").to_pylist()
        assert [int(body) for body in batch.column("value").to_pylist()] == found
        offsets += found
    return offsets
