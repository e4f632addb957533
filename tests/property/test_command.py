"""Frames and commands: round trip, any split, and garbage that raises only our own errors."""

import contextlib
import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.support.paths import GOLDEN

from rmq_ordered.errors import ProtocolError, RemoteProtocolError
from rmq_ordered.protocol.command import RemotingCommand, decode_command, encode_command
from rmq_ordered.protocol.connection import RemotingConnection
from rmq_ordered.protocol.frame import Frame, FrameDecoder, HeaderCodec, encode_frame

GOLDEN_BYTES = [
    bytes.fromhex(sample["hex"]) for sample in json.loads((GOLDEN / "frames.json").read_text())
]

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
# An empty name, value or remark has no binary form of its own: it reads back as absent.
filled_text = unicode_text.filter(bool)
languages = st.sampled_from(["JAVA", "CPP", "PYTHON", "GO", "RUST", "OTHER"])


def commands(
    codec: HeaderCodec, texts: st.SearchStrategy[str], code: st.SearchStrategy[int]
) -> st.SearchStrategy[RemotingCommand]:
    ext = st.dictionaries(texts, texts, min_size=1, max_size=5)
    return st.builds(
        RemotingCommand,
        code=code,
        opaque=int32,
        flag=int32,
        ext_fields=st.none() | ext,
        body=st.binary(max_size=100),
        remark=st.none() | texts,
        language=languages,
        version=int16,
        codec=st.just(codec),
    )


json_commands = commands(HeaderCodec.JSON, unicode_text, int32)
binary_commands = commands(HeaderCodec.ROCKETMQ, filled_text, int16)
any_commands = json_commands | binary_commands


def decode_all(chunks: list[bytes]) -> list[RemotingCommand]:
    decoder = FrameDecoder()
    return [decode_command(frame) for chunk in chunks for frame in decoder.receive_data(chunk)]


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(any_commands)
def test_what_was_encoded_is_decoded(command: RemotingCommand) -> None:
    (decoded,) = decode_all([encode_command(command)])
    assert decoded == command
    assert decoded.codec is command.codec


@given(st.lists(any_commands, max_size=5), st.lists(st.integers(min_value=0), max_size=10))
def test_a_stream_cut_anywhere_gives_the_same_commands(
    sent: list[RemotingCommand], cuts: list[int]
) -> None:
    data = b"".join(map(encode_command, sent))
    assert decode_all(cut(data, cuts)) == sent


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0), max_size=5))
def test_garbage_in_a_stream_raises_nothing_but_remote_protocol_errors(
    data: bytes, cuts: list[int]
) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decode_all(cut(data, cuts))


@given(st.sampled_from(HeaderCodec), st.binary(max_size=200))
def test_garbage_in_a_header_raises_nothing_but_remote_protocol_errors(
    codec: HeaderCodec, header: bytes
) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decode_command(Frame(codec, header, b""))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
header_names = st.sampled_from(
    ["code", "opaque", "flag", "version", "language", "remark", "extFields", "other"]
)


@given(st.dictionaries(header_names, json_values))
def test_a_header_with_odd_values_raises_nothing_but_remote_protocol_errors(
    header: dict[str, object],
) -> None:
    frame = Frame(HeaderCodec.JSON, json.dumps(header).encode(), b"")
    with contextlib.suppress(RemoteProtocolError):
        assert isinstance(decode_command(frame), RemotingCommand)


@given(st.sampled_from(GOLDEN_BYTES), st.data())
def test_a_golden_frame_with_changed_bytes_raises_nothing_but_remote_protocol_errors(
    golden: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(golden)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RemoteProtocolError):
        decode_all([bytes(damaged)])


@given(st.lists(st.binary(max_size=60) | any_commands.map(encode_command), max_size=6))
def test_a_connection_that_is_fed_anything_raises_only_protocol_errors(
    chunks: list[bytes],
) -> None:
    connection = RemotingConnection()
    connection.send_request(RemotingCommand(11))
    with contextlib.suppress(ProtocolError):
        for chunk in chunks:
            connection.receive_data(chunk)
    assert connection.in_flight <= 1


@given(
    st.builds(
        RemotingCommand,
        code=st.integers(),
        opaque=st.integers(),
        ext_fields=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
        remark=st.text(max_size=5),
        language=st.text(max_size=5),
        codec=st.sampled_from(HeaderCodec),
    )
)
def test_a_command_that_cannot_be_sent_raises_nothing_but_protocol_errors(
    command: RemotingCommand,
) -> None:
    with contextlib.suppress(ProtocolError):
        assert len(encode_command(command)) >= 8


@given(st.sampled_from(HeaderCodec), st.binary(max_size=50), st.binary(max_size=50))
def test_a_frame_is_read_back_byte_by_byte(codec: HeaderCodec, header: bytes, body: bytes) -> None:
    frame = Frame(codec, header, body)
    decoder = FrameDecoder()
    data = encode_frame(frame)
    frames = [found for i in range(len(data)) for found in decoder.receive_data(data[i : i + 1])]
    assert frames == [frame]
    assert decoder.is_empty
