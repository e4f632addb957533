"""Which requests of a connection wait for an answer: the numbers that they go by."""

from __future__ import annotations

from typing import Final

from rmq_ordered.errors import RemoteProtocolError

# Opaque ids are signed 32-bit on the wire; we count upwards and wrap before the sign bit.
MAX_OPAQUE: Final = 0x7FFF_FFFF


class InFlight:
    """Opaque ids of one connection. Not thread-safe.

    Invariants: an opaque is in flight at most once; an answer to one that is not in flight came too
    late, except that one that was never given out is a protocol error.
    """

    def __init__(self) -> None:
        self._waiting: set[int] = set()
        self._next = 1
        self._has_wrapped = False

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> int:
        """An id that nobody waits for; not in flight yet."""
        opaque = self._next
        while opaque in self._waiting:
            opaque = self._following(opaque)
        self._next = self._following(opaque)
        return opaque

    def add(self, opaque: int) -> None:
        """A request goes out under this id."""
        self._waiting.add(opaque)

    def settle(self, opaque: int) -> bool:
        """An answer came: whether somebody waits for it.

        Raises:
            RemoteProtocolError: no request had this id.
        """
        if opaque in self._waiting:
            self._waiting.remove(opaque)
            return True
        if opaque <= 0 or not (self._has_wrapped or opaque < self._next):
            raise RemoteProtocolError(
                f"an answer names request {opaque}, which was never sent on this connection"
            )
        return False

    def forget(self, opaque: int) -> None:
        """Nobody waits any more; the answer is dropped if it comes late."""
        self._waiting.discard(opaque)

    def _following(self, opaque: int) -> int:
        if opaque < MAX_OPAQUE:
            return opaque + 1
        self._has_wrapped = True
        return 1
