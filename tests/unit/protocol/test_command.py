"""Commands and their two header codecs, on the bytes both languages are tested with."""

import json
import struct
from typing import Any

import pytest
from tests.support.paths import GOLDEN

from rmq_ordered.errors import LocalProtocolError, RemoteProtocolError
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import (
    FLAG_ONE_WAY,
    FLAG_RESPONSE,
    RemotingCommand,
    decode_command,
    encode_command,
)
from rmq_ordered.protocol.frame import Frame, FrameDecoder, HeaderCodec

GOLDEN_FRAMES = json.loads((GOLDEN / "frames.json").read_text())


def golden_id(sample: dict[str, Any]) -> str:
    return f"{sample['serialize']}: {sample['name']}"


def golden_command(sample: dict[str, Any]) -> RemotingCommand:
    fields = sample["command"]
    return RemotingCommand(
        code=fields["code"],
        opaque=fields["opaque"],
        flag=fields["flag"],
        ext_fields=fields["extFields"],
        body=bytes.fromhex(fields["bodyHex"]),
        remark=fields["remark"],
        language=fields["language"],
        version=fields["version"],
        codec=HeaderCodec[sample["serialize"]],
    )


def decode_all(data: bytes) -> list[RemotingCommand]:
    return [decode_command(frame) for frame in FrameDecoder().receive_data(data)]


def decode_header(header: bytes, codec: HeaderCodec = HeaderCodec.JSON) -> RemotingCommand:
    return decode_command(Frame(codec, header, b""))


@pytest.mark.parametrize("header", [b' {"code":7}', b'{"code":7} \n', b'\t{"code":7}\r\n'])
def test_spaces_around_a_json_header_are_passed_over(header: bytes) -> None:
    assert decode_header(header).code == 7


def test_a_json_header_with_something_behind_it_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="cannot be read: Extra data"):
        decode_header(b'{"code":7}{"code":8}')


@pytest.mark.parametrize("sample", GOLDEN_FRAMES, ids=golden_id)
def test_encoding_gives_the_golden_bytes(sample: dict[str, Any]) -> None:
    assert encode_command(golden_command(sample)).hex() == sample["hex"]


@pytest.mark.parametrize("sample", GOLDEN_FRAMES, ids=golden_id)
def test_decoding_the_golden_bytes_gives_the_command(sample: dict[str, Any]) -> None:
    (decoded,) = decode_all(bytes.fromhex(sample["hex"]))
    assert decoded == golden_command(sample)
    assert decoded.codec is HeaderCodec[sample["serialize"]]


@pytest.mark.parametrize("sample", GOLDEN_FRAMES, ids=golden_id)
def test_every_split_of_the_golden_bytes_gives_the_same_command(sample: dict[str, Any]) -> None:
    data = bytes.fromhex(sample["hex"])
    for cut in range(1, len(data)):
        decoder = FrameDecoder()
        assert decoder.receive_data(data[:cut]) == []
        (frame,) = decoder.receive_data(data[cut:])
        assert decode_command(frame) == golden_command(sample)


@pytest.mark.parametrize("sample", GOLDEN_FRAMES, ids=golden_id)
def test_a_golden_header_cut_anywhere_is_refused(sample: dict[str, Any]) -> None:
    (frame,) = FrameDecoder().receive_data(bytes.fromhex(sample["hex"]))
    for cut in range(len(frame.header)):
        with pytest.raises(RemoteProtocolError):
            decode_command(Frame(frame.codec, frame.header[:cut], frame.body))


def test_the_flag_bits_tell_response_and_one_way() -> None:
    assert RemotingCommand(0, flag=FLAG_RESPONSE).is_response
    assert RemotingCommand(0, flag=FLAG_ONE_WAY).is_one_way
    assert not RemotingCommand(0).is_response
    assert not RemotingCommand(0).is_one_way


def test_absent_header_fields_have_rocketmq_defaults() -> None:
    decoded = decode_header(b"{}")
    assert (decoded.code, decoded.opaque, decoded.flag, decoded.version) == (0, 0, 0, 0)
    assert (decoded.language, decoded.remark, decoded.ext_fields) == ("JAVA", None, None)


def test_numbers_as_text_are_numbers_as_fastjson_takes_them() -> None:
    assert decode_header(b'{"code":"17","opaque":"3"}').code == 17


