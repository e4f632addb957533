"""Any faults, any retries, any replays: per key order, nothing lost, nothing twice.

PerKeyOrder: the rows of each queue are what was written, in the order it was written.
NothingTwice: no row is stored twice, whatever was unanswered or written again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property.faults import SEND_FAULTS, SENDS, LateAppend, arm
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.client import OnDivergence, OrderedProducer, OrderedWriter, SendSettings
from rmq_ordered.errors import ReplayDiverged, RmqOrderedError
from rmq_ordered.model import MessageQueue, OutgoingMessage, SendStream
from rmq_ordered.protocol.codes import FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST, RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing import ClusterDouble, ScriptedTransport
from rmq_ordered.testing.faults import Serve

SEARCH = settings(max_examples=examples(60), deadline=None)
EMBEDDED = frozenset({FEATURE_IDEMPOTENT_SEND, FEATURE_STAMPED_REQUEST})
FEATURES = st.sampled_from([frozenset(), EMBEDDED])
FAULT_LISTS = st.lists(SEND_FAULTS, max_size=10)
ROWS = st.lists(st.integers(0, 3), max_size=30) | st.just([1] * 12)
STREAM = SendStream("sink", 3, 1)
SETTINGS = SendSettings(send_timeout_ms=600_000, batch_rows=3)


class Crash(Exception):
    """The writer's process dies."""


class CrashOnArrival:
    """The process dies when its request has arrived, before or after it was served."""

    def __init__(self, *, is_served: bool) -> None:
        self.is_served = is_served

    def strike(self, transport: object, request: object, serve: object) -> None:
        if self.is_served:
            serve(request)  # type: ignore[operator]
        raise Crash


class CrashInFlight(LateAppend):
    """The process dies; its request arrives while the next one is at work."""

    def strike(self, transport: ScriptedTransport, request: RemotingCommand, serve: Serve) -> None:
        super().strike(transport, request, serve)
        raise Crash


def arm_sends(cluster: ClusterDouble, names: list[str | None]) -> None:
    for code in SENDS:
        arm(cluster, names, code)


def table(keys: list[int], salt: str = "") -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([f"key-{key}" for key in keys], pa.string()),
            "value": pa.array([f"{n}{salt}".encode() for n in range(len(keys))], pa.binary()),
        }
    )


def expected(producer: OrderedProducer, keys: list[int], salt: str = "") -> dict[str, list[bytes]]:
    placed: dict[str, list[bytes]] = {str(queue): [] for queue in producer.queues}
    for number, key in enumerate(keys):
        placed[str(producer.queue_of(f"key-{key}"))].append(f"{number}{salt}".encode())
    return placed


def stored(cluster: ClusterDouble) -> dict[str, list[bytes]]:
    return {
        str(queue): [m.body for m in data.messages if m.properties.get("noise") is None]
        for queue, data in cluster.brokers[0].queues.items()
    }


@contextmanager
def opened(
    features: frozenset[str], sending: SendSettings = SETTINGS
) -> Iterator[tuple[ClusterDouble, OrderedProducer]]:
    cluster = ClusterDouble(features=features)
    cluster.brokers[0].add_topic("orders", 3)
    with cluster.client() as client:
        yield cluster, OrderedProducer(client, "orders", settings=sending)


def write(writer: OrderedWriter, rows: pa.RecordBatch, step: int) -> None:
    for start in range(0, rows.num_rows, step):
        writer.write(rows.slice(start, step))


@proves("refused-send-repeated-in-place")
@SEARCH
@given(
    features=FEATURES, keys=ROWS, faults=FAULT_LISTS, step=st.integers(1, 9), stamped=st.booleans()
)
def test_rows_land_once_and_in_order_whatever_goes_wrong(
    features: frozenset[str], keys: list[int], faults: list[str | None], step: int, stamped: bool
) -> None:
    with opened(features) as (cluster, producer):
        arm_sends(cluster, faults)
        with producer.writer(STREAM if stamped else None) as writer:
            write(writer, table(keys), step)
            receipts = writer.finish()
        assert stored(cluster) == expected(producer, keys)
        for queue, receipt in receipts.items():
            bodies = cluster.brokers[0].queues[queue].bodies
            assert (receipt.count, receipt.duplicates) == (len(bodies), 0)
            assert receipt.last_offset in (len(bodies) - 1, None)
            assert receipt.first_offset in (0, None)


@proves("order-across-calls")
@SEARCH
@example(frozenset(), [{0: 1, 1: 1}, {0: 1}], ["late", "no"])
@given(
    features=FEATURES,
    calls=st.lists(
        st.dictionaries(st.integers(0, 2), st.integers(1, 4), max_size=3), min_size=1, max_size=6
    ),
    faults=st.lists(SEND_FAULTS | st.just("no"), max_size=10),
)
def test_whatever_calls_fail_nothing_is_overtaken_or_there_twice(
    features: frozenset[str], calls: list[dict[int, int]], faults: list[str | None]
) -> None:
    with opened(features) as (cluster, producer):
        arm_sends(cluster, faults)
        acknowledged: dict[str, set[bytes]] = {str(queue): set() for queue in producer.queues}
        number = 0
        for call in calls:
            batches: dict[MessageQueue, list[OutgoingMessage]] = {}
            for index, count in call.items():
                bodies = [b"%03d" % (number + step) for step in range(count)]
                batches[producer.queues[index]] = [producer.message(body) for body in bodies]
                number += count
            try:
                producer.send_all(batches)
            except RmqOrderedError:
                continue
            for queue, messages in batches.items():
                acknowledged[str(queue)] |= {message.body for message in messages}
        for name, bodies in stored(cluster).items():
            assert bodies == sorted(set(bodies))
            assert acknowledged[name] <= set(bodies)


