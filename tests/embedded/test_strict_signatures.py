"""Strictly signed requests against a broker that insists on them: served once, copies never."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client, LeaseKeeper, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import AccessDenied
from rmq_ordered.model import QueueRange
from rmq_ordered.net.signing import signing
from rmq_ordered.protocol.acl import Credentials
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand

ADMIN = Credentials("admin", "correct-horse-battery", strict=True)
PLAIN = Credentials("plain", "another-good-secret")
USERS = f"""
user.{ADMIN.access_key}.secret={ADMIN.secret_key}
user.{ADMIN.access_key}.admin=true
user.{PLAIN.access_key}.secret={PLAIN.secret_key}
user.{PLAIN.access_key}.admin=true
user.{PLAIN.access_key}.strict=false
"""
TIMEOUT_MS = 10_000
TOPIC = "orders"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("strict")
    acl = folder / "acl.conf"
    acl.write_text(USERS)
    settings = {"aclFile": str(acl), "aclStrict": "true"}
    with EmbeddedBroker(folder / "data", settings=settings) as broker:
        with client(broker, ADMIN) as admin:
            admin.broker.create_topic(TOPIC, 2)
        yield broker


def client(broker: EmbeddedBroker, credentials: Credentials) -> Client:
    return Client(broker.name_server, request_timeout_ms=TIMEOUT_MS, credentials=credentials)


@proves("acl-strict")
def test_a_client_that_signs_strictly_sends_locks_reads_and_commits(
    broker: EmbeddedBroker,
) -> None:
    with client(broker, ADMIN) as strict:
        producer = OrderedProducer(strict, TOPIC)
        sent = [producer.send("order-1", b"%d" % number) for number in range(200)]
        queue, first, last = sent[0].queue, sent[0].first_offset, sent[-1].first_offset
        strict.broker.heartbeat("me", "billing", [TOPIC])
        keeper = LeaseKeeper(strict.broker, strict.clock, "billing", "me")
        keeper.acquire([queue], 5_000)
        plan = ReadPlan(QueueRange(queue, first, last + 1), "billing", keeper.lease(queue))
        batches = list(QueueReader(strict).read(plan))
        values = [value for batch in batches for value in batch.column("value").to_pylist()]
        assert values == [b"%d" % number for number in range(200)]
        strict.broker.commit_offset("billing", queue, last + 1, lease=keeper.lease(queue))
        assert strict.broker.committed_offset("billing", queue) == last + 1
        keeper.release()


@proves("acl-strict")
def test_a_copied_request_is_refused_on_any_connection(broker: EmbeddedBroker) -> None:
    with client(broker, ADMIN) as strict, Client(broker.name_server) as thief:
        create = {
            "topic": "copied",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
        }
        request = RemotingCommand(17, ext_fields=create)
        signed = signing(ADMIN, strict.clock)(request, broker.name_server)
        assert call(thief, broker, signed).code == ResponseCode.SUCCESS
        again = call(thief, broker, signed)
        assert again.code == ResponseCode.NO_PERMISSION
        assert "sent this very request before" in (again.remark or "")
        other = call(thief, broker, replace(signed, code=215))
        assert other.code == ResponseCode.NO_PERMISSION
        assert len(strict.routes.readable("copied")) == 1


def call(client: Client, broker: EmbeddedBroker, request: RemotingCommand) -> RemotingCommand:
    return client.remoting.call(broker.name_server, request, "a copy", TIMEOUT_MS)


@proves("acl-strict")
def test_a_strict_user_that_signs_as_rocketmq_does_is_told_what_to_set(
    broker: EmbeddedBroker,
) -> None:
    with (
        client(broker, replace(ADMIN, strict=False)) as lax,
        pytest.raises(AccessDenied, match="strictSignature=true"),
    ):
        lax.routes.readable(TOPIC)


def test_other_users_sign_as_rocketmq_does(broker: EmbeddedBroker) -> None:
    with client(broker, PLAIN) as plain:
        assert len(plain.routes.readable(TOPIC)) == 2
