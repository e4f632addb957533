"""Fixtures of the whole suite: the two brokers behind one name, and Apache's Java clients.

The real RocketMQ is fetched by Maven on first use. Where that is impossible its half of the suite
is skipped and the run says so in red at its very end; under ``CI=true`` it is an error instead, so
that it cannot rot unseen.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from tests.support.brokers import Broker
from tests.support.embedded_start import quick_brokers
from tests.support.java_clients import JavaClients
from tests.support.maven import ToolUnavailable
from tests.support.missing import MISSING, give_up, running
from tests.support.rocketmq import RocketMq

if TYPE_CHECKING:
    from rmq_ordered.embedded import EmbeddedBroker


# Generated tests: machines are shared, so no time limit per example; failures can be repeated.
settings.register_profile(
    "rmq-ordered", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rmq-ordered")

# Few tests, but long ones: begun last, one of them would keep the whole run waiting.
_SLOW_FOLDERS = ("spark", "clients", "faults", "contract")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow folders first; within one, everything stays in its order."""

    def place(item: pytest.Item) -> int:
        folders = item.path.relative_to(Path(__file__).parent).parts
        return (
            _SLOW_FOLDERS.index(folders[0]) if folders[0] in _SLOW_FOLDERS else len(_SLOW_FOLDERS)
        )

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def quick_embedded_brokers() -> Iterator[None]:
    """Of the whole session, also those that programs of the tests start."""
    with patch.dict(os.environ, quick_brokers()):
        yield


@pytest.fixture(scope="session")
def rocketmq_cluster() -> Iterator[RocketMq]:
    """A real Apache RocketMQ for the whole session. A test that kills brokers starts its own."""
    # SQL92 filters are off by default in RocketMQ but part of the contract here.
    yield from running(RocketMq({"enablePropertyFilter": "true"}))


@pytest.fixture(scope="session")
def embedded_broker() -> "Iterator[EmbeddedBroker]":
    """One embedded broker for the whole session. A test that kills it takes `fresh_embedded`."""
    from rmq_ordered.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def fresh_embedded(tmp_path: Path) -> "Iterator[EmbeddedBroker]":
    """An embedded broker of the test's own, to be killed, restarted or filled at will."""
    from rmq_ordered.embedded import EmbeddedBroker

    with EmbeddedBroker(data=tmp_path / "broker") as broker:
        yield broker


@pytest.fixture(params=["embedded", "rocketmq"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker under contract: each test that asks for it runs once against either."""
    if request.param == "embedded":
        embedded: EmbeddedBroker = request.getfixturevalue("embedded_broker")
        return Broker(embedded.name_server, embedded.name_server, "embedded")
    cluster: RocketMq = request.getfixturevalue("rocketmq_cluster")
    return Broker(cluster.name_server, cluster.broker_address, "rocketmq")


@pytest.fixture
def javaclients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    """Apache's Java clients; those that a test leaves running are killed at its end."""
    try:
        clients = JavaClients(tmp_path_factory.mktemp("java"))
    except ToolUnavailable as missing:
        give_up(missing)
    with clients:
        yield clients


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Says in red, below everything else, that half of the proof was not given."""
    yield
    reasons = [
        str(report.longrepr[2])
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and MISSING in str(report.longrepr[2])
    ]
    if reasons:
        _, _, why = reasons[0].partition(f"{MISSING}: ")
        terminalreporter.write_sep(
            "!", f"{len(reasons)} tests NOT RUN: {MISSING}", red=True, bold=True
        )
        terminalreporter.write_line(f"{why} Their promises are unproven in this run.", red=True)
