"""What a failed call leaves in flight is settled before anything newer goes to its queue."""

from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from typing import Any

import pytest
from tests.support.promises import proves

from rmq_ordered.client import Client, OrderedProducer, OrderedWriter, SendSettings, lanes
from rmq_ordered.columnar.outgoing import rows_from_messages
from rmq_ordered.errors import (
    AccessDenied,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimedOut,
    SendUnsettled,
)
from rmq_ordered.model import MessageQueue, OutgoingMessage, SendStream
from rmq_ordered.protocol.codes import (
    FEATURE_IDEMPOTENT_SEND,
    FEATURE_STAMPED_REQUEST,
    RequestCode,
    ResponseCode,
)
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import ClusterDouble, DropReply, Fault, Garble, Refuse, ScriptedTransport
from rmq_ordered.testing.faults import Serve, reply_to

SEND = RequestCode.SEND_MESSAGE_V2
FINAL = Refuse(ResponseCode.NO_PERMISSION, "read only")
FIRST, SECOND, THIRD = (OutgoingMessage(text, {}) for text in (b"first", b"second", b"third"))
Q0, Q1 = (MessageQueue("orders", "broker-a", number) for number in range(2))


class Hold:
    """The broker takes its time: what arrived is served when the test says so."""

    def __init__(self) -> None:
        self._held: list[tuple[ScriptedTransport, RemotingCommand, Serve]] = []

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        self._held.append((transport, request, serve))

    def store(self) -> None:
        """Served at last, and answered."""
        self.answer_by(
            lambda transport, request, serve: transport.answer(reply_to(request, serve(request)))
        )

    def answer_by(
        self, strike: Callable[[ScriptedTransport, RemotingCommand, Serve], None]
    ) -> None:
        while self._held:
            strike(*self._held.pop(0))


@pytest.fixture(params=[False, True], ids=["as RocketMQ", "embedded"])
def cluster(request: pytest.FixtureRequest) -> ClusterDouble:
    features = (
        frozenset({FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST})
        if request.param
        else frozenset()
    )
    cluster = ClusterDouble(features=features)
    cluster.brokers[0].add_topic("orders", 2)
    return cluster


