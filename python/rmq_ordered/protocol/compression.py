"""Compressed message bodies: which codec a system flag names, and the way there and back.

The broker stores a body as it was sent; expanding it is the reader's job. A few compressed
kilobytes can hold gigabytes, so expansion always has a limit.
"""

from __future__ import annotations

import zlib
from typing import Final

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import Compression

COMPRESSED_FLAG: Final = 0x1
# Bits 8-10 of the system flag. Java writes 3 for zlib; 0 is what clients before 5.0 left there.
_TYPE_SHIFT: Final = 8
_TYPE_MASK: Final = 0x7
_ZLIB_TYPES: Final = frozenset({0, 3})
_ARROW_CODECS: Final = {1: "lz4", 2: "zstd"}

ZLIB_FLAGS: Final = COMPRESSED_FLAG | 3 << _TYPE_SHIFT
LZ4_FLAGS: Final = COMPRESSED_FLAG | 1 << _TYPE_SHIFT
ZSTD_FLAGS: Final = COMPRESSED_FLAG | 2 << _TYPE_SHIFT
# The bits of a message's system flag that say how its body is compressed.
COMPRESSION_FLAGS: Final = {
    Compression.NONE: 0,
    Compression.ZLIB: ZLIB_FLAGS,
    Compression.LZ4: LZ4_FLAGS,
    Compression.ZSTD: ZSTD_FLAGS,
}

# 64 times RocketMQ's default message limit of 4 MiB: no honest body is larger, and an executor
# survives it.
MAX_EXPANDED_BYTES: Final = 256 * 1024 * 1024

# DefaultMQProducer's level.
_ZLIB_LEVEL: Final = 5
_CHUNK_BYTES: Final = 256 * 1024


def expand_body(
    stored: bytes | memoryview, sys_flag: int, *, max_bytes: int = MAX_EXPANDED_BYTES
) -> bytes:
    """Gives the body that the producer meant.

    Raises:
        RemoteProtocolError: the bytes are not what the flag says, end early, or expand to more
            than ``max_bytes``. The sentence does not know the message; the caller adds it.
    """
    # An empty body is never expanded (RocketMQ's MessageDecoder): no codec writes zero bytes.
    if not sys_flag & COMPRESSED_FLAG or not stored:
        return bytes(stored)
    kind = _compression_type(sys_flag)
    expanded = (
        _expand_zlib(stored, max_bytes)
        if kind in _ZLIB_TYPES
        else _expand_arrow(stored, _arrow_codec(kind), max_bytes)
    )
    if len(expanded) > max_bytes:
        raise RemoteProtocolError(
            f"a body of {len(stored)} bytes that expands to more than {max_bytes}"
        )
    return expanded


def compress_body(body: bytes, sys_flag: int) -> bytes:
    """Gives the bytes to store for a body under a system flag."""
    if not sys_flag & COMPRESSED_FLAG or not body:
        return body
    kind = _compression_type(sys_flag)
    if kind in _ZLIB_TYPES:
        return zlib.compress(body, _ZLIB_LEVEL)
    import pyarrow as pa

    compressed: bytes = pa.Codec(_arrow_codec(kind)).compress(body, asbytes=True)
    return compressed


def _compression_type(sys_flag: int) -> int:
    return sys_flag >> _TYPE_SHIFT & _TYPE_MASK


def _arrow_codec(kind: int) -> str:
    codec = _ARROW_CODECS.get(kind)
    if codec is None:
        raise RemoteProtocolError(f"unknown compression type {kind}")
    return codec


def _expand_zlib(stored: bytes | memoryview, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        expanded = inflater.decompress(stored, max_bytes + 1)
    except zlib.error as error:
        raise RemoteProtocolError(f"bytes that are not zlib ({error})") from error
    if not inflater.eof and len(expanded) <= max_bytes:
        raise RemoteProtocolError("a zlib stream that ends early")
    return expanded


def _expand_arrow(stored: bytes | memoryview, codec: str, max_bytes: int) -> bytes:
    # Imported here: most bodies are not compressed this way, and the import is slow.
    import pyarrow as pa

    chunks: list[bytes] = []
    total = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(stored), codec) as stream:
            while total <= max_bytes and (chunk := stream.read(_CHUNK_BYTES)):
                chunks.append(chunk)
                total += len(chunk)
    except (OSError, ValueError) as error:
        raise RemoteProtocolError(f"bytes that are not {codec} ({error})") from error
    return b"".join(chunks)
