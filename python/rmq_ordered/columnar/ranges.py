"""Queue offsets of decoded batches: that they rise, and cutting a batch to a range.

Holes are legal: a broker that filters skips messages, and offsets are then sparse. Going back or
repeating is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmq_ordered.errors import QueueGap

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_ordered.columnar.slices import Integers
    from rmq_ordered.model import MessageQueue


def ensure_rising(batch: pa.RecordBatch, queue: MessageQueue, *, floor: int = 0) -> None:
    """Checks that a batch follows what came before it.

    Args:
        batch: Decoded messages of the queue.
        queue: The queue, for the error.
        floor: The least queue offset that may come: one more than the last of the batch before.

    Raises:
        QueueGap: an offset is below the floor, repeats or goes back.
    """
    ensure_offsets_rise(_queue_offsets(batch), queue, floor=floor)


def clip(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """The rows with queue offsets in ``[start, end)``, without a copy; offsets must rise."""
    first, last = np.searchsorted(_queue_offsets(batch), (start, end)).tolist()
    return batch.slice(first, max(0, last - first))


def ensure_offsets_rise(queue_offsets: Integers, queue: MessageQueue, *, floor: int = 0) -> None:
    """As ``ensure_rising``, before there is a batch."""
    if queue_offsets.size == 0:
        return
    if queue_offsets[0] < floor:
        raise QueueGap(queue, floor, int(queue_offsets[0]))
    rises = queue_offsets[1:] > queue_offsets[:-1]
    if not rises.all():
        row = int(rises.argmin())
        raise QueueGap(queue, int(queue_offsets[row]) + 1, int(queue_offsets[row + 1]))


def _queue_offsets(batch: pa.RecordBatch) -> Integers:
    offsets: Integers = batch.column("offset").to_numpy()
    return offsets
