"""Access control and TLS, on both brokers: the welcome are served, others are told why not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from tests.support.brokers import unique_name
from tests.support.certificates import write_authority
from tests.support.promises import proves
from tests.support.secured import ADMIN, READER, TOPIC, Secured, without_certificate
from tests.support.waiting import wait_until

from rmq_ordered.client import (
    Client,
    ConsumeResult,
    ConsumerSettings,
    LeaseKeeper,
    MessageBatch,
    OrderedConsumer,
    OrderedProducer,
    PopConsumer,
    QueueReader,
    ReadPlan,
    Subscription,
)
from rmq_ordered.errors import AccessDenied, ConnectFailed, TransportError
from rmq_ordered.model import QueueRange
from rmq_ordered.protocol.acl import Credentials

SOON_S = 60
QUICK = ConsumerSettings(rebalance_ms=1_000, heartbeat_ms=1_000, commit_ms=100)


def send(client: Client) -> None:
    OrderedProducer(client, TOPIC).send("order-1", b"created")


def lock(client: Client) -> None:
    client.broker.lock(unique_name("group"), "me", client.routes.readable(TOPIC))


def pull(client: Client) -> None:
    (queue, _) = client.routes.readable(TOPIC)
    list(QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 1))))


def query_offset(client: Client) -> None:
    client.broker.committed_offset(unique_name("group"), client.routes.readable(TOPIC)[0])


def create_topic(client: Client) -> None:
    client.broker.create_topic(unique_name("topic"), 1)


def test_a_known_user_over_tls_may_send_pull_lock_and_commit(secured: Secured) -> None:
    group = unique_name("group")
    with secured.client() as client:
        sent = OrderedProducer(client, TOPIC).send("order-1", b"created")
        queue, offset = sent.queue, sent.first_offset
        client.broker.heartbeat("me", group, [TOPIC])
        keeper = LeaseKeeper(client.broker, client.clock, group, "me")
        keeper.acquire([queue], 5_000)
        plan = ReadPlan(QueueRange(queue, offset, offset + 1), group, keeper.lease(queue))
        (rows,) = QueueReader(client).read(plan)
        assert rows.column("value").to_pylist() == [b"created"]
        client.broker.commit_offset(group, queue, offset + 1, lease=keeper.lease(queue))
        assert client.broker.committed_offset(group, queue) == offset + 1
        assert client.broker.topic_stats(TOPIC)[queue].maximum == offset + 1
        keeper.release()


def test_a_known_user_over_tls_may_be_a_member_that_consumes_in_order(secured: Secured) -> None:
    group, number = unique_name("group"), unique_name("order")
    handled: list[bytes] = []

    def handle(batch: MessageBatch) -> ConsumeResult:
        handled.extend(m.body for m in batch if m.properties["__SHARDINGKEY"] == number)
        return ConsumeResult.SUCCESS

    steps = [b"created", b"paid", b"shipped"]
    with secured.client() as sender, secured.client() as client:
        for step in steps:
            sent = OrderedProducer(sender, TOPIC).send(number, step)
        with OrderedConsumer(client, group, [TOPIC], handle, QUICK) as consumer:
            wait_until(lambda: handled == steps, "all steps were handled in order", SOON_S)
            members = client.broker.group_members(group, [TOPIC])
            assert members == (consumer.client_id,)
        assert client.broker.committed_offset(group, sent.queue) == sent.first_offset + 1
        answers = client.broker.lock(group, "somebody", [sent.queue])
        assert [answer.granted for answer in answers] == [True]


def test_a_known_user_over_tls_may_pop_hold_and_acknowledge(secured: Secured) -> None:
    tag = unique_name("tag")
    with secured.client() as client:
        OrderedProducer(client, TOPIC).send("order-1", b"to pop", tags=tag)
        consumer = PopConsumer(client, unique_name("group"), Subscription(TOPIC, tag))
        popped = wait_until(lambda: consumer.pop(wait_ms=1_000), "it is popped", SOON_S)
        with consumer.hold(popped) as held:
            held.renew()
            assert [one.message.body for one in held.messages] == [b"to pop"]
            held.ack()
        assert consumer.pop() == ()


def join(client: Client) -> None:
    consumer = OrderedConsumer(
        client, unique_name("group"), [TOPIC], lambda batch: ConsumeResult.SUCCESS, QUICK
    )
    with consumer:
        consumer.wait(SOON_S)


def pop(client: Client) -> None:
    PopConsumer(client, unique_name("group"), TOPIC).pop()


@proves("wrong-credentials-told")
@pytest.mark.parametrize(
    "credentials",
    [replace(ADMIN, secret_key="a-wrong-secret"), Credentials("nobody", "known-to-nobody"), None],
    ids=["wrong secret", "unknown access key", "no credentials"],
)
@pytest.mark.parametrize("action", [send, lock, pull, join, pop, query_offset, create_topic])
def test_who_cannot_say_who_it_is_is_refused(
    secured: Secured, credentials: Credentials | None, action: Callable[[Client], None]
) -> None:
    with (
        secured.client(credentials) as stranger,
        pytest.raises(
            AccessDenied, match=r"127\.0\.0\.1:.*code 16.*check the access key"
        ) as raised,
    ):
        action(stranger)
    assert "a-wrong-secret" not in str(raised.value)


def test_a_user_may_do_what_it_was_allowed_and_nothing_else(secured: Secured) -> None:
    with secured.client() as admin:
        sent = OrderedProducer(admin, TOPIC).send("order-1", b"created")
    with secured.client(READER) as reader:
        plan = ReadPlan(QueueRange(sent.queue, sent.first_offset, sent.first_offset + 1))
        assert sum(rows.num_rows for rows in QueueReader(reader).read(plan)) == 1
        lock(reader)
        assert reader.broker.max_offset(sent.queue) > 0
        for forbidden in (send, create_topic):
            with pytest.raises(AccessDenied):
                forbidden(reader)


def test_a_server_of_another_authority_is_not_trusted(secured: Secured, tmp_path: Path) -> None:
    other = write_authority(trustme.CA(), tmp_path / "other.pem")
    with (
        secured.client(tls=replace(secured.tls, ca_file=str(other))) as client,
        pytest.raises(ConnectFailed, match="certificate verify failed") as raised,
    ):
        client.routes.topics()
    assert secured.name_server in str(raised.value)


def test_a_server_under_another_name_is_not_trusted(secured: Secured) -> None:
    elsewhere = secured.name_server.replace("127.0.0.1", "localhost")
    with (
        secured.client(name_server=elsewhere) as client,
        pytest.raises(ConnectFailed, match=r"Hostname mismatch.*host name in the server's"),
    ):
        client.routes.topics()


def test_a_client_without_tls_is_told_that_tls_may_be_wanted(secured: Secured) -> None:
    with secured.plain_client() as client, pytest.raises(TransportError, match="wants TLS"):
        client.routes.topics()


@proves("wrong-credentials-told")
def test_a_client_without_the_certificate_that_is_wanted_is_refused(secured: Secured) -> None:
    anonymous = without_certificate(secured.tls)
    with (
        secured.client(tls=anonymous) as client,
        pytest.raises(TransportError, match="certificate") as raised,
    ):
        client.routes.topics()
    assert secured.name_server in str(raised.value)
