"""Sends and reads, on both brokers: what goes in comes out, in order, where it was promised."""

import struct
import zlib

import pyarrow as pa
import pytest
from tests.contract.divergences import diverges
from tests.support.brokers import Broker
from tests.support.folded import folded_queue
from tests.support.promises import proves
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.columnar import DecodeOptions
from rmq_ordered.errors import BrokerError, OffsetOutOfRange
from rmq_ordered.model import MessageQueue, QueueRange
from rmq_ordered.protocol.codes import FEATURE_WIDE_PULL, ResponseCode
from rmq_ordered.protocol.message import INNER_BATCH_FLAGS, decode_messages
from rmq_ordered.protocol.pulls import PullLimits, PullStatus, parse_pull, pull_request
from rmq_ordered.protocol.sends import send_request


def read_all(client: Client, queue: MessageQueue, end: int, start: int = 0) -> pa.Table:
    # RocketMQ acknowledges a send before its consume queue shows the message.
    wait_until(lambda: client.broker.max_offset(queue) >= end, f"{queue} reaches {end}", 10)
    return read_now(client, queue, end, start)


def read_now(
    client: Client, queue: MessageQueue, end: int, start: int = 0, **filters: str
) -> pa.Table:
    features = client.routes.features(queue.topic)
    plan = ReadPlan(QueueRange(queue, start, end), features=features, **filters)
    batches = list(QueueReader(client).read(plan))
    return pa.Table.from_batches(batches, DecodeOptions().schema)


