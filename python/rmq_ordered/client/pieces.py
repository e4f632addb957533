"""Rows of one queue on their way: what travels together, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rmq_ordered.columnar.digest import Hashes
from rmq_ordered.columnar.outgoing import OutgoingRows
from rmq_ordered.model import QueueReceipt, SendResult


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one queue that travel together: ``first`` is the sequence of the first one."""

    rows: OutgoingRows
    first: int
    digests: Hashes | None
    sys_flag: int = 0

    @property
    def end(self) -> int:
        """The sequence after the last row."""
        return self.first + len(self.rows)

    @property
    def nbytes(self) -> int:
        """About how much memory the rows take."""
        return self.rows.nbytes

    def digest_at(self, sequence: int) -> int:
        """The running digest at one of the rows."""
        return 0 if self.digests is None else int(self.digests[sequence - self.first])

    def after(self, skip: int) -> Piece:
        """The rows but the first ``skip``."""
        if skip == 0:
            return self
        digests = None if self.digests is None else self.digests[skip:]
        rows = self.rows.slice(skip, len(self.rows))
        return Piece(rows, self.first + skip, digests, self.sys_flag)


@dataclass(slots=True)
class LaneTally:
    """What became of a queue's rows so far."""

    receipt: QueueReceipt
    results: list[SendResult] = field(default_factory=list)

    def add(self, more: QueueReceipt) -> None:
        """Rows after those so far."""
        so_far = self.receipt
        is_first = so_far.count + so_far.duplicates == 0
        self.receipt = replace(
            so_far,
            count=so_far.count + more.count,
            duplicates=so_far.duplicates + more.duplicates,
            first_offset=more.first_offset if is_first else so_far.first_offset,
            last_offset=more.last_offset,
        )
        first = -1 if more.first_offset is None else more.first_offset
        self.results.append(SendResult(more.queue, first, more.count + more.duplicates))
