"""Signed requests: the recorded vector, and what must never show."""

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest

from rmq_ordered.protocol.acl import Credentials, sign, sign_strictly
from rmq_ordered.protocol.command import RemotingCommand

COMMAND = RemotingCommand(310, ext_fields={"a": "PG", "b": "T1", "e": "0"}, body=b"hello")


def test_the_signature_is_the_one_that_java_makes() -> None:
    signed = sign(COMMAND, Credentials("AK", "SK"))
    assert signed.ext("AccessKey") == "AK"
    assert signed.ext("Signature") == "WivPsIza9yytr5zY8U4zTqWq7Oo="
    assert (signed.code, signed.body) == (COMMAND.code, COMMAND.body)


def test_signing_again_gives_the_same_signature() -> None:
    credentials = Credentials("AK", "SK")
    once = sign(COMMAND, credentials)
    assert sign(once, credentials) == once


def test_a_security_token_is_signed_too() -> None:
    plain, with_token = Credentials("AK", "SK"), Credentials("AK", "SK", "token")
    signed = sign(COMMAND, with_token)
    assert signed.ext("SecurityToken") == "token"
    assert signed.ext("Signature") != sign(COMMAND, plain).ext("Signature")


def test_a_request_without_fields_is_signed() -> None:
    assert sign(RemotingCommand(34, body=b"{}"), Credentials("AK", "SK")).ext("Signature")


def test_secrets_do_not_show() -> None:
    text = repr(Credentials("AK", "very-secret", "also-secret"))
    assert "secret" not in text
    assert "AK" in text


def test_the_strict_signature_is_the_one_that_the_broker_makes() -> None:
    command = RemotingCommand(310, ext_fields={"b": "Tö", "a": "PG"}, body=b"hello")
    signed = sign_strictly(
        command, Credentials("AK", "SK"), address="mq:1", time_ms=1_700_000_000_000, nonce="s.7"
    )
    assert signed.ext_fields == {
        "a": "PG",
        "b": "Tö",
        "AccessKey": "AK",
        "Nonce": "s.7",
        "SignedAt": "1700000000000",
        "SignedFor": "mq:1",
        "StrictSignature": signed.ext("StrictSignature"),
    }
    content = (
        b"13:rmq-ordered-1"
        b"3:310"
        b"1:6"
        b"9:AccessKey2:AK"
        b"5:Nonce3:s.7"
        b"8:SignedAt13:1700000000000"
        b"9:SignedFor4:mq:1"
        b"1:a2:PG"
        b"1:b3:T\xc3\xb6"
        b"5:hello"
    )
    expected = base64.b64encode(hmac.new(b"SK", content, hashlib.sha256).digest()).decode()
    assert signed.ext("StrictSignature") == expected


@pytest.mark.parametrize(
    "other",
    [
        replace(COMMAND, code=320),
        replace(COMMAND, body=b"hellO"),
        replace(COMMAND, ext_fields={"a": "PG", "b": "T1", "d": "0"}),
        replace(COMMAND, ext_fields={"a": "P", "b": "GT1", "e": "0"}),
    ],
)
def test_a_strict_signature_is_of_one_request_alone(other: RemotingCommand) -> None:
    def signature(command: RemotingCommand) -> str | None:
        signed = sign_strictly(
            command, Credentials("AK", "SK"), address="mq:1", time_ms=1, nonce="s.7"
        )
        return signed.ext("StrictSignature")

    assert signature(other) != signature(COMMAND)
