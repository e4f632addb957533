"""What of a stream of rows is in a queue already, and what is therefore to be done with the next.

One ``StampedStream`` is one (sink, batch, partition) in one queue. Rows have sequences 0, 1, 2, ...
and a running digest that depends on all rows up to there. Sends of a queue are sequential, so what
landed is always a prefix, and the digest of its last row tells whether it is a prefix of *these*
rows.

    KNOWN --lost answer, broker cannot tell repeats--> UNKNOWN --learned--> KNOWN

Pure: no I/O, no clock. Used by the producer and by whatever else writes stamped rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rmq_ordered.errors import BatchSuperseded, LocalProtocolError, StreamGap
from rmq_ordered.model import LandedStamp, MessageQueue, SendStream

DigestAt = Callable[[int], int]


class Recovery(Enum):
    """How the outcome of a send whose answer was lost is found out."""

    BROKER = "the broker recognises repeats by their stamps"
    READ_BACK = "the queue is read back"
    REPEAT = "not at all: a repeat may be stored twice"


@dataclass(frozen=True, slots=True)
class Send:
    """Send the rows but the first ``skip``, which are there already."""

    skip: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """All of these rows are there already."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Find out first what landed."""


@dataclass(frozen=True, slots=True)
class Diverged:
    """What landed is not the beginning of these rows."""

    sequence: int
    reason: str


Decision = Send | Skip | ReadBack | Diverged


class StampedStream:
    """The state of one stream in one queue. Not thread-safe.

    Args:
        queue: the queue, for errors.
        stream: the stream, for errors and its batch number.
        recovery: how unknown outcomes are resolved.
        is_known: whether it is certain that nothing of this batch landed before.
    """

    def __init__(
        self, queue: MessageQueue, stream: SendStream, recovery: Recovery, *, is_known: bool = True
    ) -> None:
        self._queue = queue
        self._stream = stream
        self._recovery = recovery
        self._is_known = is_known or recovery is not Recovery.READ_BACK
        self._landed = 0
        self._acknowledged = 0
        self._last: LandedStamp | None = None

    @property
    def landed_count(self) -> int:
        """How many rows of the batch are known to be in the queue, from sequence 0 on."""
        return self._landed

    def judge(self, first: int, count: int, digest_at: DigestAt) -> Decision:
        """What to do with rows ``[first, first + count)``.

        Args:
            first: sequence of the first of them.
            count: how many.
            digest_at: the running digest at one of these sequences.

        Raises:
            LocalProtocolError: rows before them were never given.
        """
        if not self._is_known:
            return ReadBack()
        if first > self._landed:
            raise LocalProtocolError(
                f"{self._queue}: rows from {first} on are to be sent, but only {self._landed} rows "
                f"of {self._stream} came before"
            )
        diverged = self._compare(first, count, digest_at)
        if diverged is not None:
            return diverged
        if first + count <= self._landed:
            return Skip()
        return Send(self._landed - first)

    def acknowledged(self, first: int, count: int) -> None:
        """The broker has stored rows ``[first, first + count)``, which this writer sent."""
        self._landed = self._acknowledged = max(self._landed, first + count)
        self._last = None

    def learned(self, last: LandedStamp | None) -> None:
        """What the broker or a read-back says is the last row there; None: nothing new.

        Raises:
            BatchSuperseded: a later batch has landed.
            StreamGap: fewer rows than were acknowledged.
        """
        self._is_known = True
        if last is None:
            return
        if last.batch > self._stream.batch:
            raise BatchSuperseded(self._queue, self._stream, last.batch)
        found = last.sequence + 1 if last.batch == self._stream.batch else 0
        # A read-back begins after what was acknowledged; lower than that is only a late repeat.
        if found < self._acknowledged and self._recovery is Recovery.BROKER:
            raise StreamGap(self._queue, self._stream, self._acknowledged, found)
        if found > self._landed:
            self._landed = found
            self._last = last

    def lost_answer(self) -> None:
        """A send was not answered: nobody knows whether its rows landed."""
        self._is_known = self._recovery is not Recovery.READ_BACK

    def finish(self, count: int) -> Diverged | None:
        """There are ``count`` rows and no more; tells if more had landed before."""
        if self._landed <= count:
            return None
        reason = f"{self._landed} rows landed then, and this attempt has only {count}"
        return Diverged(self._landed - 1, reason)

    def _compare(self, first: int, count: int, digest_at: DigestAt) -> Diverged | None:
        last = self._last
        if last is None or not first <= last.sequence < first + count:
            return None
        own = digest_at(last.sequence)
        if own != last.digest:
            reason = f"digest {last.digest:016x} landed at offset {last.queue_offset}, not"
            return Diverged(last.sequence, f"{reason} {own:016x}")
        self._last = None
        return None
