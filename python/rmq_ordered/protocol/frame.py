"""Cutting a byte stream into frames, and nothing else.

    offset  size  field
    0       4     length: bytes that follow this word (4 + headerLen + bodyLen)
    4       4     top byte: header codec; low 24 bits: headerLen
    8       n     header
    8+n     rest  body

A frame that cannot be legal ends the connection: after a lying length nothing in the stream can be
trusted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError

# RocketMQ's NettyDecoder FRAME_MAX_LENGTH: the whole frame including its length word.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
_PREFIX: Final = struct.Struct(">iI")
_HEADER_LENGTH_MASK: Final = 0x00FF_FFFF


class HeaderCodec(IntEnum):
    """How a frame's header is written."""

    JSON = 0
    ROCKETMQ = 1


@dataclass(frozen=True, slots=True)
class Frame:
    """Header and body of one frame; the body is not copied again from here on."""

    codec: HeaderCodec
    header: bytes
    body: bytes


def encode_frame(frame: Frame) -> bytes:
    """Put the two length words before header and body."""
    length = 4 + len(frame.header) + len(frame.body)
    if length + 4 > MAX_FRAME_BYTES:
        raise LocalProtocolError(
            f"a frame of {length + 4} bytes is over RocketMQ's limit of {MAX_FRAME_BYTES}; send "
            "less at once"
        )
    prefix = _PREFIX.pack(length, (frame.codec << 24) | len(frame.header))
    return b"".join((prefix, frame.header, frame.body))


class FrameDecoder:
    """Collects bytes and gives back whole frames.

    Memory is bounded by one frame of ``max_frame_bytes`` plus the last chunk received. Not
    thread-safe.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    def receive_data(self, data: bytes | memoryview) -> list[Frame]:
        """Take bytes as they came; return the frames they complete, in order."""
        self._buffer += data
        frames: list[Frame] = []
        position = 0
        try:
            while (end := self._frame_end(position)) is not None:
                frames.append(self._cut(position, end))
                position = end
        finally:
            if position:
                del self._buffer[:position]
        return frames

    @property
    def is_empty(self) -> bool:
        """Whether the stream stands between two frames."""
        return not self._buffer

    def _frame_end(self, position: int) -> int | None:
        """Where the frame at ``position`` ends, or None while it is not all here."""
        available = len(self._buffer) - position
        if available < 4:
            return None
        length = int.from_bytes(self._buffer[position : position + 4], "big", signed=True)
        if length < 4 or length + 4 > self._max_frame_bytes:
            raise RemoteProtocolError(
                f"a frame announces {length} bytes, allowed are 4 to {self._max_frame_bytes - 4}; "
                "the peer does not speak RocketMQ's remoting protocol (is TLS expected, or is it "
                "an HTTP port?)"
            )
        return position + 4 + length if available >= 4 + length else None

    def _cut(self, position: int, end: int) -> Frame:
        _, word = _PREFIX.unpack_from(self._buffer, position)
        header_length = word & _HEADER_LENGTH_MASK
        header_end = position + 8 + header_length
        if header_end > end:
            raise RemoteProtocolError(
                f"a header of {header_length} bytes does not fit its frame of {end - position - 4}"
            )
        try:
            codec = HeaderCodec(word >> 24)
        except ValueError:
            raise RemoteProtocolError(f"unknown header codec {word >> 24}") from None
        view = memoryview(self._buffer)
        try:
            return Frame(codec, bytes(view[position + 8 : header_end]), bytes(view[header_end:end]))
        finally:
            view.release()