@pytest.fixture
def producer(client: Client) -> OrderedProducer:
    return OrderedProducer(client, "orders", send_timeout_ms=5_000)


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture
def while_waiting(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens, one after the other, whenever the client begins to wait for answers."""
    events: list[Callable[[], None]] = []

    def let_time_pass(pending: Collection[Future[Any]], timeout: float, until: str) -> Any:
        if events:
            events.pop(0)()
        return wait(pending, min(timeout, 0.05), until)

    monkeypatch.setattr(lanes, "wait", let_time_pass)
    return events


def stored(cluster: ClusterDouble, queue: MessageQueue = Q0) -> list[bytes]:
    return cluster.brokers[0].queues[queue].bodies


def leave_in_flight(cluster: ClusterDouble, producer: OrderedProducer, fault: Fault) -> None:
    """A call fails because of queue 1 while its request to queue 0 meets the fault."""
    cluster.network.arm(fault, SEND)
    cluster.network.arm(FINAL, SEND)
    with pytest.raises(AccessDenied, match="read only"):
        producer.send_all({Q0: [FIRST], Q1: [FIRST]})


def test_a_request_in_flight_when_another_queue_fails_is_not_overtaken(
    cluster: ClusterDouble,
    producer: OrderedProducer,
    hold: Hold,
    while_waiting: list[Callable[[], None]],
) -> None:
    leave_in_flight(cluster, producer, hold)
    while_waiting.append(hold.store)
    (landed,) = producer.send_all({Q0: [SECOND]})[Q0]
    assert stored(cluster) == [b"first", b"second"]
    assert (landed.first_offset, landed.count) == (1, 1)


def test_other_queues_are_not_held_up_meanwhile(
    cluster: ClusterDouble,
    producer: OrderedProducer,
    hold: Hold,
    while_waiting: list[Callable[[], None]],
) -> None:
    leave_in_flight(cluster, producer, hold)
    producer.send_all({Q1: [SECOND]})
    assert stored(cluster, Q1) == [b"second"]
    seen: list[list[bytes]] = []
    while_waiting += [lambda: seen.append(list(stored(cluster, Q1))), hold.store]
    producer.send_all({Q0: [SECOND], Q1: [THIRD]})
    assert seen == [[b"second", b"third"]]
    assert stored(cluster) == [b"first", b"second"]


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_request_that_nobody_answers_is_waited_out_and_found_out(
    cluster: ClusterDouble,
    producer: OrderedProducer,
    hold: Hold,
    while_waiting: list[Callable[[], None]],
    is_stored: bool,
) -> None:
    leave_in_flight(cluster, producer, hold)
    while_waiting.append(lambda: cluster.clock.advance_ms(3_000))
    pause = cluster.clock.pause_ms

    def store_late(duration_ms: int) -> None:
        if is_stored:
            hold.store()
        pause(duration_ms)

    cluster.clock.pause_ms = store_late  # type: ignore[method-assign]
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == ([b"first"] if is_stored else []) + [b"second"]
    assert 1_000 in cluster.clock.pauses


@pytest.mark.parametrize(
    "fault", [Refuse(ResponseCode.SYSTEM_BUSY), Refuse(ResponseCode.MESSAGE_ILLEGAL)]
)
def test_a_refusal_that_comes_later_settles_it(
    cluster: ClusterDouble,
    producer: OrderedProducer,
    hold: Hold,
    while_waiting: list[Callable[[], None]],
    fault: Refuse,
) -> None:
    leave_in_flight(cluster, producer, hold)
    while_waiting.append(lambda: hold.answer_by(fault.strike))
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"second"]


@proves("order-across-calls")
def test_as_long_as_it_cannot_be_found_out_nothing_newer_is_sent(
    cluster: ClusterDouble, producer: OrderedProducer
) -> None:
    leave_in_flight(cluster, producer, DropReply(cluster.clock, 3_000))
    broker = cluster.brokers[0]
    cluster.network.take_down(broker.address)
    for _ in range(2):
        before = cluster.clock.monotonic_ms()
        with pytest.raises(SendUnsettled, match=r"orders@broker-a#0.*broker-a:10911.*OrderedProd"):
            producer.send_all({Q0: [SECOND]})
        assert 5_000 <= cluster.clock.monotonic_ms() - before < 8_000
    cluster.network.bring_up(broker.address)
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"first", b"second"]


def test_what_cannot_be_read_as_an_answer_leaves_the_outcome_open(
    cluster: ClusterDouble, producer: OrderedProducer, hold: Hold
) -> None:
    cluster.network.arm(hold, SEND)
    cluster.network.arm(Garble(), SEND)
    with pytest.raises(RemoteProtocolError):
        producer.send_all({Q0: [FIRST], Q1: [FIRST]})
    pause = cluster.clock.pause_ms

    def store_late(duration_ms: int) -> None:
        hold.store()
        pause(duration_ms)

    cluster.clock.pause_ms = store_late  # type: ignore[method-assign]
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"first", b"second"]


def test_nonsense_instead_of_an_answer_is_found_out_as_silence_is(
    cluster: ClusterDouble,
    producer: OrderedProducer,
    hold: Hold,
    while_waiting: list[Callable[[], None]],
) -> None:
    leave_in_flight(cluster, producer, hold)

    def store_and_garble(
        transport: ScriptedTransport, request: RemotingCommand, serve: Serve
    ) -> None:
        serve(request)
        Garble().strike(transport, request, serve)

    while_waiting.append(lambda: hold.answer_by(store_and_garble))
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"first", b"second"]


@pytest.mark.parametrize("fault", [None, Refuse(ResponseCode.MESSAGE_ILLEGAL)], ids=repr)
def test_an_answer_that_comes_after_its_deadline_settles_it(
    cluster: ClusterDouble,
    producer: OrderedProducer,
    hold: Hold,
    while_waiting: list[Callable[[], None]],
    fault: Refuse | None,
) -> None:
    leave_in_flight(cluster, producer, hold)
    while_waiting.append(lambda: cluster.clock.advance_ms(3_000))
    pause = cluster.clock.pause_ms

    def answer_late(duration_ms: int) -> None:
        seen = producer._open_sends.before(Q0)
        assert seen is not None
        late = seen._late
        assert late is not None
        hold.store() if fault is None else hold.answer_by(fault.strike)
        late[0].future.exception(5)  # the answer has come
        pause(duration_ms)

    cluster.clock.pause_ms = answer_late  # type: ignore[method-assign]
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == ([b"first"] if fault is None else []) + [b"second"]
    assert cluster.network.requests(RequestCode.PULL_MESSAGE) == []


class Interrupt:
    """Somebody presses Ctrl-C while a request is sent; the broker gets it all the same."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        self._hold.strike(transport, request, serve)
        raise KeyboardInterrupt


def test_an_interrupted_send_is_found_out_before_the_next(
    cluster: ClusterDouble, producer: OrderedProducer, hold: Hold
) -> None:
    cluster.network.arm(Interrupt(hold), SEND)
    with pytest.raises(KeyboardInterrupt):
        producer.send_all({Q0: [FIRST]})
    pause = cluster.clock.pause_ms

    def store_late(duration_ms: int) -> None:
        hold.store()
        pause(duration_ms)

    cluster.clock.pause_ms = store_late  # type: ignore[method-assign]
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"first", b"second"]


