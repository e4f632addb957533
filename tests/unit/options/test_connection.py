"""References to secrets: where they are, never what they are."""

import pytest

from rmq_ordered.options import ConnectionOptions
from rmq_ordered.options.connection import SecretPlace, SecretReference, parse_secret


@pytest.mark.parametrize(
    ("text", "place", "name"),
    [
        ("env:MQ_SECRET", SecretPlace.ENVIRONMENT, "MQ_SECRET"),
        (" file:/run/secrets/mq ", SecretPlace.FILE, "/run/secrets/mq"),
    ],
)
def test_a_secret_is_in_the_environment_or_in_a_file(
    text: str, place: SecretPlace, name: str
) -> None:
    reference = parse_secret(text)
    assert reference == SecretReference(place, name)
    assert str(reference) == text.strip()


def test_a_refused_secret_is_not_in_the_error() -> None:
    with pytest.raises(ValueError, match=r"^(?!.*hunter2)") as caught:
        parse_secret("hunter2")
    assert "hunter2" not in str(caught.value)


def test_without_tls_nothing_of_it_is_kept() -> None:
    values = dict.fromkeys(
        ["accessKey", "secretKey", "securityToken", "tlsCaFile", "tlsCertificateFile", "tlsKeyFile"]
    ) | {
        "nameServer": ("a:1",),
        "requestTimeout": 5,
        "tls": False,
        "tlsCheckHost": True,
        "strictSignature": False,
    }
    assert ConnectionOptions.of(values) == ConnectionOptions(("a:1",), 5)
