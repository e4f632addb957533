"""Cutting frames out of the blocks that they were received into: split points, moves, garbage."""

import struct

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.blocks import BLOCK_BYTES, FrameBlocks, FrameView
from rmq_ordered.protocol.frame import MAX_FRAME_BYTES, Frame, HeaderCodec, encode_frame


def zeros(size: int) -> memoryview:
    return memoryview(bytearray(size))


def feed(blocks: FrameBlocks, data: bytes, step: int | None = None) -> list[FrameView]:
    """Bytes as a socket gives them: as much as there is room for, or ``step`` at most."""
    frames: list[FrameView] = []
    position = 0
    while position < len(data):
        space = blocks.space()
        taken = data[position : position + min(len(space), step or len(data))]
        space[: len(taken)] = taken
        frames += blocks.received(len(taken))
        position += len(taken)
    return frames


def plain(frames: list[FrameView]) -> list[Frame]:
    return [Frame(codec, header, bytes(body)) for codec, header, body in frames]


FRAMES = [
    Frame(HeaderCodec.JSON, b"{}", b"body"),
    Frame(HeaderCodec.ROCKETMQ, b"h", b""),
    Frame(HeaderCodec.JSON, b"", b"b" * 300),
]
DATA = b"".join(map(encode_frame, FRAMES))


@pytest.mark.parametrize("step", [1, 2, 3, 7, 11, 100, len(DATA)])
@pytest.mark.parametrize("block_bytes", [1, 16 * 1024 + 1, BLOCK_BYTES])
def test_wherever_the_stream_is_cut_the_same_frames_come_out(step: int, block_bytes: int) -> None:
    blocks = FrameBlocks(zeros, block_bytes)
    assert plain(feed(blocks, DATA * 5, step)) == FRAMES * 5
    assert blocks.is_empty


def test_large_bodies_lie_where_they_were_received_and_stay_when_more_comes() -> None:
    made: list[memoryview] = []

    def allocate(size: int) -> memoryview:
        made.append(zeros(size))
        return made[-1]

    blocks = FrameBlocks(allocate, block_bytes=64 * 1024)
    sent = [Frame(HeaderCodec.JSON, b"", bytes([n]) * 5_000) for n in range(100)]
    frames = feed(blocks, b"".join(map(encode_frame, sent)), 7_000)
    assert len(made) > 5, "blocks that somebody looks at are not written again"
    assert {id(frame.body.obj) for frame in frames if isinstance(frame.body, memoryview)} <= {
        id(block.obj) for block in made
    }
    assert all(isinstance(frame.body, memoryview) for frame in frames)
    assert plain(frames) == sent


def test_bodies_keep_no_more_alive_than_sixteen_times_their_size() -> None:
    blocks = FrameBlocks(zeros, block_bytes=128 * 1024)
    padding = encode_frame(Frame(HeaderCodec.JSON, bytes(30_000), b""))
    small, large = (Frame(HeaderCodec.JSON, b"", bytes(size)) for size in (8_191, 8_192))
    for frame, kind in ((small, bytes), (large, memoryview)):
        frames = feed(blocks, (padding + encode_frame(frame)) * 3)
        assert [type(found.body) for found in frames if found.body] == [kind] * 3


def test_a_frame_larger_than_a_block_gets_one_of_its_own() -> None:
    large = Frame(HeaderCodec.JSON, b"h", bytes(3 * BLOCK_BYTES))
    blocks = FrameBlocks(zeros)
    frames = feed(blocks, encode_frame(large) + encode_frame(FRAMES[0]))
    assert plain(frames) == [large, FRAMES[0]]


def test_of_a_frame_behind_a_large_one_little_is_moved() -> None:
    sizes: list[int] = []

    def allocate(size: int) -> memoryview:
        sizes.append(size)
        return zeros(size)

    blocks = FrameBlocks(allocate)
    large = encode_frame(Frame(HeaderCodec.JSON, b"", bytes(4 * BLOCK_BYTES)))
    feed(blocks, large[:1_000])
    assert len(blocks.space()) < len(large) + 100 * 1024, "no more is asked for than a bit behind"
    assert len(feed(blocks, large[1_000:] + large)) == 2
    assert sizes[0] == BLOCK_BYTES
    assert len(sizes) == 3


def test_memory_for_a_frame_is_not_taken_before_its_length_is_known_to_be_legal() -> None:
    asked: list[int] = []

    def allocate(size: int) -> memoryview:
        asked.append(size)
        return zeros(size)

    blocks = FrameBlocks(allocate)
    with pytest.raises(RemoteProtocolError, match="announces 2147483647 bytes"):
        feed(blocks, struct.pack(">i", 2**31 - 1))
    with pytest.raises(RemoteProtocolError, match="announces 2147483647 bytes"):
        blocks.space()
    assert asked == [BLOCK_BYTES]


@pytest.mark.parametrize("length", [-1, 0, 3, MAX_FRAME_BYTES - 3])
def test_a_length_that_cannot_be_legal_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"announces {length} bytes"):
        feed(FrameBlocks(zeros), struct.pack(">i", length))


def test_a_header_that_does_not_fit_and_an_unknown_codec_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="does not fit its frame"):
        feed(FrameBlocks(zeros), struct.pack(">iI", 6, 100) + b"xx")
    with pytest.raises(RemoteProtocolError, match="unknown header codec 9"):
        feed(FrameBlocks(zeros), struct.pack(">iI", 4, 9 << 24))


def test_the_largest_legal_frame_passes() -> None:
    largest = Frame(HeaderCodec.JSON, b"", bytes(MAX_FRAME_BYTES - 8))
    assert plain(feed(FrameBlocks(zeros), encode_frame(largest))) == [largest]
