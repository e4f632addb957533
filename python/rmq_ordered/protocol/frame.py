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
_LENGTH: Final = struct.Struct(">i")
# The two length words; the second one has the header codec in its top byte.
PREFIX: Final = struct.Struct(">iI")
_HEADER_LENGTH_MASK: Final = 0x00FF_FFFF


class HeaderCodec(IntEnum):
    """How a frame's header is written."""

    JSON = 0
    ROCKETMQ = 1


# Looked up for every frame: faster than calling the enumeration.
_CODECS: Final = {int(codec): codec for codec in HeaderCodec}


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
    prefix = PREFIX.pack(length, (frame.codec << 24) | len(frame.header))
    return b"".join((prefix, frame.header, frame.body))


class FrameDecoder:
    """Collects bytes and gives back whole frames.

    Frames that came whole are cut out of what came; only the one at its end is collected. Memory is
    bounded by one frame of ``max_frame_bytes``. Not thread-safe.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._begun = bytearray()

    def receive_data(self, data: bytes | memoryview) -> list[Frame]:
        """Take bytes as they came; return the frames they complete, in order."""
        frames: list[Frame] = []
        position = self._go_on(data, frames) if self._begun else 0
        try:
            while (end := self._frame_end(data, position)) <= len(data):
                frames.append(_cut(data, position, end))
                position = end
        finally:
            self._begun += data[position:]  # what lied is kept too, and refused again
        return frames

    @property
    def is_empty(self) -> bool:
        """Whether the stream stands between two frames."""
        return not self._begun

    def _go_on(self, data: bytes | memoryview, frames: list[Frame]) -> int:
        """Complete the frame that was begun, if it can be; returns how much of the data it took."""
        position = 0
        # Twice: the length word itself may not have come whole.
        for _ in range(2):
            missing = self._frame_end(self._begun, 0) - len(self._begun)
            taken = data[position : position + missing]
            self._begun += taken
            position += len(taken)
        if len(self._begun) == self._frame_end(self._begun, 0):
            frames.append(_cut(self._begun, 0, len(self._begun)))
            self._begun = bytearray()
        return position

    def _frame_end(self, data: bytes | bytearray | memoryview, position: int) -> int:
        return frame_end(data, position, self._max_frame_bytes)


def frame_end(data: bytes | bytearray | memoryview, position: int, max_frame_bytes: int) -> int:
    """Where the frame at ``position`` ends; or its length word, while that is not all here.

    Raises:
        RemoteProtocolError: no frame has such a length.
    """
    if position + _LENGTH.size > len(data):
        return position + _LENGTH.size
    (length,) = _LENGTH.unpack_from(data, position)
    if length < 4 or length + 4 > max_frame_bytes:
        raise RemoteProtocolError(
            f"a frame announces {length} bytes, allowed are 4 to {max_frame_bytes - 4}; "
            "the peer does not speak RocketMQ's remoting protocol (is TLS expected, or is it "
            "an HTTP port?)"
        )
    return position + _LENGTH.size + int(length)


def read_prefix(
    data: bytes | bytearray | memoryview, position: int, end: int
) -> tuple[HeaderCodec, int, int]:
    """How the header of a whole frame is written, where it begins and where it ends.

    Raises:
        RemoteProtocolError: it does not fit its frame, or nobody knows how it is written.
    """
    _, word = PREFIX.unpack_from(data, position)
    start, header_length = position + PREFIX.size, word & _HEADER_LENGTH_MASK
    if start + header_length > end:
        raise RemoteProtocolError(
            f"a header of {header_length} bytes does not fit its frame of {end - position - 4}"
        )
    codec = _CODECS.get(word >> 24)
    if codec is None:
        raise RemoteProtocolError(f"unknown header codec {word >> 24}")
    return codec, start, start + header_length


def _cut(data: bytes | bytearray | memoryview, position: int, end: int) -> Frame:
    codec, header_start, header_end = read_prefix(data, position, end)
    with memoryview(data) as view:
        return Frame(codec, bytes(view[header_start:header_end]), bytes(view[header_end:end]))
