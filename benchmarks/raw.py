"""A client that obeys nothing: frames as bytes, many at once, answers read or not."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]


def frame(code: int, fields: Mapping[str, object], body: bytes = b"", opaque: int = 1) -> bytes:
    """One request with a JSON header."""
    header = json.dumps(
        {
            "code": code,
            "language": "PYTHON",
            "version": 479,
            "opaque": opaque,
            "flag": 0,
            "extFields": {name: str(value) for name, value in fields.items()},
        }
    ).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


class Raw:
    """A blocking connection."""

    def __init__(self, address: str, timeout_s: float = 60) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, frames: Iterable[bytes]) -> None:
        """Send all of it, in one piece."""
        self.socket.sendall(b"".join(frames))

    def read(self) -> tuple[Json, bytes]:
        """The next frame: header and body."""
        (length,) = struct.unpack(">I", self._exactly(4))
        data = self._exactly(length)
        (word,) = struct.unpack(">I", data[:4])
        size = word & 0xFFFFFF
        return json.loads(data[4 : 4 + size]), data[4 + size :]

    def call(
        self, code: int, fields: Mapping[str, object], body: bytes = b""
    ) -> tuple[Json, bytes]:
        """One request and its answer; what the broker asks of its clients is passed over."""
        self.write([frame(code, fields, body)])
        while True:
            header, answer = self.read()
            if int(header["flag"]) & 1:
                return header, answer

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise ConnectionError("the broker has closed the connection")
            parts += part
        return bytes(parts)


def json_body(value: object) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode()
