"""Signed requests: the recorded vector, and what must never show."""

from rmq_ordered.protocol.acl import Credentials, sign
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