def test_a_message_comes_back_with_every_field(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("fields", 1)
    producer = OrderedProducer(client, topic)
    before_ms = client.clock.wall_ms()
    result = producer.send("order-😀", "订单".encode(), tags="TagA", keys="k1 k2")
    assert (result.queue.queue_id, result.first_offset) == (0, 0)
    (row,) = read_all(client, producer.queues[0], 1).to_pylist()
    assert row["key"] == "order-😀"
    assert row["value"] == "订单".encode()
    assert (row["topic"], row["queue"], row["offset"]) == (topic, 0, 0)
    assert (row["tags"], row["index_keys"], row["reconsume_times"]) == ("TagA", "k1 k2", 0)
    assert len(row["message_id"]) == 32
    assert row["broker"] == producer.queues[0].broker_name
    for column in ("timestamp", "born_timestamp"):
        assert abs(row[column].timestamp() * 1000 - before_ms) < 60_000


def test_offsets_of_a_queue_count_up_from_zero(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("counting", 1))
    offsets = [producer.send("k", str(number).encode()).first_offset for number in range(5)]
    assert offsets == [0, 1, 2, 3, 4]


def test_a_batch_lands_in_one_piece_in_its_order(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("batched", 1))
    queue = producer.queues[0]
    bodies = [f"message {number}".encode() for number in range(500)]
    results = producer.send_all({queue: [producer.message(body, key="k") for body in bodies]})
    assert sum(result.count for result in results[queue]) == 500
    assert read_all(client, queue, 500).column("value").to_pylist() == bodies


def test_many_queues_are_written_side_by_side_each_in_order(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("wide", 4))
    keys = [f"order-{number}" for number in range(100)]
    routed: dict[MessageQueue, list] = {queue: [] for queue in producer.queues}
    for sequence in range(20):
        for key in keys:
            routed[producer.queue_of(key)].append(producer.message(b"%d" % sequence, key=key))
    producer.send_all(routed)
    seen: dict[str, list[int]] = {key: [] for key in keys}
    for queue in producer.queues:
        table = read_all(client, queue, len(routed[queue]))
        for key, value in zip(
            table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True
        ):
            seen[key].append(int(value))
    assert all(sequences == list(range(20)) for sequences in seen.values())


@proves("same-range-same-rows")
def test_any_part_of_a_queue_can_be_read_again_and_is_the_same(
    broker: Broker, client: Client
) -> None:
    producer = OrderedProducer(client, broker.create_topic("replayed", 1))
    queue = producer.queues[0]
    producer.send_all({queue: [producer.message(b"%d" % n, key="k") for n in range(300)]})
    whole = read_all(client, queue, 300)
    again = read_all(client, queue, 300)
    part = read_all(client, queue, 250, start=75)
    assert whole.equals(again)
    assert whole.slice(75, 175).to_pylist() == part.to_pylist()


def test_large_and_empty_bodies_survive(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("sizes", 1))
    queue = producer.queues[0]
    bodies = [b"x" * 3_000_000, b"", b"y", b"z" * 700_000]
    for body in bodies:
        producer.send("k", body)
    empty = producer.message(b"", key="k")
    producer.send_all({queue: [empty, producer.message(b"!", key="k"), empty]})
    expected = [*bodies, b"", b"!", b""]
    assert read_all(client, queue, len(expected)).column("value").to_pylist() == expected


def test_a_compressed_body_is_passed_through_and_decompressed_by_the_reader(
    broker: Broker, client: Client
) -> None:
    producer = OrderedProducer(client, broker.create_topic("compressed", 1))
    queue = producer.queues[0]
    request = send_request(
        queue, zlib.compress(b"abc" * 3_000), {}, producer_group="p", born_ms=1, sys_flag=0x301
    )
    answer = client.broker.start(queue, request, "a send", 3_000).result()
    assert answer.code == ResponseCode.SUCCESS
    assert read_all(client, queue, 1).column("value").to_pylist() == [b"abc" * 3_000]


def test_a_message_over_the_limit_is_refused_and_the_queue_goes_on(
    broker: Broker, client: Client
) -> None:
    producer = OrderedProducer(client, broker.create_topic("limit", 1))
    queue = producer.queues[0]
    request = send_request(queue, b"x" * 5_000_000, {}, producer_group="p", born_ms=1)
    answer = client.broker.start(queue, request, "a send", 3_000).result()
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert producer.send("k", b"fits").first_offset == 0


def test_a_queue_that_does_not_exist_is_refused(broker: Broker, client: Client) -> None:
    topic = broker.create_topic("narrow", 1)
    real = client.routes.readable(topic)[0]
    queue = MessageQueue(topic, real.broker_name, 7)
    request = send_request(queue, b"x", {}, producer_group="p", born_ms=1)
    assert client.broker.start(queue, request, "a send", 3_000).result().code == 29
    with pytest.raises(BrokerError, match="29"):
        read_now(client, queue, 1)


@pytest.mark.parametrize(
    ("asked", "status", "next_offset"),
    [
        (3, PullStatus.NO_NEW_MESSAGE, 3),
        (9, PullStatus.OFFSET_ILLEGAL, 3),
        (0, PullStatus.FOUND, 3),
        (2, PullStatus.FOUND, 3),
    ],
)
def test_a_pull_says_where_to_go_on(
    broker: Broker, client: Client, asked: int, status: PullStatus, next_offset: int
) -> None:
    producer = OrderedProducer(client, broker.create_topic("statuses", 1))
    queue = producer.queues[0]
    producer.send_all({queue: [producer.message(b"m") for _ in range(3)]})
    read_all(client, queue, 3)
    request = pull_request(queue, asked, group="g", limits=PullLimits())
    result = parse_pull(client.broker.start(queue, request, "a pull", 3_000).result())
    assert (result.status, result.next_offset) == (status, next_offset)
    assert (result.minimum, result.maximum) == (0, 3)


def test_a_pull_of_an_empty_queue_finds_nothing(broker: Broker, client: Client) -> None:
    queue = client.routes.readable(broker.create_topic("nothing", 1))[0]
    request = pull_request(queue, 0, group="g", limits=PullLimits())
    result = parse_pull(client.broker.start(queue, request, "a pull", 3_000).result())
    assert (result.status, result.next_offset) == (PullStatus.NO_NEW_MESSAGE, 0)


def test_a_long_poll_wakes_when_a_message_arrives(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("awaited", 1))
    queue = producer.queues[0]
    request = pull_request(queue, 0, group="g", limits=PullLimits(), suspend_ms=15_000)
    waiting = client.broker.start(queue, request, "a long poll", 25_000)
    producer.send("k", b"here")
    result = parse_pull(waiting.result())
    assert result.status is PullStatus.FOUND
    (message,) = decode_messages(result.body, broker_name=queue.broker_name)
    assert message.body == b"here"


def test_a_long_poll_ends_empty_when_nothing_comes(broker: Broker, client: Client) -> None:
    queue = client.routes.readable(broker.create_topic("silent", 1))[0]
    request = pull_request(queue, 0, group="g", limits=PullLimits(), suspend_ms=500)
    result = parse_pull(client.broker.start(queue, request, "a long poll", 15_000).result())
    assert result.status is PullStatus.NO_NEW_MESSAGE


def test_tags_filter_on_the_broker_and_leave_gaps(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("tagged", 1))
    queue = producer.queues[0]
    messages = [
        producer.message(b"%d" % n, key="k", tags="even" if n % 2 == 0 else "odd")
        for n in range(20)
    ]
    producer.send_all({queue: messages})
    read_all(client, queue, 20)
    request = pull_request(queue, 0, group="g", limits=PullLimits(), expression="even || none")
    result = parse_pull(client.broker.start(queue, request, "a pull", 3_000).result())
    found = list(decode_messages(result.body, broker_name=queue.broker_name))
    assert [message.queue_offset for message in found] == list(range(0, 20, 2))
    assert result.next_offset in (19, 20)


@pytest.fixture
def coloured(broker: Broker, client: Client) -> MessageQueue:
    """A queue of 3,000: every third is tagged, every hundredth rare, one in 1,500 has a price."""
    producer = OrderedProducer(client, broker.create_topic("coloured", 1))
    queue = producer.queues[0]
    messages = [
        producer.message(
            b"%d" % number,
            key="k",
            tags="rare" if number % 100 == 0 else "third" if number % 3 == 0 else None,
            properties={"price": str(number)} if number % 1_500 == 7 else {"colour": "red"},
        )
        for number in range(3_000)
    ]
    producer.send_all({queue: messages})
    wait_until(lambda: client.broker.max_offset(queue) >= 3_000, f"{queue} is all there", 10)
    return queue


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"expression": "rare"}, range(0, 3_000, 100)),
        ({"expression": "third || rare"}, [n for n in range(3_000) if n % 3 == 0 or n % 100 == 0]),
        ({"expression": "absent"}, []),
        ({"expression": "price > 10", "expression_type": "SQL92"}, [1_507]),
        ({"expression": "colour = 'blue'", "expression_type": "SQL92"}, []),
        (
            {"expression": "colour = 'red' AND TAGS = 'rare'", "expression_type": "SQL92"},
            range(0, 3_000, 100),
        ),
        (
            {"expression": "colour = 'red'", "expression_type": "SQL92"},
            [n for n in range(3_000) if n % 1_500 != 7],
        ),
    ],
    ids=["few", "many", "none", "one by price", "none by colour", "property and tag", "almost all"],
)
@pytest.mark.parametrize(("start", "end"), [(0, 3_000), (301, 2_501)])
def test_a_filtered_read_gives_what_matches_in_its_range_in_order(
    client: Client,
    coloured: MessageQueue,
    filters: dict[str, str],
    expected: list[int],
    start: int,
    end: int,
) -> None:
    table = read_now(client, coloured, end, start, **filters)
    assert table.column("offset").to_pylist() == [n for n in expected if start <= n < end]
    assert [int(v) for v in table.column("value").to_pylist()] == table.column("offset").to_pylist()


