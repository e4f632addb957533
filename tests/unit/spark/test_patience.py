"""Brokers that are away for a while when a batch is planned: waited for, as long as leases hold."""

from collections.abc import Callable

import pytest
from tests.support.calls import ALL, NewReader, again, ends
from tests.support.promises import proves

from rmq_ordered.errors import BrokerError, ConnectFailed, QueueLeaseLost, TransportError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.testing import ClusterDouble, Refuse

STATS = RequestCode.GET_TOPIC_STATS_INFO
# A start of RocketMQ.
RESTART_MS = 7_000
PATTERN = {"subscribe": None, "subscribePattern": "ord.*"}


def on_pause(cluster: ClusterDouble, action: Callable[[], None]) -> None:
    """Do something whenever somebody lets time pass."""
    pause = cluster.clock.pause_ms

    def pause_and_act(duration_ms: int) -> None:
        pause(duration_ms)
        action()

    cluster.clock.pause_ms = pause_and_act  # type: ignore[method-assign]


def restart(cluster: ClusterDouble, *, is_listed: bool) -> None:
    """Take the broker down until the restart is over; who stops well is not listed meanwhile."""
    (broker,) = cluster.brokers
    back_at_ms = cluster.clock.monotonic_ms() + RESTART_MS
    cluster.network.take_down(broker.address)
    if not is_listed:
        cluster.name_server.brokers.remove(broker)
        # As after half a minute, or a lost connection.
        cluster.clock.advance_ms(30_000)
        back_at_ms += 30_000

    def come_back() -> None:
        if cluster.clock.monotonic_ms() >= back_at_ms:
            cluster.network.bring_up(broker.address)
            cluster.name_server.brokers[:] = [broker]

    on_pause(cluster, come_back)


@proves("outlives-restart-while-planning")
@pytest.mark.parametrize("selection", [{}, PATTERN])
@pytest.mark.parametrize("is_listed", [True, False])
def test_a_query_outlives_the_restart_of_a_broker_while_it_plans(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    selection: dict[str, str | None],
    is_listed: bool,
) -> None:
    reader = new_reader(**selection, leaseMode="exclusive" if is_listed else "none")
    start = again(reader.initialOffset())
    cluster.brokers[0].fill(queues[0], 5)
    restart(cluster, is_listed=is_listed)
    assert ends(reader.latestOffset(start, ALL), "orders") == {"0": 15, "1": 10}


def test_a_broker_that_stays_away_ends_the_query_while_its_leases_hold(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    began_ms = cluster.clock.monotonic_ms()
    cluster.network.take_down(cluster.brokers[0].address)
    with pytest.raises(TransportError, match="broker-a"):
        reader.latestOffset(start, ALL)
    assert 15_000 < cluster.clock.monotonic_ms() - began_ms < 25_000


@proves("outlives-restart-while-planning")
def test_a_lease_that_is_lost_ends_the_wait(cluster: ClusterDouble, new_reader: NewReader) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    cluster.clock.advance_ms(25_000)
    began_ms = cluster.clock.monotonic_ms()
    cluster.network.take_down(cluster.brokers[0].address)
    with pytest.raises(QueueLeaseLost):
        reader.latestOffset(start, ALL)
    assert cluster.clock.monotonic_ms() - began_ms < 10_000


def test_a_refusal_is_not_waited_out(cluster: ClusterDouble, new_reader: NewReader) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    cluster.network.arm(Refuse(ResponseCode.NO_PERMISSION, "not you"), STATS)
    with pytest.raises(BrokerError, match="not you"):
        reader.latestOffset(start, ALL)
    assert cluster.clock.pauses == []


def test_a_query_that_never_saw_its_brokers_says_so_at_once(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    began_ms = cluster.clock.monotonic_ms()
    cluster.network.take_down(cluster.brokers[0].address)
    with pytest.raises(ConnectFailed):
        new_reader().initialOffset()
    assert cluster.clock.monotonic_ms() - began_ms <= 4_000


def test_a_query_that_is_asked_to_end_does_not_wait_for_its_brokers(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    reader = new_reader()
    start = reader.initialOffset()
    cluster.network.take_down(cluster.brokers[0].address)

    def asked_to_end() -> None:
        # What the source's process makes of SIGTERM.
        raise SystemExit(0)

    on_pause(cluster, asked_to_end)
    with pytest.raises(SystemExit):
        reader.latestOffset(start, ALL)
    assert len(cluster.clock.pauses) == 1
