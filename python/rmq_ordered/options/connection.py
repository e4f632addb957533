"""How to reach a cluster and prove who asks: the same options for source and sink.

Secrets are never values of options, because Spark shows those in plans and logs: an option holds a
reference (``env:NAME`` or ``file:/path``), and whoever opens the connection looks it up there and
then, on the driver and on every executor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rmq_ordered.errors import OptionError
from rmq_ordered.options.table import Option
from rmq_ordered.options.values import (
    LONGEST_DURATION,
    parse_duration_ms,
    parse_flag,
    parse_name_servers,
    parse_words,
)


class SecretPlace(StrEnum):
    """Where a secret is kept."""

    ENVIRONMENT = "env"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where to find a secret; never the secret itself."""

    place: SecretPlace
    name: str

    def __str__(self) -> str:
        return f"{self.place}:{self.name}"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Files of the machine that connects."""

    ca_file: str | None
    certificate_file: str | None
    key_file: str | None
    check_host: bool


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Where the cluster is, and how to ask it."""

    name_servers: tuple[str, ...]
    request_timeout_ms: int
    access_key: str | None = None
    secret_key: SecretReference | None = None
    security_token: SecretReference | None = None
    strict_signature: bool = False
    tls: TlsOptions | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ConnectionOptions:
        """From parsed options; raises OptionError for a combination that cannot be used."""
        _ensure_pairs(values)
        tls = TlsOptions(
            values["tlsCaFile"],
            values["tlsCertificateFile"],
            values["tlsKeyFile"],
            values["tlsCheckHost"],
        )
        return cls(
            name_servers=values["nameServer"],
            request_timeout_ms=values["requestTimeout"],
            access_key=values["accessKey"],
            secret_key=values["secretKey"],
            security_token=values["securityToken"],
            strict_signature=values["strictSignature"],
            tls=tls if values["tls"] else None,
        )


def parse_secret(text: str) -> SecretReference:
    """``env:NAME`` or ``file:/path``."""
    place, _, name = text.strip().partition(":")
    if not name:
        raise ValueError
    return SecretReference(SecretPlace(place), name)


_REFERENCE: Final = (
    "env:NAME or file:/path, never the secret itself: Spark would show it in plans and logs"
)

NAME_SERVER: Final = Option(
    "nameServer",
    "Name servers of the RocketMQ cluster, or the embedded broker's address.",
    "host:port, several separated by ';', for example mq1:9876;mq2:9876",
    parse_name_servers,
    is_required=True,
)
REQUEST_TIMEOUT: Final = Option(
    "requestTimeout",
    "How long one request to a name server or broker may take.",
    f"a duration such as 3s or 500ms, {LONGEST_DURATION}",
    parse_duration_ms,
    default="3s",
)
SECURITY_OPTIONS: Final[Sequence[Option]] = (
    Option(
        "accessKey",
        "Who asks, where access control is on.",
        "the access key of a user",
        parse_words,
    ),
    Option(
        "secretKey",
        "Where driver and executors find the secret of `accessKey`.",
        _REFERENCE,
        parse_secret,
        is_secret=True,
    ),
    Option(
        "securityToken",
        "Where driver and executors find the session token of temporary credentials.",
        _REFERENCE,
        parse_secret,
        is_secret=True,
    ),
    Option(
        "strictSignature",
        "Sign so that a copied request is refused; the embedded broker only.",
        "true or false",
        parse_flag,
        default="false",
    ),
    Option("tls", "Encrypt every connection.", "true or false", parse_flag, default="false"),
    Option(
        "tlsCaFile",
        "Certificate authorities to trust; without it those of the machine.",
        "the path of a PEM file on driver and executors",
        parse_words,
    ),
    Option(
        "tlsCertificateFile",
        "Our own certificate, where the brokers ask for one.",
        "the path of a PEM file on driver and executors",
        parse_words,
    ),
    Option(
        "tlsKeyFile",
        "The private key of `tlsCertificateFile`.",
        "the path of a PEM file on driver and executors",
        parse_words,
    ),
    Option(
        "tlsCheckHost",
        "Whether a broker's certificate must be of the host that was asked for.",
        "true or false",
        parse_flag,
        default="true",
    ),
)


def _ensure_pairs(values: Mapping[str, Any]) -> None:
    if (values["accessKey"] is None) != (values["secretKey"] is None):
        missing = "accessKey" if values["accessKey"] is None else "secretKey"
        raise OptionError(missing, None, "both of accessKey and secretKey, or neither")
    if values["securityToken"] is not None and values["accessKey"] is None:
        raise OptionError("accessKey", None, "an access key beside securityToken")
    if values["strictSignature"] and values["accessKey"] is None:
        raise OptionError("accessKey", None, "an access key beside strictSignature=true")
    if (values["tlsCertificateFile"] is None) != (values["tlsKeyFile"] is None):
        missing = "tlsKeyFile" if values["tlsKeyFile"] is None else "tlsCertificateFile"
        raise OptionError(missing, None, "both of tlsCertificateFile and tlsKeyFile, or neither")
    if not values["tls"]:
        for name in ("tlsCaFile", "tlsCertificateFile"):
            if values[name] is not None:
                raise OptionError(name, values[name], "tls=true beside it")
        if not values["tlsCheckHost"]:
            raise OptionError("tlsCheckHost", "false", "tls=true beside it")