def test_tags_with_one_hash_are_told_apart(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("collision", 1))
    queue = producer.queues[0]
    # Java gives both strings the hash 2112, which is all that the broker compares.
    tags = ["Aa", "BB"] * 20
    producer.send_all({queue: [producer.message(b"x", key="k", tags=tag) for tag in tags]})
    read_all(client, queue, 40)
    table = read_now(client, queue, 40, expression="BB")
    assert table.column("tags").to_pylist() == ["BB"] * 20
    assert table.column("offset").to_pylist() == list(range(1, 40, 2))


def test_an_expression_that_is_no_sql_is_refused(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("nonsense", 1))
    queue = producer.queues[0]
    producer.send("k", b"x")
    read_all(client, queue, 1)
    with pytest.raises(BrokerError, match=r"\b23\b"):
        read_now(client, queue, 1, expression="a = AND", expression_type="SQL92")


def test_a_batch_kept_as_one_record_comes_back_as_its_messages(
    broker: Broker, client: Client
) -> None:
    queue = folded_queue(broker, client, 500)
    table = read_all(client, queue, 500)
    request = pull_request(queue, 0, group="g", limits=PullLimits())
    pulled = parse_pull(client.broker.start(queue, request, "a pull", 15_000).result())
    (sys_flag,) = struct.unpack_from(">i", pulled.body, 36)
    assert (sys_flag & INNER_BATCH_FLAGS != 0) == (broker.kind == "rocketmq")
    assert table.column("offset").to_pylist() == list(range(500))
    assert table.column("value").to_pylist() == [b"%d" % n for n in range(500)]
    assert table.column("key").to_pylist() == [f"k{n}" for n in range(500)]
    assert table.column("message_id").to_pylist() == [f"id-{n}" for n in range(500)]
    part = read_all(client, queue, 333, start=77)
    assert part.to_pylist() == table.slice(77, 256).to_pylist()


