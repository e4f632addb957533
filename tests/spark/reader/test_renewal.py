"""Leases of a reader are renewed while Spark leaves it alone: idle, or busy with a long batch."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.spark.harness import produce
from tests.support.calls import ALL, again
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client
from rmq_ordered.client.leases import LeaseKeeper
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import LeaseRecord
from rmq_ordered.options import SourceOptions
from rmq_ordered.spark.stream import OrderedStreamReader

LIFE_MS = 6_000
SCALED = partial(LeaseKeeper, trust_ms=5_500, renew_ms=300)


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker whose leases live for six seconds."""
    settings = {"lockMaxLiveTimeMs": str(LIFE_MS)}
    with EmbeddedBroker(tmp_path / "broker", settings=settings) as broker:
        yield broker


@proves("held-while-in-flight")
@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_a_batch_may_last_longer_than_a_lease_and_nobody_else_gets_the_queues(
    impatient: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    for module in ("ownership", "shared"):
        monkeypatch.setattr(f"rmq_ordered.spark.{module}.LeaseKeeper", SCALED)
    given = {"nameServer": impatient.name_server, "subscribe": "orders", "group": "billing",
             "requestTimeout": "15s", "leaseMode": mode}  # fmt: skip
    reader = OrderedStreamReader(SourceOptions.parse(given, streaming=True))
    with Client(impatient.name_server, request_timeout_ms=15_000) as client:
        client.broker.create_topic("orders", 2)
        produce(client, "orders", keys=4, sequences=range(3))
        queues = client.routes.readable("orders")
        try:
            start = reader.initialOffset()
            end = again(reader.latestOffset(start, ALL))
            planned = reader.partitions(start, end)

            def rows() -> list[LeaseRecord]:
                found, _ = client.broker.leases(group="billing")
                assert all(row.is_live for row in found)
                return [r for r in found if r.renewed_at_ms - r.granted_at_ms > LIFE_MS]

            # The batch is at work; the reader's own thread is all that keeps the queues.
            wait_until(lambda: len(rows()) == 2, "the leases outlived themselves", 60)
            answers = client.broker.lock("billing", "other", queues)
            assert not any(answer.granted for answer in answers)
            count = sum(b.num_rows for p in planned for b in reader.read(p))
            assert count == 12
            assert reader.latestOffset(end, ALL) == end
            assert client.broker.committed_offset("billing", queues[0]) is not None
        finally:
            reader.stop()
