"""Owners that are killed or fall asleep at every moment of a batch, and the next one takes over.

Both have a checkpoint of their own. An order checker looks at the sink's topic: no row of the
former owner behind one of the next owner, none twice by one owner, none out of its key's order,
none lost. What the former owner had stored of a batch that it did not finish is stored again by the
next one: that is the promise.

In other ways of writing than the plain one it is measured which of them are fenced; none of them
may be refused while its query owns what it reads.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.spark.takeovers import NONE, TOTAL, GatedDriver, TakeOver
from tests.support.brokers import unique_name
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker

pytestmark = pytest.mark.proof

# Longer than the time between two renewals, shorter than a test should wait.
LEASE_MS = 25_000
ROUND_S = 300


@dataclass(frozen=True)
class Moment:
    """When the first owner is stopped: at a row of a batch, or when it has just locked."""

    name: str
    batch: int = 0
    row: int | None = None


MOMENTS = [
    Moment("locked"),
    Moment("rows read, none stored", row=0),
    Moment("some rows stored", row=50),
    Moment("most rows stored", row=90),
    Moment("one batch finished, one begun", batch=1, row=0),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    settings = {"lockMaxLiveTimeMs": str(LEASE_MS)}
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), settings=settings) as started:
        yield started


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


class Drivers:
    """A first driver, another one after each round, and a second one for all rounds.

    Spark's executors do not stand a long sleep: that of a driver which slept may end any time.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.second = stack.enter_context(GatedDriver(folder / "second"))
        self.first = self._new_first()

    def _new_first(self) -> GatedDriver:
        return self._stack.enter_context(GatedDriver(self._folder / unique_name("first")))

    def replace_first(self) -> None:
        self.first.kill()
        self.first = self._new_first()


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    with ExitStack() as stack:
        yield Drivers(tmp_path_factory.mktemp("drivers"), stack)


def stop_at(takeover: TakeOver, drivers: Drivers, moment: Moment, **how: Any) -> None:
    """Have the first driver own everything and reach the moment."""
    pipeline = takeover.pipeline("first", row=moment.row, batch=moment.batch, **how)
    if moment.row is None:
        drivers.first.ask(pipeline)
        group = f"{takeover.input}-group"
        wait_until(lambda: takeover.client.broker.leases(group=group)[0], "it owns them", ROUND_S)
    else:
        takeover.hold(drivers.first, pipeline)


@proves("former-owner-writes-nothing")
@pytest.mark.timeout(2 * len(MOMENTS) * ROUND_S)
@pytest.mark.parametrize("instance", ["billing", None], ids=["instanceId", "no instanceId"])
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["asleep", "killed"])
def test_the_next_owner_finds_everything_in_order_whenever_the_former_one_stopped(
    number: signal.Signals,
    instance: str | None,
    broker: EmbeddedBroker,
    client: Client,
    drivers: Drivers,
    tmp_path: Path,
) -> None:
    for moment in MOMENTS:
        place = tmp_path / moment.name.replace(" ", "-").replace(",", "")
        takeover = TakeOver(client, broker.name_server, place, instance)
        stop_at(takeover, drivers, moment)
        if number is signal.SIGKILL:
            drivers.first.kill()
        else:
            drivers.first.send(number)
        takeover.finish(drivers.second, takeover.pipeline("second"))
        takeover.open()
        if number is signal.SIGSTOP:
            drivers.first.send(signal.SIGCONT)
            assert not drivers.first.answer().startswith("ended"), moment
        drivers.replace_first()
        assert takeover.damage() == NONE, moment


def plain(takeover: TakeOver) -> dict[str, Any]:
    return {}


def written(how: str) -> Callable[[TakeOver], dict[str, Any]]:
    return lambda takeover: {"how": how}


def two_sources(takeover: TakeOver) -> dict[str, Any]:
    """Of one query: the second one reads another topic, in another group."""
    other = unique_name("beside")
    takeover.client.broker.create_topic(other, 1)
    given = takeover.pipeline("either")["source"]
    return {"source": [given, given | {"subscribe": other, "group": f"{other}-group"}]}


@proves("former-owner-writes-nothing")
@pytest.mark.parametrize(
    ("ways", "is_fenced"),
    [
        pytest.param(written("shuffled"), True, id="written in another stage"),
        pytest.param(written("foreachBatch"), True, id="foreachBatch"),
        pytest.param(two_sources, True, id="two sources"),
        pytest.param(written("job group"), False, id="a job group of the user's"),
    ],
)
def test_other_ways_of_writing_are_fenced_or_said_not_to_be_and_never_refused_wrongly(
    ways: Callable[[TakeOver], dict[str, Any]],
    is_fenced: bool,
    broker: EmbeddedBroker,
    client: Client,
    drivers: Drivers,
    tmp_path: Path,
) -> None:
    takeover = TakeOver(client, broker.name_server, tmp_path, "billing")
    how = ways(takeover)
    stop_at(takeover, drivers, Moment("rows read", row=0), **how)
    drivers.first.send(signal.SIGSTOP)
    before = takeover.count("first")
    takeover.finish(drivers.second, takeover.pipeline("second", **how))
    assert takeover.count("second") == TOTAL
    takeover.open()
    drivers.first.send(signal.SIGCONT)
    assert not drivers.first.answer().startswith("ended")
    drivers.replace_first()
    if is_fenced:
        assert takeover.count("first") == before
        assert takeover.damage() == NONE