def test_reading_beyond_the_end_fails_with_the_range_that_is_there(
    broker: Broker, client: Client
) -> None:
    producer = OrderedProducer(client, broker.create_topic("short", 1))
    producer.send("k", b"only")
    read_all(client, producer.queues[0], 1)
    with pytest.raises(OffsetOutOfRange, match=r"holds \[0, 1\)"):
        read_now(client, producer.queues[0], 10)


def test_properties_are_there_when_asked_for(broker: Broker, client: Client) -> None:
    producer = OrderedProducer(client, broker.create_topic("properties", 1))
    queue = producer.queues[0]
    producer.send_all({queue: [producer.message(b"x", key="k", properties={"colour": "红"})]})
    read_all(client, queue, 1)
    reader = QueueReader(client, DecodeOptions(include_properties=True))
    (batch,) = reader.read(ReadPlan(QueueRange(queue, 0, 1)))
    properties = dict(batch.column("properties").to_pylist()[0])
    assert properties["colour"] == "红"
    assert properties["__SHARDINGKEY"] == "k"
    assert properties["UNIQ_KEY"] == batch.column("message_id").to_pylist()[0]


def test_a_topic_is_made_on_the_first_send_where_that_is_switched_on(
    broker: Broker, client: Client
) -> None:
    template = client.routes.writable("TBW102")[0]
    topic = broker.unique("automatic")
    request = send_request(
        MessageQueue(topic, template.broker_name, 0), b"first", {}, producer_group="p", born_ms=1
    )
    answer = client.broker.start(template, request, "a send", 3_000).result()
    assert answer.code == ResponseCode.SUCCESS
    assert answer.ext_int("queueOffset") == 0


def test_a_pull_brings_as_much_as_was_asked_for(
    request: pytest.FixtureRequest, broker: Broker, client: Client
) -> None:
    diverges(request, broker, "wide pulls")
    producer = OrderedProducer(client, broker.create_topic("much", 1))
    queue = producer.queues[0]
    producer.send_all({queue: [producer.message(b"m") for _ in range(1_000)]})
    assert FEATURE_WIDE_PULL in client.routes.features(queue.topic)
    wanted = pull_request(queue, 0, group="g", limits=PullLimits(1_000, 4 * 1024 * 1024))
    result = parse_pull(client.broker.start(queue, wanted, "a pull", 3_000).result())
    assert result.next_offset == 1_000


def test_the_offset_of_a_time_is_the_first_message_stored_at_or_after_it(
    broker: Broker, client: Client
) -> None:
    producer = OrderedProducer(client, broker.create_topic("timed", 1))
    queue = producer.queues[0]
    for number in range(3):
        producer.send("k", b"%d" % number)
    stored = [
        int(row["timestamp"].timestamp() * 1000) for row in read_all(client, queue, 3).to_pylist()
    ]
    assert client.broker.offset_at(queue, 0) == 0
    assert client.broker.offset_at(queue, stored[1]) == stored.index(stored[1])
    assert client.broker.offset_at(queue, stored[2] + 60_000) == 3
    assert (client.broker.min_offset(queue), client.broker.max_offset(queue)) == (0, 3)
