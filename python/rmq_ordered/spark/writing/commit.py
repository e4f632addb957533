"""What the driver does when all tasks of a batch have written: tell, warn, move the floors on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from rmq_ordered.client.ledger import SinkLedger
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import MessageQueue, QueueReceipt
from rmq_ordered.options import SinkOptions
from rmq_ordered.spark.connect import open_client
from rmq_ordered.spark.writing.keys import shared_key
from rmq_ordered.spark.writing.task import SentMessage

_LOG: Final = logging.getLogger("rmq_ordered.spark")

Messages = Sequence[WriterCommitMessage | None]


def committed(options: SinkOptions, messages: Messages, *, is_lasting: bool = True) -> None:
    """Every task of a batch has written its rows.

    Args:
        options: of the sink.
        messages: what the tasks returned.
        is_lasting: whether batches of the same sink may follow.
    """
    tasks = sent(messages)
    if not tasks:
        return
    stream = tasks[0].attempt.stream
    tell(stream.sink, stream.batch, tasks)
    warn_of_shared_keys(stream.batch, tasks)
    if not is_lasting:
        forget(options, stream.sink)
    elif any(task.needs_floors for task in tasks):
        receipts = [receipt for task in tasks for receipt in task.receipts]
        with open_client(options.connection) as client:
            SinkLedger(client, stream.sink).commit(tasks[0].attempt.run, stream.batch, receipts)


def forget(options: SinkOptions, sink: str) -> None:
    """A write that is never repeated has ended; its records in the name servers go."""
    try:
        with open_client(options.connection) as client:
            SinkLedger(client, sink).forget()
    except RmqOrderedError as error:
        _LOG.debug("records of sink=%s stay behind: %s", sink, error)


def aborted(messages: Messages, where: str) -> None:
    """A task failed for good; what was sent is stored, and a replay recognises it."""
    _LOG.warning(
        "aborted after %s of %s tasks had sent their rows %s",
        len(sent(messages)),
        len(messages),
        where,
    )


def sent(messages: Messages) -> list[SentMessage]:
    """The messages of tasks that succeeded."""
    return [message for message in messages if isinstance(message, SentMessage)]


def tell(sink: str, batch: int, tasks: Iterable[SentMessage]) -> None:
    """Counts and offsets, once per batch and once per queue."""
    found = list(tasks)
    _LOG.info(
        "sent count=%s duplicates=%s tasks=%s sink=%s batch=%s",
        sum(task.count for task in found),
        sum(task.duplicates for task in found),
        len(found),
        sink,
        batch,
    )
    for queue, receipts in sorted(_by_queue(found).items()):
        firsts = [one.first_offset for one in receipts if one.first_offset is not None]
        lasts = [one.last_offset for one in receipts if one.last_offset is not None]
        _LOG.info(
            "sent queue=%s count=%s first_offset=%s last_offset=%s batch=%s",
            queue,
            sum(receipt.count for receipt in receipts),
            min(firsts, default=None),
            max(lasts, default=None),
            batch,
        )


def warn_of_shared_keys(batch: int, tasks: Iterable[SentMessage]) -> None:
    """Rows of one key in two tasks have no order among themselves."""
    key = shared_key([task.keys for task in tasks])
    if key is not None:
        _LOG.warning(
            "batch=%s: key %r was written by two tasks, so its rows have no order among "
            "themselves; do not repartition between source and sink, or bring a key's rows "
            "together with rmq_ordered.spark.by_key(df, 'key') and set sequenceColumn",
            batch,
            key,
        )


def _by_queue(tasks: Iterable[SentMessage]) -> dict[MessageQueue, list[QueueReceipt]]:
    found: dict[MessageQueue, list[QueueReceipt]] = {}
    for task in tasks:
        for receipt in task.receipts:
            found.setdefault(receipt.queue, []).append(receipt)
    return found