@proves("stream-adds-missing-only")
@SEARCH
@example(frozenset(), [1] * 12, [(1, True, 2)], [], 1)
@given(
    features=FEATURES,
    keys=ROWS,
    crashes=st.lists(st.tuples(st.integers(0, 8), st.booleans(), st.integers(1, 5)), max_size=3),
    faults=FAULT_LISTS,
    noise=st.integers(0, 2),
)
def test_a_task_that_dies_again_and_again_writes_its_rows_once(
    features: frozenset[str],
    keys: list[int],
    crashes: list[tuple[int, bool, int]],
    faults: list[str | None],
    noise: int,
) -> None:
    with opened(features) as (cluster, begun):
        producer = begun
        broker = cluster.brokers[0]
        floors = dict.fromkeys(producer.queues, 0)
        for after, is_served, batch_rows in crashes:
            # Another size each time: what landed ends in the middle of a request.
            producer.settings = replace(SETTINGS, batch_rows=batch_rows)
            for code in SENDS:
                cluster.network.arm(CrashOnArrival(is_served=is_served), code, after=after)
            attempt(producer, keys, floors)
            cluster.network.disarm()
            producer = reborn(producer)
            for queue in producer.queues:
                for _ in range(noise):
                    broker.queues[queue].append(OutgoingMessage(b"", {"noise": "1"}), 0)
        producer.settings = SETTINGS
        arm_sends(cluster, faults)
        with producer.writer(STREAM, floors=floors) as writer:
            writer.write(table(keys))
            receipts = writer.finish()
        assert stored(cluster) == expected(producer, keys)
        written = sum(receipt.count + receipt.duplicates for receipt in receipts.values())
        assert written == len(keys)


@SEARCH
@given(
    keys=ROWS,
    crashes=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=3),
    faults=FAULT_LISTS,
)
def test_requests_of_a_dead_task_add_nothing_to_what_its_next_attempt_writes(
    keys: list[int], crashes: list[tuple[int, int]], faults: list[str | None]
) -> None:
    # The broker that recognises repeats; what can happen on the other is in docs/guarantees.md.
    with opened(EMBEDDED) as (cluster, begun):
        producer = begun
        for after, batch_rows in crashes:
            producer.settings = replace(SETTINGS, batch_rows=batch_rows)
            for code in SENDS:
                cluster.network.arm(CrashInFlight(cluster), code, after=after)
            attempt(producer, keys, {})
            cluster.network.disarm()
            producer = reborn(producer)
        producer.settings = SETTINGS
        arm_sends(cluster, faults)
        with producer.writer(STREAM) as writer:
            writer.write(table(keys))
            writer.finish()
        cluster.clock.advance_ms(60_000)
        with cluster.client() as client:
            client.broker.max_offset(producer.queues[0])  # whatever is late comes now
        assert stored(cluster) == expected(producer, keys)


def reborn(producer: OrderedProducer) -> OrderedProducer:
    """A new process, which knows nothing of what the old one has in flight."""
    return OrderedProducer(producer._client, "orders", settings=producer.settings)


def attempt(producer: OrderedProducer, keys: list[int], floors: dict[MessageQueue, int]) -> None:
    try:
        with producer.writer(STREAM, floors=floors) as writer:
            writer.write(table(keys))
            writer.finish()
    except (Crash, RmqOrderedError):
        return


@proves("stream-adds-missing-only")
@SEARCH
@given(features=FEATURES, keys=ROWS, other=ROWS, landed=st.integers(0, 8))
def test_a_replay_with_other_rows_never_passes_for_the_first_attempt(
    features: frozenset[str], keys: list[int], other: list[int], landed: int
) -> None:
    with opened(features) as (cluster, begun):
        producer = begun
        floors = dict.fromkeys(producer.queues, 0)
        for code in SENDS:
            cluster.network.arm(CrashOnArrival(is_served=True), code, after=landed)
        attempt(producer, keys, floors)
        cluster.network.disarm()
        producer = reborn(producer)
        before = stored(cluster)
        replay = expected(producer, other, "!")
        try:
            with producer.writer(STREAM, floors=floors) as writer:
                writer.write(table(other, "!"))
                writer.finish()
        except ReplayDiverged:
            assert any(before.values())
        else:
            touched = [queue for queue, rows in replay.items() if rows]
            assert all(not before[queue] for queue in touched)
            assert all(stored(cluster)[queue] == replay[queue] for queue in touched)


@SEARCH
@given(features=FEATURES, keys=ROWS, other=ROWS, faults=FAULT_LISTS)
def test_with_resend_a_diverged_replay_is_written_once_as_a_whole(
    features: frozenset[str], keys: list[int], other: list[int], faults: list[str | None]
) -> None:
    sending = SendSettings(send_timeout_ms=600_000, batch_rows=3, on_divergence=OnDivergence.RESEND)
    with opened(features, sending) as (cluster, producer):
        floors = dict.fromkeys(producer.queues, 0)
        attempt(producer, keys, floors)
        before = stored(cluster)
        arm_sends(cluster, faults)
        for _ in range(2):
            with producer.writer(STREAM, floors=floors) as writer:
                writer.write(table(other, "!"))
                writer.finish()
        replay = expected(producer, other, "!")
        for queue, rows in stored(cluster).items():
            assert rows == before[queue] + replay[queue]


def test_the_crash_is_what_it_says() -> None:
    with opened(EMBEDDED) as (cluster, producer), producer.writer(STREAM) as writer:
        cluster.network.arm(CrashOnArrival(is_served=True), RequestCode.SEND_BATCH_MESSAGE)
        writer.write(table([1]))
        with pytest.raises(Crash):
            writer.finish()
        assert sum(len(rows) for rows in stored(cluster).values()) == 1
