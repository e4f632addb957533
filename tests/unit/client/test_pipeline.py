"""Many questions at once: all sent before the first answer, repeated only where that is safe."""

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client
from rmq_ordered.client.pipeline import Pipeline, Question
from rmq_ordered.errors import (
    AccessDenied,
    BrokerBusy,
    ConnectFailed,
    ConnectionLost,
    RequestTimedOut,
    RmqOrderedError,
)
from rmq_ordered.protocol.answers import ensure_success
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import ClusterDouble, DropReply, HangUp, Refuse
from rmq_ordered.testing.faults import Serve
from rmq_ordered.testing.transport import ScriptedTransport

MAX_OFFSET = RequestCode.GET_MAX_OFFSET
FIELDS = {"topic": "orders", "queueId": "0"}


@pytest.fixture
def cluster() -> ClusterDouble:
    cluster = ClusterDouble(brokers=2)
    for number, broker in enumerate(cluster.brokers):
        (queue,) = broker.add_topic("orders", 1)
        broker.fill(queue, number + 1)
    return cluster


@pytest.fixture
def pipeline(client: Client) -> Pipeline:
    return Pipeline(client.remoting, client.routes, client.clock, 3_000)


def ends(*broker_names: str) -> list[Question[int]]:
    request = RemotingCommand(MAX_OFFSET, ext_fields=FIELDS)

    def parse(response: RemotingCommand, address: str) -> int:
        return ensure_success(response, address, "the end").ext_int("offset")

    return [Question("orders", name, request, "the end", parse) for name in broker_names]


