"""A remoting command (request or response) and its two header codecs.

The JSON header is written as Java's fastjson writes it, keys in alphabetical order, so that golden
bytes are
equal on both sides. The binary ROCKETMQ header:

    size   field
    i16    code
    i8     language
    i16    version
    i32    opaque
    i32    flag
    i32+n  remark, UTF-8
    i32+n  extFields: entries of i16 key length, key, i32 value length, value
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.protocol.frame import Frame, HeaderCodec, encode_frame

FLAG_RESPONSE: Final = 1
FLAG_ONE_WAY: Final = 2

# V5_3_3: at least 401 makes name servers answer routes in strict JSON.
OUR_VERSION: Final = 479

_LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
)  # fmt: skip
_FIXED: Final = struct.Struct(">hbhii")
# A pull of a few messages costs little more than its header: the decoder is made once, and headers
# are put together from their texts, which takes half of an encoder's time.
_quoted: Final = json.encoder.encode_basestring
_DECODER: Final = json.JSONDecoder()


class Header(NamedTuple):
    """What a command says before its body; ``ext_fields`` as in ``RemotingCommand``."""

    code: int
    opaque: int
    flag: int
    ext_fields: Mapping[str, str] | None
    remark: str | None
    language: str
    version: int

    @property
    def is_response(self) -> bool:
        """Whether this answers a request of ours."""
        return bool(self.flag & FLAG_RESPONSE)

    def ext_int(self, name: str) -> int:
        """A field that must be there and be a whole number."""
        return _ext_int(self.code, self.ext_fields, name)


@dataclass(frozen=True, slots=True)
class RemotingCommand:
    """One request or response. ``ext_fields`` is None when the header has none at all."""

    code: int
    opaque: int = 0
    flag: int = 0
    ext_fields: Mapping[str, str] | None = None
    body: bytes = b""
    remark: str | None = None
    language: str = "PYTHON"
    version: int = OUR_VERSION
    codec: HeaderCodec = field(default=HeaderCodec.JSON, compare=False)

    @property
    def is_response(self) -> bool:
        """Whether this answers a request of ours."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether the sender expects no answer."""
        return bool(self.flag & FLAG_ONE_WAY)

    def ext(self, name: str) -> str:
        """A header field that must be there."""
        return _ext(self.code, self.ext_fields, name)

    def ext_int(self, name: str) -> int:
        """A header field that must be there and be a whole number."""
        return _ext_int(self.code, self.ext_fields, name)


def _ext(code: int, ext_fields: Mapping[str, str] | None, name: str) -> str:
    try:
        return (ext_fields or {})[name]
    except KeyError:
        raise RemoteProtocolError(
            f"answer with code {code} lacks the header field '{name}'"
        ) from None


def _ext_int(code: int, ext_fields: Mapping[str, str] | None, name: str) -> int:
    text = _ext(code, ext_fields, name)
    try:
        return int(text)
    except ValueError:
        raise RemoteProtocolError(
            f"header field '{name}' should be a whole number, found {text!r}"
        ) from None


def encode_command(command: RemotingCommand, opaque: int | None = None) -> bytes:
    """The whole frame of a command, length word included; ``opaque`` replaces the command's own."""
    encode = _encode_json if command.codec is HeaderCodec.JSON else _encode_binary
    header = encode(command, command.opaque if opaque is None else opaque)
    return encode_frame(Frame(command.codec, header, command.body))


def decode_command(frame: Frame) -> RemotingCommand:
    """The command in a frame, or RemoteProtocolError."""
    code, opaque, flag, ext, remark, language, version = decode_header(frame.codec, frame.header)
    return RemotingCommand(
        code, opaque, flag, ext, frame.body, remark, language, version, frame.codec
    )


def decode_header(codec: HeaderCodec, data: bytes) -> Header:
    """The header of a frame, or RemoteProtocolError."""
    if codec is not HeaderCodec.JSON:
        return _decode_binary(data)
    try:
        return _decode_json(data)
    except RecursionError as error:
        # Parsing, writing and showing what is nested all go down level by level.
        raise RemoteProtocolError(
            "a frame's JSON header is nested too deeply to be read"
        ) from error


