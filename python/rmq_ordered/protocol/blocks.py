"""Receiving into large blocks and cutting frames out of them without a copy.

For connections that bring much: what a socket gives is written where it stays, and large bodies are
views of it. A block lives as long as somebody has a view of it.

    block   [frame][frame][frame][fra.................]
                                     ^ received so far; the rest goes here
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from rmq_ordered.protocol.frame import MAX_FRAME_BYTES, HeaderCodec, frame_end, read_prefix

# A dozen answers of 32 messages of a kilobyte.
BLOCK_BYTES: Final = 512 * 1024
# A body that is a smaller part of its block is copied: whoever keeps bodies keeps so many times
# their size at most, whatever a peer sends between them.
_LEAST_PART: Final = 16
# Behind a frame that has a block to itself: the next one begins there and is moved once it is known
# how long it is, so little is moved.
_ROOM_BEHIND: Final = 64 * 1024
# Less room at the end of a block is not worth a call of the system.
_LEAST_ROOM: Final = 16 * 1024

Allocate = Callable[[int], memoryview]


class FrameView(NamedTuple):
    """A frame whose body, if it is large, lies in the block that it came into."""

    codec: HeaderCodec
    header: bytes
    body: bytes | memoryview


class FrameBlocks:
    """Says where to receive to, and what frames that completed. Not thread-safe.

    Memory is bounded by one frame of ``max_frame_bytes`` and a block, and whatever views are kept.

    Args:
        allocate: makes blocks; their contents do not matter.
        block_bytes: how large blocks are, unless a frame is larger.
        max_frame_bytes: a longer frame is refused.
    """

    def __init__(
        self,
        allocate: Allocate,
        block_bytes: int = BLOCK_BYTES,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._allocate = allocate
        self._block_bytes = block_bytes
        self._max_frame_bytes = max_frame_bytes
        self._block = memoryview(b"")
        # What was received and not given out: the beginning of a frame.
        self._start = self._filled = 0

    @property
    def is_empty(self) -> bool:
        """Whether the stream stands between two frames."""
        return self._start == self._filled

    def space(self) -> memoryview:
        """Where the next bytes should go; valid until ``received``."""
        needed = self._frame_end() - self._start
        room = len(self._block) - self._start
        if needed > room or len(self._block) - self._filled < _LEAST_ROOM:
            self._move(needed)
        return self._block[self._filled :]

    def received(self, count: int) -> list[FrameView]:
        """So many bytes are in ``space`` now; returns the frames that they complete, in order.

        Raises:
            RemoteProtocolError: this is no frame; nothing behind it can be trusted.
        """
        self._filled += count
        frames: list[FrameView] = []
        while (end := self._frame_end()) <= self._filled:
            codec, header_start, header_end = read_prefix(self._block, self._start, end)
            header = bytes(self._block[header_start:header_end])
            body = self._block[header_end:end]
            is_large = len(body) * _LEAST_PART >= len(self._block)
            frames.append(FrameView(codec, header, body if is_large else bytes(body)))
            self._start = end
        return frames

    def _frame_end(self) -> int:
        begun = self._block[: self._filled]
        return frame_end(begun, self._start, self._max_frame_bytes)

    def _move(self, needed: int) -> None:
        """Go on in a new block, with what there is of the frame that was begun."""
        begun = self._block[self._start : self._filled]
        self._block = self._allocate(max(self._block_bytes, needed + _ROOM_BEHIND))
        self._block[: len(begun)] = begun
        self._start, self._filled = 0, len(begun)
