"""A pipeline from topic to topic while everything around it dies: nothing lost, moved or twice.

In each round a seeded plan kills, at random moments and in random order, the driver, executors,
single Python workers and the broker, and cuts the network for a while; all the time one answer in a
few hundred is lost with its connection. A query that fails is started again, as a supervisor would.
At the end every key must be in the output from its first row to its last, each once, in order.

The first round has every kind of fault, further ones have some of them, others twice:
``RMQ_ORDERED_KILL_ROUNDS=20 RMQ_ORDERED_KILL_SEED=100``.
"""

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.spark.harness import produce
from tests.spark.pipelines import Pipeline, Supervised
from tests.support.maven import ToolUnavailable
from tests.support.missing import give_up
from tests.support.network import Network
from tests.support.promises import proves
from tests.support.rocketmq import RocketMq
from tests.support.standalone import Standalone, standalone
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import QueueRange

pytestmark = pytest.mark.proof

ROUNDS = int(os.environ.get("RMQ_ORDERED_KILL_ROUNDS", "1"))
SEED = int(os.environ.get("RMQ_ORDERED_KILL_SEED", "7"))
KEYS, SEQUENCES, QUEUES = 30, 30, 3
TOTAL = KEYS * SEQUENCES
LOST_ANSWERS_PER_THOUSAND = 4
MOST_FAULTS = 5
TIMEOUT_S = 300.0


@dataclass
class Cluster:
    """A broker that can be killed and comes back."""

    name_server: str
    addresses: list[str]
    restart: Callable[[], None]


@contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    with EmbeddedBroker(data=folder / "broker") as broker:

        def restart() -> None:
            broker.kill()
            broker.start()

        yield Cluster(broker.name_server, [broker.name_server], restart)


@contextmanager
def rocketmq(folder: Path) -> Iterator[Cluster]:
    try:
        # A request that waited longer is refused, not served when its sender has given it up.
        cluster = RocketMq({"waitTimeMillsInSendQueue": "1000"})
        cluster.start()
    except ToolUnavailable as missing:
        give_up(missing)

    def restart() -> None:
        cluster.kill_broker()
        cluster.restart_broker()

    try:
        yield Cluster(cluster.name_server, [cluster.name_server, cluster.broker_address], restart)
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


class Round:
    """One pipeline, and what happens to it."""

    def __init__(
        self, number: int, cluster: Cluster, network: Network, jobs: Supervised, client: Client
    ) -> None:
        self.number = number
        self._cluster, self._network, self._jobs, self._client = cluster, network, jobs, client
        self._chance = random.Random(SEED + number)
        self._pipeline = Pipeline(cluster.name_server, number)

    def run(self) -> None:
        for topic in (self._pipeline.input, self._pipeline.output):
            self._client.broker.create_topic(topic, QUEUES)
            wait_until(lambda t=topic: t in self._client.routes.topics(), "there is a route", 20)
        total = produce(self._client, self._pipeline.input, keys=KEYS, sequences=range(SEQUENCES))
        assert total == TOTAL
        faults = self._faults()
        moments = sorted(self._chance.sample(range(1, TOTAL * 9 // 10), len(faults)))
        self._jobs.begin(self._pipeline)
        for moment, fault in zip(moments, faults, strict=True):
            self._wait(lambda at=moment: self._written() >= at, f"{moment} rows are written")
            fault()
        self._wait(lambda: False, "the pipeline has ended")
        wait_until(lambda: self._written() >= TOTAL, f"all rows can be seen, {self}", TIMEOUT_S)
        expected = {f"key-{key}": list(range(SEQUENCES)) for key in range(KEYS)}
        assert self._stored() == expected, f"{self}, {self._jobs.starts} starts of the driver"

    def __str__(self) -> str:
        return f"round {self.number}, seed {SEED + self.number}"

    # Faults

    def _faults(self) -> list[Callable[[], None]]:
        kinds = [
            self._jobs.kill_driver,
            lambda: self._jobs.kill_executor(self._chance),
            lambda: self._jobs.kill_worker(self._chance),
            self._cluster.restart,
            self._cut,
        ]
        if self.number == 0:
            self._chance.shuffle(kinds)
            return kinds
        return self._chance.choices(kinds, k=self._chance.randint(1, MOST_FAULTS))

    def _cut(self) -> None:
        """Until something was swallowed; every other time until somebody has noticed."""
        is_long = self._chance.random() < 0.5
        before = self._network.swallowed, self._network.accepted
        self._network.cut()
        self._wait(lambda: self._network.swallowed > before[0], "something was swallowed")
        if is_long:
            self._wait(lambda: self._network.accepted > before[1], "somebody tries again")
        self._network.heal()

    # Looking

    def _wait(self, is_enough: Callable[[], bool], what: str) -> None:
        """Until then, or until the pipeline has ended; keeps it running meanwhile."""
        wait_until(lambda: self._jobs.has_ended() or is_enough(), f"{what}, {self}", TIMEOUT_S)

    def _written(self) -> int:
        """How many messages there are; 0 while nobody can tell."""
        with suppress(RmqOrderedError):
            spans = self._client.broker.topic_stats(self._pipeline.output)
            return sum(span.maximum for span in spans.values())
        return 0

    def _stored(self) -> dict[str, list[int]]:
        """The numbers of each key, in the order of its queue."""
        found: dict[str, list[int]] = defaultdict(list)
        for queue, span in self._client.broker.topic_stats(self._pipeline.output).items():
            plan = ReadPlan(QueueRange(queue, 0, span.maximum))
            for rows in QueueReader(self._client).read(plan):
                columns = (rows.column(name).to_pylist() for name in ("key", "value"))
                for key, value in zip(*columns, strict=True):
                    found[key].append(int(value))
        return dict(found)


@proves("pipeline-survives-kills")
@pytest.mark.timeout(int(ROUNDS * 2 * TIMEOUT_S) + 200)
@pytest.mark.parametrize("start", [embedded, rocketmq])
def test_a_pipeline_writes_every_row_once_and_in_order_whatever_dies(
    start: Callable[[Path], AbstractContextManager[Cluster]],
    spark_cluster: Standalone,
    tmp_path: Path,
) -> None:
    with (
        start(tmp_path) as cluster,
        Network(cluster.addresses, SEED, LOST_ANSWERS_PER_THOUSAND) as network,
        Client(cluster.name_server, request_timeout_ms=10_000) as client,
        Supervised(spark_cluster, network.detours, tmp_path) as jobs,
    ):
        for number in range(ROUNDS):
            Round(number, cluster, network, jobs, client).run()
