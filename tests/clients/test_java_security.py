"""Apache's Java producer and orderly consumer against a broker with users and with TLS."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.support.brokers import unique_name
from tests.support.certificates import Certificate, make_certificate
from tests.support.java_programs import Event, JavaProgram
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.embedded import EmbeddedBroker

DEADLINE_S = 60.0
TOPIC = "orders"
SECRET = "correct-horse"
ACL = f"""
user.app.secret={SECRET}
user.app.topic.{TOPIC}=PUB|SUB
user.app.group.*=SUB
user.reader.secret={SECRET}
user.reader.topic.{TOPIC}=SUB
user.reader.group.*=SUB
"""


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path, "server")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    acl = tmp_path / "acl.conf"
    acl.write_text(ACL)
    with EmbeddedBroker(tmp_path / "data", settings={"aclFile": str(acl)}) as broker:
        yield broker


@pytest.fixture
def encrypted(tmp_path: Path, certificate: Certificate) -> Iterator[EmbeddedBroker]:
    settings = {
        "tlsMode": "enforcing",
        "tlsCertPath": str(certificate.certificate),
        "tlsKeyPath": str(certificate.key),
    }
    with EmbeddedBroker(tmp_path / "data", settings=settings) as broker:
        yield broker


def arguments(broker: EmbeddedBroker, body: str, more: Mapping[str, str]) -> list[str]:
    known = {"name-server": broker.name_server, "topic": TOPIC, "body": body, **more}
    known |= {"group": unique_name("group"), "max-messages": "1"}
    return [part for name, value in known.items() for part in (f"--{name}", value)]


def as_user(name: str, secret: str = SECRET) -> dict[str, str]:
    return {"access-key": name, "secret-key": secret}


def round_trip(arguments: list[str], home: Path) -> list[Event]:
    """Runs the program until it has consumed a message, and returns what it said."""
    with JavaProgram("SecuredClient", arguments, home) as program:
        return program.join(DEADLINE_S)


def log_of(broker: EmbeddedBroker) -> str:
    return (broker.data / "broker.log").read_text(errors="replace")


@pytest.mark.usefixtures("javaclients")
def test_a_known_user_sends_and_consumes(guarded: EmbeddedBroker, tmp_path: Path) -> None:
    events = round_trip(arguments(guarded, "hello", as_user("app")), tmp_path)
    assert [event["event"] for event in events] == ["sent", "message"]
    assert events[1]["body"] == "hello"
    assert SECRET not in log_of(guarded)


@pytest.mark.usefixtures("javaclients")
def test_a_user_who_may_only_read_is_told_so_and_reads(
    guarded: EmbeddedBroker, tmp_path: Path
) -> None:
    round_trip(arguments(guarded, "first", as_user("app")), tmp_path)
    events = round_trip(arguments(guarded, "second", as_user("reader")), tmp_path)
    assert [event["event"] for event in events] == ["refused", "message"]
    assert events[0]["code"] == 16
    # Java's sentence is about its attempts; the broker's own is in its log.
    assert f"User 'reader' has no permission: PUB on topic.{TOPIC}" in log_of(guarded)
    assert events[1]["body"] == "first"


@proves("acl-keeps-strangers-out")
@pytest.mark.usefixtures("javaclients")
@pytest.mark.parametrize("credentials", [as_user("app", "wrong-secret"), {}], ids=["wrong", "none"])
def test_without_the_right_secret_nothing_is_sent_or_consumed(
    guarded: EmbeddedBroker,
    tmp_path: Path,
    credentials: dict[str, str],
) -> None:
    round_trip(arguments(guarded, "first", as_user("app")), tmp_path)
    before = log_of(guarded).count("request denied")
    with JavaProgram(
        "SecuredClient", arguments(guarded, "second", credentials), tmp_path
    ) as intruder:
        intruder.wait_for_event("refused", DEADLINE_S)
        # The producer asked and the consumer goes on asking.
        wait_until(
            lambda: log_of(guarded).count("request denied") >= before + 5,
            "the broker has denied the consumer too",
            DEADLINE_S,
        )
        assert intruder.events("message") == []
        assert intruder.events("sent") == []
    assert SECRET not in log_of(guarded)
    assert "wrong-secret" not in log_of(guarded)


@pytest.mark.usefixtures("javaclients")
def test_a_client_that_trusts_the_broker_is_served_over_tls(
    encrypted: EmbeddedBroker, certificate: Certificate, tmp_path: Path
) -> None:
    trust = {"trust": str(certificate.certificate)}
    events = round_trip(arguments(encrypted, "hidden", trust), tmp_path)
    assert [event["event"] for event in events] == ["sent", "message"]


@pytest.mark.usefixtures("javaclients")
def test_a_client_that_trusts_somebody_else_sends_nothing(
    encrypted: EmbeddedBroker, tmp_path: Path
) -> None:
    stranger = make_certificate(tmp_path, "stranger")
    trust = {"trust": str(stranger.certificate)}
    events = round_trip(arguments(encrypted, "hidden", trust), tmp_path)
    assert [event["event"] for event in events] == ["refused"]
    assert "closing a connection" in log_of(encrypted)