class AnswerWhenAllAreThere:
    """Holds the answers back until as many requests as expected have arrived."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._held: list[tuple[ScriptedTransport, RemotingCommand, Serve]] = []

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        self._held.append((transport, request, serve))
        if len(self._held) == self._expected:
            for held in reversed(self._held):
                Refuse(0, ext_fields={"offset": str(held[1].opaque)}).strike(*held)


def test_answers_come_in_the_order_of_the_questions(pipeline: Pipeline) -> None:
    assert pipeline.read(ends("broker-b", "broker-a", "broker-b")) == [2, 1, 2]
    assert pipeline.read(ends()) == []


def test_every_request_is_under_way_before_the_first_answer_is_waited_for(
    cluster: ClusterDouble, pipeline: Pipeline
) -> None:
    cluster.network.arm(AnswerWhenAllAreThere(5), MAX_OFFSET, times=5)
    assert pipeline.read(ends(*["broker-a"] * 5)) == [1, 2, 3, 4, 5]


def test_only_the_questions_that_failed_are_asked_again(
    cluster: ClusterDouble, pipeline: Pipeline
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_BUSY), MAX_OFFSET)
    assert pipeline.read(ends("broker-a", "broker-b")) == [1, 2]
    asked = [seen.address for seen in cluster.network.seen if seen.command.code == MAX_OFFSET]
    assert asked == ["broker-a:10911", "broker-b:10911", "broker-a:10911"]


def test_a_lost_connection_costs_a_new_route_and_nothing_else(
    cluster: ClusterDouble, pipeline: Pipeline
) -> None:
    cluster.network.arm(HangUp(), MAX_OFFSET)
    assert pipeline.read(ends("broker-a", "broker-b")) == [1, 2]
    assert len(cluster.network.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 2


def test_a_broker_that_is_away_does_not_cost_the_others_their_answers(
    cluster: ClusterDouble, pipeline: Pipeline
) -> None:
    cluster.network.take_down("broker-a:10911")
    before = cluster.clock.monotonic_ms()
    with pytest.raises(ConnectFailed, match=r"broker-a:10911.*the end"):
        pipeline.read(ends("broker-a", "broker-b"))
    assert cluster.clock.monotonic_ms() - before <= 3_000
    asked = [seen.address for seen in cluster.network.seen if seen.command.code == MAX_OFFSET]
    assert asked == ["broker-b:10911"], "asked once, and not again with every attempt"


def test_a_refusal_that_will_not_pass_is_told_before_one_that_may(
    cluster: ClusterDouble, pipeline: Pipeline
) -> None:
    cluster.network.arm(Refuse(ResponseCode.SYSTEM_BUSY), MAX_OFFSET)
    cluster.network.arm(Refuse(ResponseCode.NO_PERMISSION), MAX_OFFSET)
    with pytest.raises(AccessDenied, match="broker-b:10911"):
        pipeline.read(ends("broker-a", "broker-b"))
    assert cluster.clock.pauses == []


def test_no_answer_in_time_ends_the_whole_within_one_deadline(
    cluster: ClusterDouble, pipeline: Pipeline
) -> None:
    cluster.network.arm(DropReply(cluster.clock, 1_600), MAX_OFFSET, times=2)
    before = cluster.clock.monotonic_ms()
    with pytest.raises(RequestTimedOut):
        pipeline.read(ends("broker-a", "broker-a"))
    assert cluster.clock.monotonic_ms() - before == 3_200


@pytest.mark.parametrize(
    ("fault", "error"),
    [(HangUp(is_served=True), ConnectionLost), (Refuse(ResponseCode.SYSTEM_BUSY), BrokerBusy)],
)
def test_what_changes_something_is_sent_once(
    cluster: ClusterDouble,
    pipeline: Pipeline,
    fault: HangUp | Refuse,
    error: type[RmqOrderedError],
) -> None:
    cluster.network.arm(fault, MAX_OFFSET)
    with pytest.raises(error):
        pipeline.write(ends("broker-a", "broker-b"))
    assert len(cluster.network.requests(MAX_OFFSET)) == 2
    pipeline.write(ends("broker-a", "broker-b"))
    assert len(cluster.network.requests(MAX_OFFSET)) == 4


class SlowToRefuse:
    """Connecting to brokers takes its time and fails, as with a machine that is switched off."""

    def __init__(self, cluster: ClusterDouble, takes_ms: int) -> None:
        self._cluster = cluster
        self._takes_ms = takes_ms
        self.tried: list[str] = []

    def connect(self, address: str, /) -> ScriptedTransport:
        if not address.startswith("broker"):
            return self._cluster.network.connect(address)
        self.tried.append(address)
        self._cluster.clock.advance_ms(self._takes_ms)
        raise ConnectFailed(address, "timed out")


@pytest.mark.parametrize("call", ["read", "write"])
def test_a_broker_out_of_reach_is_tried_once_a_round_however_many_ask(
    cluster: ClusterDouble, call: str
) -> None:
    slow = SlowToRefuse(cluster, 2_000)
    with Client(cluster.name_servers, clock=cluster.clock, connect=slow.connect) as client:
        pipeline = Pipeline(client.remoting, client.routes, client.clock, 3_000)
        before = cluster.clock.monotonic_ms()
        with pytest.raises(ConnectFailed, match="broker-a:10911"):
            getattr(pipeline, call)(ends(*["broker-a"] * 16))
    assert cluster.clock.monotonic_ms() - before < 3_000 + 2_000 + 100
    assert len(slow.tried) == (2 if call == "read" else 1)


@proves("unreachable-brokers-one-deadline")
def test_after_the_deadline_no_further_broker_is_tried() -> None:
    cluster = ClusterDouble(brokers=5)
    for broker in cluster.brokers:
        broker.add_topic("orders", 1)
    slow = SlowToRefuse(cluster, 2_000)
    with Client(cluster.name_servers, clock=cluster.clock, connect=slow.connect) as client:
        pipeline = Pipeline(client.remoting, client.routes, client.clock, 3_000)
        before = cluster.clock.monotonic_ms()
        with pytest.raises(ConnectFailed, match="broker-a:10911"):
            pipeline.read(ends(*(broker.name for broker in cluster.brokers)))
    assert cluster.clock.monotonic_ms() - before == 4_000
    assert slow.tried == ["broker-a:10911", "broker-b:10911"]
