"""Cutting a stream into frames: sizes, split points, garbage."""

import struct

import pytest

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.protocol.frame import (
    MAX_FRAME_BYTES,
    Frame,
    FrameDecoder,
    HeaderCodec,
    encode_frame,
)

FRAME = Frame(HeaderCodec.JSON, b"{}", b"body")


def test_the_layout_is_length_codec_and_header_length_header_body() -> None:
    assert encode_frame(FRAME) == bytes.fromhex("0000000a 00000002 7b7d 626f6479")
    binary = Frame(HeaderCodec.ROCKETMQ, b"{}", b"")
    assert encode_frame(binary) == bytes.fromhex("00000006 01000002 7b7d")


def test_several_frames_in_one_chunk_come_out_in_order() -> None:
    frames = [Frame(HeaderCodec.JSON, b"h", bytes([number])) for number in range(5)]
    decoder = FrameDecoder()
    assert decoder.receive_data(b"".join(map(encode_frame, frames))) == frames
    assert decoder.is_empty


def test_a_frame_that_is_not_all_here_waits_for_the_rest() -> None:
    data = encode_frame(FRAME)
    decoder = FrameDecoder()
    assert decoder.receive_data(data[:-1]) == []
    assert not decoder.is_empty
    assert decoder.receive_data(memoryview(data)[-1:]) == [FRAME]


def test_a_frame_without_body_and_one_without_header_are_frames() -> None:
    for frame in (Frame(HeaderCodec.JSON, b"h", b""), Frame(HeaderCodec.JSON, b"", b"b")):
        assert FrameDecoder().receive_data(encode_frame(frame)) == [frame]


def test_the_largest_legal_frame_passes_and_one_byte_more_is_refused_on_both_sides() -> None:
    largest = Frame(HeaderCodec.JSON, b"", bytes(MAX_FRAME_BYTES - 8))
    assert FrameDecoder().receive_data(encode_frame(largest)) == [largest]
    with pytest.raises(LocalProtocolError, match="16777217 bytes"):
        encode_frame(Frame(HeaderCodec.JSON, b"", bytes(MAX_FRAME_BYTES - 7)))
    with pytest.raises(RemoteProtocolError, match="announces 16777213 bytes"):
        FrameDecoder().receive_data(struct.pack(">i", MAX_FRAME_BYTES - 3))


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3, 2**31 - 1])
def test_a_length_that_cannot_be_legal_is_refused_before_the_frame_arrives(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"announces {length} bytes"):
        FrameDecoder().receive_data(struct.pack(">i", length))


def test_an_http_answer_is_refused_with_a_hint() -> None:
    with pytest.raises(RemoteProtocolError, match="HTTP port"):
        FrameDecoder().receive_data(b"HTTP/1.1 400 Bad Request\r\n")


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="header of 100 bytes does not fit"):
        FrameDecoder().receive_data(struct.pack(">ii", 8, 100) + b"abcd")


def test_an_unknown_header_codec_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown header codec 2"):
        FrameDecoder().receive_data(struct.pack(">iI", 4, 2 << 24))


def test_a_stream_that_lied_once_is_never_believed_again() -> None:
    decoder = FrameDecoder()
    with pytest.raises(RemoteProtocolError):
        decoder.receive_data(struct.pack(">iI", 4, 2 << 24))
    with pytest.raises(RemoteProtocolError):
        decoder.receive_data(encode_frame(FRAME))


def test_a_smaller_limit_can_be_set() -> None:
    decoder = FrameDecoder(max_frame_bytes=12)
    assert decoder.receive_data(encode_frame(Frame(HeaderCodec.JSON, b"ab", b"cd"))) != []
    with pytest.raises(RemoteProtocolError, match="allowed are 4 to 8"):
        decoder.receive_data(encode_frame(FRAME))
