"""Queue offsets of decoded batches: that they rise, and cutting a batch to a range.

Holes are legal: a broker that filters skips messages, and offsets are then sparse. Going back or
repeating is not.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from rmq_ordered.errors import QueueGap
from rmq_ordered.protocol.message import MIN_RECORD_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_ordered.columnar.slices import Integers
    from rmq_ordered.model import MessageQueue

# totalSize, four fields of no interest, queueOffset.
_SIZE_AND_OFFSET: Final = struct.Struct(">i16xq")


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


def skip_records(body: bytes | memoryview, floor: int) -> bytes | memoryview:
    """Raw records without those that begin below a queue offset; offsets must rise.

    The floor is where an earlier answer ended, so no record reaches over it. Stops where the bytes
    make no sense: what is left is for the decoder to refuse.
    """
    position = 0
    while position <= len(body) - MIN_RECORD_BYTES:
        size, queue_offset = _SIZE_AND_OFFSET.unpack_from(body, position)
        if queue_offset >= floor or not MIN_RECORD_BYTES <= size <= len(body) - position:
            break
        position += size
    return memoryview(body)[position:] if position else body


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
