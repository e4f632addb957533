"""Signing requests: RocketMQ's access control, the same on the wire in its versions 1.0 and 2.0.

The signature is HMAC-SHA1 over the values of all ext fields (but the signature itself) in the
order of their names, followed by the body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field, replace

from rmq_ordered.protocol.command import RemotingCommand


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks. The secrets are never shown."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def sign(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """The command with the fields that prove who sent it."""
    fields = dict(command.ext_fields or {})
    fields["AccessKey"] = credentials.access_key
    if credentials.security_token is not None:
        fields["SecurityToken"] = credentials.security_token
    fields.pop("Signature", None)
    content = "".join(fields[name] for name in sorted(fields)).encode() + command.body
    # SHA-1 is what RocketMQ speaks; as an HMAC it is not known to be broken.
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1).digest()
    fields["Signature"] = base64.b64encode(digest).decode()
    return replace(command, ext_fields=fields)
