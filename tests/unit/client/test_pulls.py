"""The pulls of a read from a broker with odd habits: every offset once, in order, or an error."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, cycle, repeat

import pytest
from tests.support.promises import proves
from tests.unit.client.reading import read

from rmq_ordered.client import Client, Credentials, QueueReader, ReadPlan, pulls
from rmq_ordered.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    OffsetOutOfRange,
    QueueLeaseLost,
    RemoteProtocolError,
    TopicNotFound,
)
from rmq_ordered.model import MessageQueue, QueueLease, QueueRange
from rmq_ordered.net.stream import AnswerStream
from rmq_ordered.protocol.codes import (
    FEATURE_LEASE_EPOCH,
    FEATURE_WIDE_PULL,
    RequestCode,
    ResponseCode,
)
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import (
    AnswerAs,
    BrokerDouble,
    ClusterDouble,
    CutMidFrame,
    DropReply,
    Fault,
    Garble,
    HangUp,
    ManualClock,
    Refuse,
    ScriptedTransport,
)
from rmq_ordered.testing.faults import Serve, reply_to

PULL = RequestCode.PULL_MESSAGE
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture
def cluster() -> ClusterDouble:
    return ClusterDouble(features=frozenset({FEATURE_LEASE_EPOCH}))


@pytest.fixture
def queue(broker: BrokerDouble) -> MessageQueue:
    (queue,) = broker.add_topic("orders", 1)
    broker.fill(queue, 500)
    return queue


def pull_streams(cluster: ClusterDouble) -> list[ScriptedTransport]:
    """The connections that pulls were sent on."""
    return [
        stream
        for stream in cluster.network.transports
        if any(sent.code == PULL for sent in stream.sent)
    ]


@pytest.mark.parametrize(
    "caps",
    [
        lambda: repeat(32),
        lambda: repeat(8),
        lambda: chain(repeat(32, 5), repeat(8)),
        lambda: chain(repeat(8, 5), repeat(32)),
        lambda: cycle([32, 1, 7, 32, 2]),
        lambda: repeat(1),
    ],
    ids=["32", "8", "32 then 8", "8 then 32", "mixed", "1"],
)
@pytest.mark.parametrize(("start", "end"), [(0, 500), (3, 170), (499, 500), (0, 1)])
def test_whatever_a_broker_s_caps_every_offset_comes_once_in_order(
    client: Client,
    broker: BrokerDouble,
    queue: MessageQueue,
    caps: Callable[[], Iterator[int]],
    start: int,
    end: int,
) -> None:
    broker.pull_caps = caps()
    assert read(client, queue, start, end) == list(range(start, end))


def test_an_empty_range_asks_for_nothing(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    assert read(client, queue, 7, 7) == []
    assert cluster.network.seen == []


def test_pulls_are_pipelined_and_never_ask_beyond_the_range(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    rows = QueueReader(client).read(ReadPlan(QueueRange(queue, 0, 100)))
    assert sum(batch.num_rows for batch in rows) == 100
    asked = [
        (r.ext_int("queueOffset"), r.ext_int("maxMsgNums")) for r in cluster.network.requests(PULL)
    ]
    assert asked == [(0, 32), (32, 32), (64, 32), (96, 4)]


def test_pulls_that_may_be_sent_together_go_in_one_send(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    assert read(client, queue, 0, 500) == list(range(500))
    (stream,) = pull_streams(cluster)
    pulls = [command for command in stream.sent if command.code == PULL]
    assert len(pulls) == 16
    assert stream.send_count - (len(stream.sent) - len(pulls)) < len(pulls) / 2


RED = {"expression": "colour = 'red'", "expression_type": "SQL92"}


@pytest.mark.parametrize("filter_scan", [0, 50, 200])
def test_a_filter_may_leave_gaps_and_whole_pulls_without_a_match(
    client: Client, broker: BrokerDouble, queue: MessageQueue, filter_scan: int
) -> None:
    broker.filter_scan = filter_scan
    broker.is_matching = lambda offset: offset % 5 == 0 and not 100 <= offset < 300
    assert read(client, queue, 0, 500, **RED) == [
        offset for offset in range(500) if offset % 5 == 0 and not 100 <= offset < 300
    ]
    assert read(client, queue, 7, 351, **RED) == [*range(10, 100, 5), *range(300, 351, 5)]
    broker.is_matching = lambda offset: False
    assert read(client, queue, 0, 500, **RED) == []


def test_a_filter_that_passes_few_is_read_in_strides_of_what_the_broker_looks_at(
    cluster: ClusterDouble, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    broker.fill(queue, 19_500)
    broker.filter_scan = 800
    broker.is_matching = lambda offset: offset % 100 == 0
    assert read(client, queue, 0, 20_000, **RED) == list(range(0, 20_000, 100))
    # 25 would be enough; the first ones, at guessed places, are wasted.
    assert len(cluster.network.requests(PULL)) < 100


def test_a_sql_expression_goes_to_the_broker_as_it_is(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    assert len(read(client, queue, 0, 500, **RED)) == 500
    pulls = cluster.network.requests(PULL)
    assert {pull.ext("expressionType") for pull in pulls} == {"SQL92"}
    assert {pull.ext("subscription") for pull in pulls} == {"colour = 'red'"}


def test_a_filter_that_the_broker_does_not_understand_ends_the_read_before_it_begins(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(Refuse(23, "no such operator"), RequestCode.CHECK_CLIENT_CONFIG)
    with pytest.raises(BrokerError, match=r"colour = 'red'.*no such operator"):
        read(client, queue, 0, 500, **RED)
    assert cluster.network.requests(PULL) == []


def test_a_filter_is_asked_about_again_after_a_lost_connection_but_only_once_in_all(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(HangUp(), RequestCode.CHECK_CLIENT_CONFIG)
    assert len(read(client, queue, 0, 500, **RED)) == 500
    assert len(cluster.network.requests(RequestCode.CHECK_CLIENT_CONFIG)) == 2
    assert len(read(client, queue, 0, 500)) == 500
    assert len(cluster.network.requests(RequestCode.CHECK_CLIENT_CONFIG)) == 2


def test_a_wide_broker_is_asked_for_more_at_once(
    cluster: ClusterDouble, client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    broker.pull_caps = repeat(10_000)
    offsets = read(client, queue, 0, 500, features=frozenset({FEATURE_WIDE_PULL}))
    assert offsets == list(range(500))
    assert len(cluster.network.requests(PULL)) == 1


@pytest.mark.parametrize(
    ("minimum", "start", "end"), [(10, 5, 50), (0, 490, 501), (0, 500, 600), (0, 700, 800)]
)
def test_a_range_the_broker_does_not_hold_is_an_error_with_what_it_holds(
    client: Client, broker: BrokerDouble, queue: MessageQueue, minimum: int, start: int, end: int
) -> None:
    broker.queues[queue].minimum = minimum
    with pytest.raises(OffsetOutOfRange) as caught:
        read(client, queue, start, end)
    assert (caught.value.minimum, caught.value.maximum) == (minimum, 500)
    assert caught.value.queue == queue


def not_served(code: int) -> Refuse:
    """The broker holds the offset but does not give it: reset, or still being dispatched."""
    fields = {"maxOffset": "500", "minOffset": "0", "nextBeginOffset": "0"}
    return Refuse(code, ext_fields=fields)


@pytest.mark.parametrize("code", [ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_NOT_FOUND])
def test_an_offset_that_exists_but_is_not_served_is_asked_for_again(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, code: int
) -> None:
    cluster.network.arm(not_served(code), PULL, times=3)
    assert read(client, queue, 0, 500) == list(range(500))


def test_an_offset_that_is_never_served_is_an_error_after_half_a_minute(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(not_served(ResponseCode.PULL_OFFSET_MOVED), PULL, times=2_000)
    before = cluster.clock.monotonic_ms()
    with pytest.raises(BrokerBusy, match=r"OFFSET_ILLEGAL.*holds \[0, 500\)"):
        read(client, queue, 100, 132)
    assert 30_000 <= cluster.clock.monotonic_ms() - before < 31_000


@pytest.mark.parametrize(
    "fault",
    [HangUp(), CutMidFrame(), Refuse(ResponseCode.SYSTEM_BUSY), Refuse(ResponseCode.FLOW_CONTROL)],
    ids=repr,
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_fault_on_the_way_costs_time_but_no_row(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, fault: Fault, times: int
) -> None:
    cluster.network.arm(fault, PULL, times=times)
    assert read(client, queue, 0, 500) == list(range(500))
    assert cluster.clock.pauses != []


def test_a_server_that_is_about_to_stop_costs_a_connection_but_no_row(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(Refuse(ResponseCode.GO_AWAY, "please go away"), PULL, after=3)
    assert read(client, queue, 0, 500) == list(range(500))
    assert len(pull_streams(cluster)) == 2


def test_a_read_ends_its_connection(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    assert read(client, queue, 0, 100) == list(range(100))
    assert [stream.is_closed for stream in pull_streams(cluster)] == [True]


def test_a_busy_broker_is_asked_again_on_the_same_connection(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_BUSY), PULL, times=20)
    assert read(client, queue, 0, 500) == list(range(500))
    assert len(pull_streams(cluster)) == 1


def replace_master(cluster: ClusterDouble, broker: BrokerDouble, *, after: int) -> str:
    """After so many pulls another address is the master's; the old one refuses from then on."""
    old, new = broker.address, "broker-a2:10911"
    left = iter(range(after))

    def serve_at_old(request: RemotingCommand) -> RemotingCommand:
        if request.code == PULL and next(left, None) is None:
            broker.address = new
            return RemotingCommand(ResponseCode.SYSTEM_BUSY, remark="system busy")
        return broker.serve(request)

    cluster.network.listen(old, serve_at_old)
    cluster.network.listen(new, broker.serve)
    return new