def _encode_json(command: RemotingCommand, opaque: int) -> bytes:
    ext = remark = ""
    if command.ext_fields is not None:
        fields = [f"{_quoted(name)}:{_quoted(value)}" for name, value in command.ext_fields.items()]
        ext = f'"extFields":{{{",".join(fields)}}},'
    if command.remark is not None:
        remark = f'"remark":{_quoted(command.remark)},'
    header = (
        f'{{"code":{command.code:d},{ext}"flag":{command.flag:d},'
        f'"language":{_quoted(command.language)},"opaque":{opaque:d},{remark}'
        f'"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}'
    )
    try:
        return header.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a header field is not valid Unicode text: {error}") from error


def _decode_json(data: bytes) -> Header:
    try:
        header = _parse_json(data.decode(errors="surrogatepass"))
    except ValueError as error:
        raise RemoteProtocolError(f"a frame's JSON header cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise RemoteProtocolError(f"a frame's header should be a JSON object, found {header!r:.80}")
    ext = header.get("extFields")
    if ext is not None and not isinstance(ext, dict):
        raise RemoteProtocolError(f"extFields should be a JSON object, found {ext!r:.80}")
    remark = header.get("remark")
    return Header(
        _header_int(header, "code"),
        _header_int(header, "opaque"),
        _header_int(header, "flag"),
        None if ext is None else _texts(ext),
        None if remark is None else str(remark),
        str(header.get("language") or "JAVA"),
        _header_int(header, "version"),
    )


def _parse_json(text: str) -> Any:
    # Hardly anybody writes spaces around a header; looking for them takes a third of the time.
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return _DECODER.decode(text)
    return value if end == len(text) else _DECODER.decode(text)


def _header_int(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name, 0)
    if type(value) is int:
        return value
    # bool is an int in Python, but never one on the wire.
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise RemoteProtocolError(
            f"header field '{name}' should be a whole number, found {value!r:.80}"
        )
    try:
        return int(value)
    except ValueError:
        raise RemoteProtocolError(
            f"header field '{name}' should be a whole number, found {value!r:.80}"
        ) from None


def _texts(ext: Mapping[str, Any]) -> dict[str, str]:
    """Ext fields are strings by contract; bare numbers and booleans are taken as Java does."""
    return {
        name: value if type(value) is str else json.dumps(value)
        for name, value in ext.items()
        if value is not None
    }


def _encode_binary(command: RemotingCommand, opaque: int) -> bytes:
    try:
        entries = b"".join(
            _prefixed(name, ">h") + _prefixed(value, ">i")
            for name, value in (command.ext_fields or {}).items()
        )
        remark = _prefixed(command.remark or "", ">i")
        fixed = _FIXED.pack(
            command.code,
            _LANGUAGES.index(command.language),
            command.version,
            opaque,
            command.flag,
        )
    except (struct.error, ValueError) as error:
        raise LocalProtocolError(
            f"code {command.code} or another field does not fit the binary header; use the JSON "
            f"header: {error}"
        ) from error
    return fixed + remark + struct.pack(">i", len(entries)) + entries


def _prefixed(text: str, length_format: str) -> bytes:
    data = text.encode()
    return struct.pack(length_format, len(data)) + data


def _decode_binary(data: bytes) -> Header:
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(data)
        remark, position = _read_text(data, _FIXED.size, 4)
        (ext_length,) = struct.unpack_from(">i", data, position)
        ext = _read_entries(data, position + 4, ext_length)
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"a frame's binary header cannot be read: {error}") from error
    return Header(
        code=code,
        opaque=opaque,
        flag=flag,
        ext_fields=ext or None,
        remark=remark or None,
        language=_LANGUAGES[language] if 0 <= language < len(_LANGUAGES) else "OTHER",
        version=version,
    )


def _read_entries(header: bytes, position: int, length: int) -> dict[str, str]:
    end = position + length
    if length < 0 or end > len(header):
        raise RemoteProtocolError(
            f"extFields of {length} bytes do not fit a header of {len(header)}"
        )
    ext: dict[str, str] = {}
    while position < end:
        name, position = _read_text(header, position, 2)
        ext[name], position = _read_text(header, position, 4)
    return ext


def _read_text(header: bytes, position: int, length_size: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h" if length_size == 2 else ">i", header, position)
    start = position + length_size
    if length < 0 or start + length > len(header):
        raise RemoteProtocolError(
            f"a text of {length} bytes does not fit a header of {len(header)}"
        )
    return header[start : start + length].decode(), start + length
