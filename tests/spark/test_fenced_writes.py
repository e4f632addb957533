"""A driver sleeps in mid-batch, another one with a checkpoint of its own takes over and writes all.

When the first one wakes, tasks that had read their rows go on. None of their rows may be stored:
they would come twice, and behind newer rows of their keys.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.takeovers import NONE, TOTAL, GatedDriver, TakeOver
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.embedded import EmbeddedBroker


@pytest.fixture
def client(embedded_broker: EmbeddedBroker) -> Iterator[Client]:
    with Client(embedded_broker.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@proves("former-owner-writes-nothing")
def test_a_sleeper_that_has_read_its_rows_stores_none_when_it_wakes(
    embedded_broker: EmbeddedBroker, client: Client, tmp_path: Path
) -> None:
    takeover = TakeOver(client, embedded_broker.name_server, tmp_path, instance="billing")
    with GatedDriver(tmp_path / "first") as first, GatedDriver(tmp_path / "second") as second:
        takeover.hold(first, takeover.pipeline("first", row=0))
        first.send(signal.SIGSTOP)
        before = takeover.count("first")
        takeover.finish(second, takeover.pipeline("second"))
        takeover.open()
        first.send(signal.SIGCONT)
        answer = first.answer()
    # Spark's executor does not stand a long sleep, and may have ended as well.
    assert "WriteFenced" in answer or "QueueLeaseLost" in answer or answer.startswith("died")
    assert takeover.count("second") == TOTAL
    assert takeover.count("first") == before
    assert takeover.damage() == NONE
