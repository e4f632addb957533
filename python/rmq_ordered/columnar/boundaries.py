"""Where each record of a pulled body begins and ends.

A record's size is its first word, so finding the next one needs the one before: a loop over
integers. Where many records in a row have one size, a guess checked in one step replaces the loop.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.protocol.message import MIN_RECORD_BYTES, malformed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmq_ordered.columnar.slices import Flags, Integers, Octets
    from rmq_ordered.errors import RemoteProtocolError
    from rmq_ordered.model import MessageQueue

# A quarter of what Arrow's 32-bit string offsets reach: replacing bytes that are not UTF-8 can make
# properties three times as long.
MAX_BATCH_BYTES: Final = 512 * 1024 * 1024

_SIZE: Final = struct.Struct(">i")
# Guessing costs some microseconds: after this many equal sizes it pays, and cannot hurt much.
_STREAK: Final = 32
_FIRST_GUESS: Final = 64
_LARGEST_GUESS: Final = 65_536


class TooMuchAtOnce(LocalProtocolError):
    """Records that expand to too much together, none of them by itself: decode fewer at once."""


@dataclass(frozen=True, slots=True)
class Records:
    """Pulled bytes cut into records ``[start, end)`` that lie end to end, none too short."""

    queue: MessageQueue
    octets: Octets
    starts: Integers
    ends: Integers

    def __len__(self) -> int:
        return self.starts.size

    def ensure(self, is_good: Flags, expected: str, found: Callable[[int], object]) -> None:
        """Refuses the first row that is not good; ``found`` tells what it has instead."""
        if not is_good.all():
            row = int(is_good.argmin())
            raise self.malformed(row, expected, found(row))

    def malformed(self, row: int, expected: str, found: object) -> RemoteProtocolError:
        """The error that names the queue, the queue offset and the byte position of a row."""
        return _malformed(self.queue, self.octets, int(self.starts[row]), expected, found)


def split_records(body: bytes | memoryview, queue: MessageQueue) -> Records:
    """Cuts a body into records.

    Raises:
        RemoteProtocolError: a size is impossible, or the last record does not end with the body.
        LocalProtocolError: the body is too large for one batch.
    """
    if len(body) > MAX_BATCH_BYTES:
        raise LocalProtocolError(
            f"{queue}: {len(body)} bytes are too many for one batch of at most "
            f"{MAX_BATCH_BYTES}; decode fewer answers at once"
        )
    octets = np.frombuffer(body, np.uint8)
    starts = _find_starts(body, octets, queue)
    return Records(queue, octets, starts, np.append(starts[1:], len(body))[: starts.size])


def _find_starts(body: bytes | memoryview, octets: Octets, queue: MessageQueue) -> Integers:
    found: list[Integers] = []
    walked: list[int] = []
    position = size = streak = 0
    while position <= octets.size - MIN_RECORD_BYTES:
        previous = size
        (size,) = _SIZE.unpack_from(body, position)
        if not MIN_RECORD_BYTES <= size <= octets.size - position:
            break
        walked.append(position)
        position += size
        streak = streak + 1 if size == previous else 0
        if streak == _STREAK:
            run = _count_equal(octets, position, size)
            found += (np.array(walked, np.int64), position + size * np.arange(run, dtype=np.int64))
            walked.clear()
            position += size * run
            streak = 0
    if position != octets.size:
        raise _bad_size(body, octets, position, queue)
    return np.concatenate([*found, np.array(walked, np.int64)])


def _count_equal(octets: Octets, position: int, size: int) -> int:
    """How many records from a position on have one size; reads whole records only."""
    available = (octets.size - position) // size
    run, guess = 0, _FIRST_GUESS
    while run < available:
        # Doubled, not all at once: records of changing sizes would make this quadratic.
        guess = min(guess, available - run)
        sizes = np.ndarray((guess,), ">i4", octets, position + run * size, (size,))
        differs = sizes != size
        first = int(differs.argmax())
        if differs[first]:
            return run + first
        run += guess
        guess = min(2 * guess, _LARGEST_GUESS)
    return run


def _bad_size(
    body: bytes | memoryview, octets: Octets, position: int, queue: MessageQueue
) -> RemoteProtocolError:
    found = f"{octets.size - position} bytes at the end"
    if octets.size - position >= MIN_RECORD_BYTES:
        (size,) = _SIZE.unpack_from(body, position)
        found = f"totalSize {size} and {found}"
    expected = f"a whole record of at least {MIN_RECORD_BYTES} bytes"
    return _malformed(queue, octets, position, expected, found)


def _malformed(
    queue: MessageQueue, octets: Octets, position: int, expected: str, found: object
) -> RemoteProtocolError:
    return malformed(octets.data, position, where=str(queue), expected=expected, found=found)
