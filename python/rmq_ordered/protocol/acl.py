"""Signing requests, as RocketMQ does and strictly.

RocketMQ's signature, the same on the wire in its access control 1.0 and 2.0, is HMAC-SHA1 over the
values of all ext fields (but the signature itself) in the order of their names, followed by the
body. It covers neither the code nor the names nor the time.

The embedded broker also understands a strict signature, HMAC-SHA256 over code, names, values and
body, and over when, for which address and as which request it was made: a copy is refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field, replace

from rmq_ordered.protocol.command import RemotingCommand


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks. The secrets are never shown.

    Attributes:
        access_key: the user's name.
        secret_key: what requests are signed with; it is not sent.
        security_token: of a session, for temporary credentials.
        strict: sign so that a copied request is refused; the embedded broker only.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    strict: bool = False


def sign(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """The command with the fields that prove who sent it."""
    fields = _named(command, credentials)
    fields.pop("Signature", None)
    content = "".join(fields[name] for name in sorted(fields)).encode() + command.body
    # SHA-1 is what RocketMQ speaks; as an HMAC it is not known to be broken.
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1).digest()
    fields["Signature"] = base64.b64encode(digest).decode()
    return replace(command, ext_fields=fields)


def sign_strictly(
    command: RemotingCommand, credentials: Credentials, *, address: str, time_ms: int, nonce: str
) -> RemotingCommand:
    """The command with the fields that prove who sent it, when, where to, and that it is no copy.

    Args:
        command: what is asked.
        credentials: who asks.
        address: host and port, as the client knows the broker.
        time_ms: now, in milliseconds since 1970.
        nonce: ``SESSION.NUMBER``: 16 to 64 characters that are nobody else's, and a number that
            rises with each request of that session.
    """
    fields = _named(command, credentials)
    fields |= {"SignedAt": str(time_ms), "SignedFor": address, "Nonce": nonce}
    fields.pop("StrictSignature", None)
    texts = ["rmq-ordered-1", str(command.code), str(len(fields))]
    for name in sorted(fields):
        texts += [name, fields[name]]
    content = b"".join(map(_with_length, [*(text.encode() for text in texts), command.body]))
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha256).digest()
    fields["StrictSignature"] = base64.b64encode(digest).decode()
    return replace(command, ext_fields=fields)


def _named(command: RemotingCommand, credentials: Credentials) -> dict[str, str]:
    fields = dict(command.ext_fields or {})
    fields["AccessKey"] = credentials.access_key
    if credentials.security_token is not None:
        fields["SecurityToken"] = credentials.security_token
    return fields


def _with_length(part: bytes) -> bytes:
    return b"%d:%b" % (len(part), part)
