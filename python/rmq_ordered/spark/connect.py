"""Opening connections as the options say; the one place where secrets are looked up."""

from __future__ import annotations

import os
from pathlib import Path

from rmq_ordered.client.connection import Client
from rmq_ordered.errors import OptionError
from rmq_ordered.net.tls import TlsSettings
from rmq_ordered.options import ConnectionOptions, SecretReference, TlsOptions
from rmq_ordered.options.connection import SecretPlace
from rmq_ordered.protocol.acl import Credentials


def open_client(options: ConnectionOptions) -> Client:
    """A client of the cluster; raises OptionError where a secret cannot be found."""
    return Client(
        options.name_servers,
        request_timeout_ms=options.request_timeout_ms,
        credentials=_credentials(options),
        tls=_tls(options.tls),
    )


def _credentials(options: ConnectionOptions) -> Credentials | None:
    if options.access_key is None or options.secret_key is None:
        return None
    token = options.security_token
    return Credentials(
        options.access_key,
        _secret("secretKey", options.secret_key),
        None if token is None else _secret("securityToken", token),
        options.strict_signature,
    )


def _tls(options: TlsOptions | None) -> TlsSettings | None:
    if options is None:
        return None
    return TlsSettings(
        options.ca_file, options.certificate_file, options.key_file, options.check_host
    )


def _secret(option: str, reference: SecretReference) -> str:
    """What the reference leads to here; errors show the reference, never the secret."""
    if reference.place is SecretPlace.ENVIRONMENT:
        found = os.environ.get(reference.name)
        place = "an environment variable"
    else:
        found = _read(reference.name)
        place = "a readable file"
    if not found:
        raise OptionError(
            option,
            str(reference),
            f"{place} of this name that is not empty, on the driver and on every executor",
        )
    return found


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