@pytest.mark.parametrize("after", [0, 4, 12])
def test_a_broker_that_refuses_because_another_is_master_now_is_left_for_that_one(
    cluster: ClusterDouble, client: Client, broker: BrokerDouble, queue: MessageQueue, after: int
) -> None:
    new = replace_master(cluster, broker, after=after)
    assert read(client, queue, 0, 500) == list(range(500))
    streams = pull_streams(cluster)
    assert [stream.address for stream in streams] == ["broker-a:10911", new]
    assert [stream.is_closed for stream in streams] == [True, True]
    assert len(cluster.clock.pauses) == 1


def test_a_route_that_cannot_be_asked_for_after_a_refusal_costs_no_row(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_BUSY), PULL)
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_BUSY), ROUTE, after=1, times=3)
    assert read(client, queue, 0, 500) == list(range(500))
    assert len(cluster.network.requests(ROUTE)) == 5


def test_routes_are_asked_for_after_refusals_and_not_for_every_pull(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    assert read(client, queue, 0, 500) == list(range(500))
    assert len(cluster.network.requests(ROUTE)) == 1
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_BUSY), PULL)
    assert read(client, queue, 0, 500) == list(range(500))
    assert len(cluster.network.requests(ROUTE)) == 2


def test_garbage_in_answer_to_a_send_names_broker_queue_and_offset(
    cluster: ClusterDouble, client: Client, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(stream: AnswerStream, data: bytes, what: str, timeout_ms: int) -> int:
        raise RemoteProtocolError("a frame announces 7 bytes")

    monkeypatch.setattr(AnswerStream, "send", refuse)
    expected = r"broker-a:10911 did not answer a pull of orders@broker-a#0 at 3 .*announces 7"
    with pytest.raises(RemoteProtocolError, match=expected):
        read(client, queue, 3, 5)


def test_a_client_with_credentials_signs_every_pull(
    cluster: ClusterDouble, queue: MessageQueue
) -> None:
    given = Credentials("app", "secret")
    with Client(cluster.name_servers, credentials=given, connect=cluster.network.connect) as client:
        assert read(client, queue, 0, 500) == list(range(500))
    signatures = [pull.ext("Signature") for pull in cluster.network.requests(PULL)]
    assert len(signatures) == len(set(signatures)) == 16


def test_a_pull_that_is_never_answered_is_sent_again(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(DropReply(cluster.clock, 3_000), PULL)
    assert read(client, queue, 0, 500) == list(range(500))


@dataclass(frozen=True)
class PassOver:
    """Of the pulls that come together only the last is answered; the others are waited for."""

    clock: ManualClock

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        if transport.sent[-1].opaque == request.opaque:
            transport.answer(reply_to(request, serve(request)))
        else:
            self.clock.advance_ms(1_000)


def test_a_broker_that_passes_over_pulls_is_asked_one_by_one(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(PassOver(cluster.clock), PULL, times=100)
    assert read(client, queue, 0, 500) == list(range(500))
    assert len(pull_streams(cluster)) == 3


def test_a_broker_that_stays_away_is_an_error_after_half_a_minute(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.take_down("broker-a:10911")
    before = cluster.clock.monotonic_ms()
    with pytest.raises(ConnectFailed):
        read(client, queue, 0, 500)
    assert 30_000 <= cluster.clock.monotonic_ms() - before < 31_000


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Refuse(ResponseCode.NO_PERMISSION, "not allowed"), BrokerError),
        (AnswerAs(opaque=4_711), RemoteProtocolError),
        (Garble(), RemoteProtocolError),
        (Refuse(ResponseCode.SUCCESS), RemoteProtocolError),
    ],
    ids=repr,
)
def test_what_cannot_be_repeated_ends_the_read(
    monkeypatch: pytest.MonkeyPatch,
    cluster: ClusterDouble,
    client: Client,
    queue: MessageQueue,
    fault: Fault,
    error: type[Exception],
) -> None:
    # Further pulls in flight would find the connection closed and rightly try a new one.
    monkeypatch.setattr(pulls, "_STOCK_DEPTH", 1)
    cluster.network.arm(fault, PULL)
    with pytest.raises(error):
        read(client, queue, 0, 500)


def lease(client: Client, queue: MessageQueue) -> QueueLease:
    (answer,) = client.broker.lock("billing", "me#1", [queue])
    return QueueLease("billing", queue, "me#1", answer.epoch)


@proves("stale-lease-refused")
def test_a_read_under_a_lease_carries_its_epoch(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    held = lease(client, queue)
    assert len(read(client, queue, 0, 100, group="billing", lease=held)) == 100
    assert {request.ext("leaseEpoch") for request in cluster.network.requests(PULL)} == {"1"}


@proves("stale-lease-refused")
def test_a_read_under_a_lease_that_was_lost_ends_with_the_broker_s_word(
    client: Client, broker: BrokerDouble, queue: MessageQueue
) -> None:
    held = lease(client, queue)
    broker.locks.unlock("billing", "me#1", queue)
    client.broker.lock("billing", "other#1", [queue])
    with pytest.raises(QueueLeaseLost, match="the epoch is 2"):
        read(client, queue, 0, 100, group="billing", lease=held)


def test_a_queue_that_name_servers_do_not_know_yet_is_found_by_another_topic_s_route(
    cluster: ClusterDouble, broker: BrokerDouble, client: Client, queue: MessageQueue
) -> None:
    (late,) = broker.add_topic("%RETRY%billing_orders", 1)
    broker.fill(late, 40)
    cluster.network.arm(Refuse(ResponseCode.TOPIC_NOT_EXIST), RequestCode.GET_ROUTEINFO_BY_TOPIC)
    client.routes.forget("orders")
    with pytest.raises(TopicNotFound):
        read(client, late, 3, 40)
    assert read(client, late, 3, 40, route_topic="orders") == list(range(3, 40))
    asked = [one.ext("topic") for one in cluster.network.requests(PULL)]
    assert set(asked) == {"%RETRY%billing_orders"}
    assert "orders" in [
        one.ext("topic") for one in cluster.network.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    ]


def test_stale_without_a_lease_is_told_as_it_is(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(Refuse(ResponseCode.STALE_LEASE), PULL)
    with pytest.raises(BrokerError):
        read(client, queue, 0, 100)


def test_an_answer_that_lacks_a_field_names_broker_queue_and_offset(
    cluster: ClusterDouble, client: Client, queue: MessageQueue
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SUCCESS), PULL)
    expected = r"broker-a:10911 answered a pull of orders@broker-a#0 at 3 .*nextBeginOffset"
    with pytest.raises(RemoteProtocolError, match=expected):
        read(client, queue, 3, 5)
