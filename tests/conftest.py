"""Fixtures of the whole suite: the two brokers behind one name, and Apache's Java clients.

The real RocketMQ is fetched by Maven on first use. Where that is impossible its half of the suite
is skipped and the run says so in red at its very end; under ``CI=true`` it is an error instead, so
that it cannot rot unseen. A test that fails is reported with what its servers wrote.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from tests.runner.selection import QUICK_FOLDERS
from tests.support.brokers import Broker
from tests.support.embedded_start import quick_brokers
from tests.support.examples import examples
from tests.support.java_clients import JavaClients
from tests.support.logs import ServerLogs
from tests.support.maven import ROCKETMQ_4, ToolUnavailable
from tests.support.missing import LACKING, MISSING, give_up, running
from tests.support.paths import ROOT
from tests.support.rocketmq import RocketMq

if TYPE_CHECKING:
    from rmq_ordered.embedded import EmbeddedBroker


# Generated tests: machines are shared, so no time limit per example; failures can be repeated.
settings.register_profile(
    "rmq-ordered",
    deadline=None,
    print_blob=True,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rmq-ordered")

_TESTS = Path(__file__).parent
# Few tests, but long ones: begun last, one of them would keep the whole run waiting.
_SLOW_FOLDERS = ("spark", "clients", "faults", "contract")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow folders first, within one all stays in its order; marks what is generated or long.

    What the contract says of both brokers it shows on both. Of what Spark and Java's clients do on
    top of it, RocketMQ's half belongs to the long tier, and so does the older Java client.
    """
    for item in items:
        if _is_of_the_long_tier(item):
            item.add_marker("proof")
        if item.path.is_relative_to(_TESTS / "property"):
            item.add_marker("generated")

    def place(item: pytest.Item) -> int:
        folders = item.path.relative_to(_TESTS).parts
        return (
            _SLOW_FOLDERS.index(folders[0]) if folders[0] in _SLOW_FOLDERS else len(_SLOW_FOLDERS)
        )

    items.sort(key=place)


_LOGS = ServerLogs()
_LOGS.watch()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs a server is not begun where none can be had."""
    _LOGS.begin()
    lacking = os.environ.get(LACKING)
    if lacking and not _needs_no_server(item.path):
        give_up(lacking)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Shows what the servers wrote during a test that failed."""
    report = yield
    if report.failed:
        for path, text in _LOGS.written():
            report.sections.append((f"{path.name} of {path.parent.name}", text))
    return report


def _needs_no_server(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(QUICK_FOLDERS)


def _is_of_the_long_tier(item: pytest.Item) -> bool:
    if not item.path.is_relative_to(_TESTS / "spark") and not item.path.is_relative_to(
        _TESTS / "clients"
    ):
        return False
    call = getattr(item, "callspec", None)
    values = list(call.params.values()) if call is not None else []
    if ROCKETMQ_4 in values:
        return True
    return "rocketmq" in values and item.get_closest_marker("both_brokers") is None


@pytest.fixture(scope="session", autouse=True)
def quick_embedded_brokers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of the whole session, also those that programs of the tests start."""
    needs_none = all(_needs_no_server(item.path) for item in request.session.items)
    if needs_none or os.environ.get(LACKING):
        yield  # no broker will be started, and perhaps there is no Java to prepare one with
        return
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