def test_ext_fields_that_are_no_strings_become_what_java_would_print() -> None:
    decoded = decode_header(b'{"extFields":{"a":5,"b":true,"c":null,"d":"x"}}')
    assert decoded.ext_fields == {"a": "5", "b": "true", "d": "x"}


def test_a_language_that_is_null_counts_as_java() -> None:
    assert decode_header(b'{"language":null}').language == "JAVA"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"not json",
        b"[]",
        b"17",
        b"\xff\xfe",
        b'{"code":true}',
        b'{"code":1.5}',
        b'{"code":"seventeen"}',
        b'{"code":null}',
        b'{"extFields":[]}',
        b'{"code":' + b"1" * 5_000 + b"}",
        b"[" * 100_000,
    ],
    ids=lambda header: repr(header[:20]),
)
def test_a_json_header_that_makes_no_sense_is_a_remote_protocol_error(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header(header)


def binary_header(*, remark: bytes = b"", ext: bytes = b"", language: int = 0) -> bytes:
    head = struct.pack(">hbhii", 0, language, 479, 1, 1)
    return head + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(ext)) + ext


def test_a_binary_header_with_an_unknown_language_is_other() -> None:
    assert decode_header(binary_header(language=99), HeaderCodec.ROCKETMQ).language == "OTHER"
    assert decode_header(binary_header(language=-1), HeaderCodec.ROCKETMQ).language == "OTHER"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        binary_header(remark=b"\xff"),
        binary_header(ext=b"\x00\x01"),
        binary_header(ext=b"\xff\xff"),
        binary_header(ext=b"\x00\x01k\x7f\xff\xff\xff"),
        binary_header()[:-4] + struct.pack(">i", -1),
        binary_header()[:-4] + struct.pack(">i", 100),
        binary_header()[:-8] + struct.pack(">ii", -5, 0),
    ],
    ids=lambda header: header.hex()[-16:],
)
def test_a_binary_header_that_lies_is_a_remote_protocol_error(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header(header, HeaderCodec.ROCKETMQ)


def test_a_field_that_must_be_there_is_named_when_it_is_missing() -> None:
    with pytest.raises(RemoteProtocolError, match="code 0 lacks the header field 'offset'"):
        RemotingCommand(0).ext("offset")


def test_a_field_that_must_be_a_number_is_named_when_it_is_not() -> None:
    command = RemotingCommand(0, ext_fields={"offset": "many", "queueId": "3"})
    assert command.ext_int("queueId") == 3
    with pytest.raises(RemoteProtocolError, match=r"'offset' should be a whole number.*'many'"):
        command.ext_int("offset")


@pytest.mark.parametrize(
    "command",
    [
        RemotingCommand(200_050),
        RemotingCommand(0, language="KLINGON"),
        RemotingCommand(0, ext_fields={"k" * 40_000: "v"}),
        RemotingCommand(0, ext_fields={"k": "\ud800"}),
        RemotingCommand(0, remark="\ud800"),
        RemotingCommand(0, opaque=2**31),
    ],
    ids=["code", "language", "long name", "surrogate", "remark", "opaque"],
)
def test_what_does_not_fit_the_binary_header_is_a_local_protocol_error(
    command: RemotingCommand,
) -> None:
    binary = RemotingCommand(
        command.code,
        opaque=command.opaque,
        ext_fields=command.ext_fields,
        remark=command.remark,
        language=command.language,
        codec=HeaderCodec.ROCKETMQ,
    )
    with pytest.raises(LocalProtocolError):
        encode_command(binary)


def test_text_without_utf8_form_cannot_be_sent_in_a_json_header() -> None:
    with pytest.raises(LocalProtocolError, match="not valid Unicode"):
        encode_command(RemotingCommand(0, remark="\ud800"))


def test_a_code_from_the_table_is_written_as_its_number() -> None:
    assert b'"code":11,' in encode_command(RemotingCommand(RequestCode.PULL_MESSAGE))


@pytest.mark.parametrize("where", [b'"extFields":{"a":%s}', b'"extFields":%s', b'"code":%s'])
def test_a_header_nested_to_any_depth_is_a_remote_protocol_error_or_text(where: bytes) -> None:
    # Where the stack ends depends on who calls: each depth around it is tried.
    for depth in range(1_200):
        header = b"{" + where % (b"[" * depth + b"1" + b"]" * depth) + b"}"
        try:
            decode_command(Frame(HeaderCodec.JSON, header, b""))
        except RemoteProtocolError:
            continue
        assert depth == 0 or where.endswith(b"}"), "only a value of extFields may be anything"