def test_without_idempotence_only_the_answer_is_waited_for(
    cluster: ClusterDouble,
    client: Client,
    hold: Hold,
    while_waiting: list[Callable[[], None]],
) -> None:
    producer = OrderedProducer(client, "orders", settings=SendSettings(idempotent=False))
    leave_in_flight(cluster, producer, hold)
    while_waiting.append(hold.store)
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"first", b"second"]
    leave_in_flight(cluster, producer, hold)
    while_waiting.append(lambda: cluster.clock.advance_ms(3_000))
    producer.send_all({Q0: [THIRD]})
    assert stored(cluster) == [b"first", b"second", b"third"]
    assert cluster.network.requests(RequestCode.PULL_MESSAGE) == []


def left_behind(producer: OrderedProducer, stream: SendStream | None = None) -> OrderedWriter:
    """A writer that was left with a request in flight."""
    with producer.writer(stream) as writer:
        writer.write_rows(Q0, rows_from_messages([FIRST]))
        writer.lane(Q0).advance()
    return writer


def test_what_writers_left_behind_is_settled_one_after_the_other(
    cluster: ClusterDouble,
    producer: OrderedProducer,
    while_waiting: list[Callable[[], None]],
) -> None:
    one, other = Hold(), Hold()
    for hold in (one, other):
        cluster.network.arm(hold, SEND)
    first = producer.writer()
    first.write_rows(Q0, rows_from_messages([FIRST]))
    first.lane(Q0).advance()
    writer = left_behind(producer)
    first.abandon()
    first.abandon()
    while_waiting += [other.store, one.store]
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"first", b"first", b"second"]
    with pytest.raises(LocalProtocolError, match="has given up its rows: open a new one"):
        writer.write_rows(Q0, rows_from_messages([FIRST]))


def test_a_stamped_request_that_is_lost_is_found_out_and_never_there_twice(
    cluster: ClusterDouble, producer: OrderedProducer, hold: Hold
) -> None:
    is_embedded = bool(cluster.brokers[0].features)
    # A stamp for the whole request comes with batches only, be they of one message.
    cluster.network.arm(hold, RequestCode.SEND_BATCH_MESSAGE if is_embedded else SEND)
    left_behind(producer, SendStream("sink", 1, 0))
    cluster.clock.advance_ms(3_000)
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == ([b"first", b"second"] if is_embedded else [b"second"])
    if is_embedded:
        hold.store()
        assert stored(cluster) == [b"first", b"second"], "the broker knows it"


def test_a_request_that_timed_out_in_the_end_is_waited_out(
    cluster: ClusterDouble, client: Client, hold: Hold, while_waiting: list[Callable[[], None]]
) -> None:
    producer = OrderedProducer(client, "orders", send_timeout_ms=1)
    cluster.network.arm(hold, SEND)
    while_waiting.append(lambda: cluster.clock.advance_ms(3_000))
    cluster.network.arm(DropReply(cluster.clock, 3_000), RequestCode.GET_MAX_OFFSET, after=1)
    with pytest.raises(RequestTimedOut):
        producer.send_all({Q0: [FIRST]})
    hold.store()
    producer.send_all({Q0: [SECOND]})
    assert stored(cluster) == [b"first", b"second"]
