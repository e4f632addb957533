import zlib

import pyarrow as pa
import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.compression import (
    COMPRESSION_FLAGS,
    LZ4_FLAGS,
    ZLIB_FLAGS,
    ZSTD_FLAGS,
    compress_body,
    expand_body,
)

CODECS = pytest.mark.parametrize("sys_flag", [ZLIB_FLAGS, LZ4_FLAGS, ZSTD_FLAGS])
BODY = b"ordered " * 1000


@CODECS
def test_a_compressed_body_comes_back(sys_flag: int) -> None:
    stored = compress_body(BODY, sys_flag)
    assert len(stored) < len(BODY)
    assert expand_body(stored, sys_flag) == BODY
    assert expand_body(memoryview(stored), sys_flag) == BODY


def test_codecs_are_told_by_their_first_bytes() -> None:
    # zlib at level 5, an LZ4 frame, a zstd frame: the formats of RocketMQ's Compressor classes.
    assert compress_body(BODY, ZLIB_FLAGS)[:2] == bytes.fromhex("785e")
    assert compress_body(BODY, LZ4_FLAGS)[:4] == bytes.fromhex("04224d18")
    assert compress_body(BODY, ZSTD_FLAGS)[:4] == bytes.fromhex("28b52ffd")


def test_type_zero_is_zlib_because_old_clients_set_no_type() -> None:
    assert expand_body(zlib.compress(BODY), 0x1) == BODY


def test_a_body_without_the_flag_is_left_alone_whatever_its_type_bits() -> None:
    assert expand_body(b"plain", 0x300) == b"plain"
    assert compress_body(b"plain", 0x300) == b"plain"


@CODECS
def test_an_empty_body_stays_empty(sys_flag: int) -> None:
    assert compress_body(b"", sys_flag) == b""
    assert expand_body(b"", sys_flag) == b""


@CODECS
def test_bytes_that_are_not_compressed_are_refused(sys_flag: int) -> None:
    with pytest.raises(RemoteProtocolError, match="that are not"):
        expand_body(b"not compressed at all", sys_flag)


@CODECS
@pytest.mark.parametrize("missing", [1, 10])
def test_a_stream_that_ends_early_is_refused(sys_flag: int, missing: int) -> None:
    with pytest.raises(RemoteProtocolError):
        expand_body(compress_body(BODY, sys_flag)[:-missing], sys_flag)


@CODECS
def test_a_body_may_expand_to_the_limit_but_not_beyond(sys_flag: int) -> None:
    stored = compress_body(BODY, sys_flag)
    assert expand_body(stored, sys_flag, max_bytes=len(BODY)) == BODY
    with pytest.raises(RemoteProtocolError, match="expands to more than 7999"):
        expand_body(stored, sys_flag, max_bytes=len(BODY) - 1)


@CODECS
def test_a_bomb_is_not_expanded_whole(sys_flag: int) -> None:
    bomb = compress_body(bytes(64 * 1024 * 1024), sys_flag)
    before = pa.total_allocated_bytes()
    with pytest.raises(RemoteProtocolError, match="expands to more than 1000"):
        expand_body(bomb, sys_flag, max_bytes=1000)
    assert pa.total_allocated_bytes() - before < 1024 * 1024


def test_an_unknown_compression_type_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown compression type 5"):
        expand_body(b"x", 0x501)


def test_compressions_have_the_flags_of_java() -> None:
    flags = {kind.value: flag for kind, flag in COMPRESSION_FLAGS.items()}
    assert flags == {"none": 0, "zlib": 0x301, "lz4": 0x101, "zstd": 0x201}
