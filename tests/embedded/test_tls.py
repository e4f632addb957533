"""TLS from Python: whom the broker serves in which mode, and who is warned."""

import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.certificates import Certificate, make_certificate

from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import EmbeddedBrokerError
from rmq_ordered.protocol.command import RemotingCommand, encode_command

DEADLINE_S = 10.0
REQUEST = encode_command(RemotingCommand(106, opaque=1, ext_fields={}))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture(scope="module")
def encrypted(
    tmp_path_factory: pytest.TempPathFactory, certificate: Certificate
) -> Iterator[EmbeddedBroker]:
    settings = {
        "tlsMode": "enforcing",
        "tlsCertPath": str(certificate.certificate),
        "tlsKeyPath": str(certificate.key),
    }
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), settings=settings) as broker:
        yield broker


def connect(broker: EmbeddedBroker) -> socket.socket:
    host, _, port = broker.name_server.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=DEADLINE_S)


def ask(sock: socket.socket) -> bytes:
    """The answer's beginning, or nothing if the broker hangs up."""
    try:
        sock.sendall(REQUEST)
        return sock.recv(65_536)
    except ConnectionError:
        return b""


def test_a_client_that_trusts_the_broker_is_served(
    encrypted: EmbeddedBroker, certificate: Certificate
) -> None:
    context = ssl.create_default_context(cafile=str(certificate.certificate))
    with context.wrap_socket(connect(encrypted), server_hostname="127.0.0.1") as sock:
        answer = ask(sock)
    assert struct.unpack(">i", answer[:4])[0] > 0
    assert b"brokerAddrTable" in answer


def test_a_plain_client_is_hung_up_on_when_tls_is_enforced(encrypted: EmbeddedBroker) -> None:
    with connect(encrypted) as sock:
        assert ask(sock) == b""


def test_a_client_with_another_authority_refuses_the_broker(
    encrypted: EmbeddedBroker, tmp_path: Path
) -> None:
    stranger = make_certificate(tmp_path, "stranger")
    context = ssl.create_default_context(cafile=str(stranger.certificate))
    with connect(encrypted) as sock, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(sock, server_hostname="127.0.0.1")


def test_tls_without_files_stops_the_broker_with_a_sentence(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, settings={"tlsMode": "enforcing"})
    with pytest.raises(EmbeddedBrokerError, match="tlsCertPath is empty"):
        broker.start()


def test_a_broker_that_others_can_reach_without_an_acl_warns(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, listen="0.0.0.0:0"):
        assert "everybody may do everything" in (tmp_path / "broker.log").read_text()
