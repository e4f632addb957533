"""Either broker with everything switched on that keeps strangers out, and the ways to ask it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import trustme
from tests.support.certificates import issue_certificate, write_authority
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.rocketmq import RocketMq, Security
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import TopicNotFound
from rmq_ordered.net.tls import TlsSettings
from rmq_ordered.protocol.acl import Credentials
from rmq_ordered.protocol.command import RemotingCommand

TOPIC, GROUP = "orders", "billing"
OPEN_TOPIC = "invoices"
ADMIN = Credentials("admin", "correct-horse-battery")
READER = Credentials("reader", "staple-of-the-reader")
CLERK = Credentials("clerk", "paper-of-the-clerk")
TIMEOUT_MS = 10_000
AUTH_CREATE_USER, AUTH_CREATE_ACL = 3001, 3006

# Pulling and locking are subscribing; asking how far a queue reaches is another right in RocketMQ.
READING = ["Sub", "Get"]
RIGHTS = {
    READER: {f"Topic:{TOPIC}": READING, "Group:*": READING},
    CLERK: {
        f"Topic:{TOPIC}": READING,
        f"Topic:{OPEN_TOPIC}": ["Pub", *READING],
        "Group:*": READING,
    },
}
EMBEDDED_ACL = f"""
user.{ADMIN.access_key}.secret={ADMIN.secret_key}
user.{ADMIN.access_key}.admin=true
user.{READER.access_key}.secret={READER.secret_key}
user.{READER.access_key}.topic.{TOPIC}=SUB
user.{READER.access_key}.group.*=SUB
user.{CLERK.access_key}.secret={CLERK.secret_key}
user.{CLERK.access_key}.topic.{TOPIC}=SUB
user.{CLERK.access_key}.topic.{OPEN_TOPIC}=PUB|SUB
user.{CLERK.access_key}.group.*=SUB
user.{CLERK.access_key}.kv.rmq-ordered-sink@*=PUB|SUB
"""


@dataclass(frozen=True)
class Secured:
    """Where it is and what a welcome client shows.

    It has two topics, a user who may read the first, and one who may also write the other one.
    """

    name_server: str
    tls: TlsSettings

    def client(
        self,
        credentials: Credentials | None = ADMIN,
        *,
        tls: TlsSettings | None = None,
        name_server: str | None = None,
    ) -> Client:
        """Returns a client that is welcome but for what is given here."""
        return Client(
            name_server or self.name_server,
            request_timeout_ms=TIMEOUT_MS,
            credentials=credentials,
            tls=tls or self.tls,
        )

    def plain_client(self) -> Client:
        """Returns a client that speaks no TLS."""
        return Client(self.name_server, request_timeout_ms=TIMEOUT_MS, credentials=ADMIN)


def secured_embedded(folder: Path) -> Iterator[Secured]:
    """Runs the embedded broker."""
    security, tls = _security(folder)
    acl = folder / "acl.conf"
    acl.write_text(EMBEDDED_ACL)
    settings = {
        "tlsMode": "enforcing",
        "tlsCertPath": str(security.certificate.certificate),
        "tlsKeyPath": str(security.certificate.key),
        "tlsClientCaPath": str(security.authority),
        "aclFile": str(acl),
    }
    with EmbeddedBroker(folder / "data", settings=settings) as broker:
        secured = Secured(broker.name_server, tls)
        with secured.client() as admin:
            _make_topics(admin)
        yield secured


def secured_rocketmq(folder: Path, java_options: Sequence[str]) -> Iterator[Secured]:
    """Runs Apache RocketMQ."""
    security, tls = _security(folder)
    with RocketMq(broker_java_options=java_options, security=security) as cluster:
        secured = Secured(cluster.name_server, tls)
        with secured.client() as admin:
            _make_topics(admin)
            for credentials in RIGHTS:
                _make_user(admin, cluster.broker_address, credentials)
        yield secured


def secured_broker(kind: str, folder: Path, java_options: Sequence[str]) -> Iterator[Secured]:
    """Either of the two, for a fixture's parameter; what RocketMQ needs may be missing."""
    if kind == "embedded":
        yield from secured_embedded(folder)
        return
    try:
        yield from secured_rocketmq(folder, java_options)
    except ToolUnavailable as missing:
        give_up(missing)


def _make_user(admin: Client, address: str, credentials: Credentials) -> None:
    name = credentials.access_key
    user = {"username": name, "password": credentials.secret_key, "userType": "Normal"}
    entries = [
        {"resource": resource, "actions": actions, "decision": "Allow"}
        for resource, actions in RIGHTS[credentials].items()
    ]
    subject = f"User:{name}"
    acl = {"subject": subject, "policies": [{"policyType": "Custom", "entries": entries}]}
    for code, fields, body in (
        (AUTH_CREATE_USER, {"username": name}, user),
        (AUTH_CREATE_ACL, {"subject": subject}, acl),
    ):
        request = RemotingCommand(code, ext_fields=fields, body=json.dumps(body).encode())
        answer = admin.remoting.call(address, request, "a new user", TIMEOUT_MS)
        assert answer.code == 0, answer.remark


def _security(folder: Path) -> tuple[Security, TlsSettings]:
    authority = trustme.CA()
    ca_file = write_authority(authority, folder / "ca.pem")
    server = issue_certificate(authority, folder, "server")
    ours = issue_certificate(authority, folder, "client")
    tls = TlsSettings(str(ca_file), str(ours.certificate), str(ours.key))
    return Security(ca_file, server, ADMIN.access_key, ADMIN.secret_key), tls


def _make_topics(admin: Client) -> None:
    def has_route(topic: str) -> bool:
        try:
            return len(admin.routes.readable(topic)) == 2
        except TopicNotFound:
            return False

    for topic in (TOPIC, OPEN_TOPIC):
        admin.broker.create_topic(topic, 2)
        wait_until(lambda t=topic: has_route(t), "the new topic has a route", 20)


def without_certificate(tls: TlsSettings) -> TlsSettings:
    """Returns the settings of a client that does not say who it is."""
    return replace(tls, certificate_file=None, key_file=None)
