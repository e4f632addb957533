"""The sink and brokers as they are: two, full, read-only, wary, with other queues than before.

What could not be sent fails the batch with a key and the reason; what had been sent is recognised
when the batch is written again.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support import frames
from tests.support.brokers import Broker, unique_name
from tests.support.missing import running
from tests.support.promises import proves
from tests.support.rocketmq import RocketMq
from tests.support.secured import (
    ADMIN,
    CLERK,
    OPEN_TOPIC,
    TOPIC,
    Secured,
    secured_broker,
)
from tests.support.waiting import wait_until

from rmq_ordered.client import Client, QueueReader, ReadPlan
from rmq_ordered.embedded import EmbeddedBroker
from rmq_ordered.model import MessageQueue, QueueRange
from rmq_ordered.ordering.selector import select_by_hash
from rmq_ordered.protocol.acl import Credentials

PAIR = ("broker-a", "broker-b")
KEYS, EACH = 12, 10
READ_ONLY, READ_AND_WRITE = "4", "6"
TIMEOUT_S = 30.0
Numbers = dict[str, list[int]]


@pytest.fixture(scope="module")
def pair() -> Iterator[RocketMq]:
    """One name server and two masters in one cluster; a test that changes one changes it back."""
    yield from running(RocketMq(brokers=PAIR))


@pytest.fixture
def pair_client(pair: RocketMq) -> Iterator[Client]:
    with Client(pair.name_server, request_timeout_ms=15_000) as connected:
        yield connected


@pytest.fixture
def topic(pair_client: Client) -> str:
    """A topic with two queues on either broker."""
    name = unique_name("orders")
    pair_client.broker.create_topic(name, 2)
    await_queues(pair_client, name, 4)
    return name


@pytest.fixture(params=["embedded", "rocketmq"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    heap = ("-Xmx512m", "-XX:MaxDirectMemorySize=512m")
    yield from secured_broker(request.param, tmp_path, heap)


def await_queues(client: Client, topic: str, count: int) -> None:
    """Until so many can be written; routes follow changes a moment later."""

    def has_queues() -> bool:
        client.routes.forget(topic)
        return len(client.routes.writable(topic)) == count

    wait_until(has_queues, f"{topic} has {count} queues", TIMEOUT_S)


def rows_of(spark: SparkSession, first: int = 0, count: int = EACH) -> DataFrame:
    """For every key the numbers from the first on, in their order, in one task."""
    rows = [(f"key-{k}", str(n)) for n in range(first, first + count) for k in range(KEYS)]
    return spark.createDataFrame(rows, "key string, value string").coalesce(1)


def save(frame: DataFrame, name_server: str, **options: object) -> None:
    given = {"nameServer": name_server, "requestTimeout": "15s", "sendTimeout": "5s", **options}
    frame.write.format("rmq-ordered").options(**given).mode("append").save()


def queues_and_numbers(client: Client, topic: str) -> dict[MessageQueue, Numbers]:
    """The numbers of each key in each queue, in the order of the queue."""
    found: dict[MessageQueue, Numbers] = {}
    for queue, span in client.broker.topic_stats(topic).items():
        for rows in QueueReader(client).read(ReadPlan(QueueRange(queue, 0, span.maximum))):
            columns = (rows.column(name).to_pylist() for name in ("key", "value"))
            for key, value in zip(*columns, strict=True):
                found.setdefault(queue, {}).setdefault(key, []).append(int(value))
    return found


def await_numbers(client: Client, topic: str, end: int) -> None:
    """Until every key has its numbers up to the end; and then each once, in order in its queue."""

    def found() -> Numbers:
        numbers: Numbers = {}
        for by_key in queues_and_numbers(client, topic).values():
            for key, more in by_key.items():
                assert more == sorted(more), f"{key} is out of order: {more}"
                numbers[key] = sorted([*numbers.get(key, []), *more])
        return numbers

    wait_until(
        lambda: sum(map(len, found().values())) >= KEYS * end, f"{end} of each key came", TIMEOUT_S
    )
    assert found() == {f"key-{key}": list(range(end)) for key in range(KEYS)}


@pytest.mark.proof
@proves("keys-over-brokers")
def test_a_topic_of_two_brokers_gets_each_key_in_order_where_java_puts_it(
    spark: SparkSession, pair: RocketMq, pair_client: Client, topic: str
) -> None:
    save(rows_of(spark), pair.name_server, topic=topic)
    await_numbers(pair_client, topic, EACH)
    queues = sorted(pair_client.routes.writable(topic))
    assert {queue.broker_name for queue in queues} == set(PAIR)
    for queue, numbers in queues_and_numbers(pair_client, topic).items():
        assert {select_by_hash(queues, key) for key in numbers} == {queue}


@pytest.mark.proof
@proves("refusing-broker-fails-batch")
def test_a_broker_that_stores_nothing_fails_the_batch_and_a_retry_adds_its_part_only(
    spark: SparkSession, pair: RocketMq, pair_client: Client, topic: str
) -> None:
    options = {"topic": topic, "sinkId": unique_name("sink"), "batchId": 0}
    # A slave's store answers as one on a full disk does, to the word.
    pair.configure("broker-b", brokerRole="SLAVE", enableSlaveActingMaster="true")
    try:
        with pytest.raises(Exception, match=r"the first with key 'key-\d+'.*disk is full"):
            save(rows_of(spark), pair.name_server, **options)
    finally:
        # The permission is the same as ever: to name it makes the broker register at once.
        master = {"brokerRole": "ASYNC_MASTER", "enableSlaveActingMaster": "false"}
        pair.configure("broker-b", **master, brokerPermission=READ_AND_WRITE)
    await_queues(pair_client, topic, 4)
    landed = {queue.broker_name for queue in queues_and_numbers(pair_client, topic)}
    assert landed == {"broker-a"}
    for _ in range(2):
        save(rows_of(spark), pair.name_server, **options)
        await_numbers(pair_client, topic, EACH)


@pytest.mark.proof
@proves("refusing-broker-fails-batch")
def test_a_broker_that_became_read_only_fails_the_batch_and_no_key_moves(
    spark: SparkSession, pair: RocketMq, pair_client: Client, topic: str
) -> None:
    options = {"topic": topic, "sinkId": unique_name("sink")}
    save(rows_of(spark), pair.name_server, **options, batchId=0)
    pair.configure("broker-b", brokerPermission=READ_ONLY)
    try:
        await_queues(pair_client, topic, 2)
        with pytest.raises(Exception, match=f"QueueLayoutChanged.*{topic}@broker-b#0"):
            save(rows_of(spark, EACH), pair.name_server, **options, batchId=1)
    finally:
        pair.configure("broker-b", brokerPermission=READ_AND_WRITE)
    await_queues(pair_client, topic, 4)
    save(rows_of(spark, EACH), pair.name_server, **options, batchId=1)
    await_numbers(pair_client, topic, 2 * EACH)


@pytest.mark.proof
@proves("refusing-broker-fails-batch")
def test_a_full_disk_fails_the_batch_and_a_retry_adds_only_what_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    name, data = unique_name("orders"), tmp_path / "broker"
    options = {"topic": name, "sinkId": unique_name("sink"), "batchId": 0}
    with EmbeddedBroker(data) as broker, Client(broker.name_server) as client:
        client.broker.create_topic(name, 3)
        # An attempt that got half of its rows through.
        save(rows_of(spark, count=EACH // 2), broker.name_server, **options)
        await_numbers(client, name, EACH // 2)
    with (
        EmbeddedBroker(data, settings={"minFreeDiskBytes": str(1 << 60)}) as broker,
        Client(broker.name_server) as client,
    ):
        with pytest.raises(Exception, match=r"the first with key 'key-\d+'.*(?i:disk)"):
            save(rows_of(spark), broker.name_server, **options)
        await_numbers(client, name, EACH // 2)
    with EmbeddedBroker(data) as broker, Client(broker.name_server) as client:
        save(rows_of(spark), broker.name_server, **options)
        await_numbers(client, name, EACH)


@proves("refusing-broker-fails-batch")
def test_a_user_without_permission_gets_as_far_as_allowed_and_another_adds_the_rest(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    rows = [(topic, f"key-{n % 3}", str(n)) for topic in (OPEN_TOPIC, TOPIC) for n in range(30)]
    frame = spark.createDataFrame(rows, "topic string, key string, value string").coalesce(1)

    def write(who: Credentials) -> None:
        secret = tmp_path / f"{who.access_key}.secret"
        secret.write_text(who.secret_key)
        tls = {
            "tls": "true",
            "tlsCaFile": secured.tls.ca_file,
            "tlsCertificateFile": secured.tls.certificate_file,
            "tlsKeyFile": secured.tls.key_file,
        }
        user = {"accessKey": who.access_key, "secretKey": f"file:{secret}"}
        # So little is held back that most of the first topic's rows go before the second's come.
        save(frame, secured.name_server, **tls, **user, bufferBytes=64, sinkId="s", batchId=0)

    def sent(client: Client, topic: str) -> int:
        return sum(span.maximum for span in client.broker.topic_stats(topic).values())

    with pytest.raises(Exception, match=r"AccessDenied.*the first with key 'key-\d'"):
        write(CLERK)
    with secured.client() as admin:
        wait_until(lambda: sent(admin, OPEN_TOPIC) > 0, "some of what is allowed came", TIMEOUT_S)
        assert sent(admin, TOPIC) == 0
        write(ADMIN)
        both = {OPEN_TOPIC: 30, TOPIC: 30}
        wait_until(
            lambda: {topic: sent(admin, topic) for topic in both} == both,
            "the rest came, and nothing twice",
            TIMEOUT_S,
        )


@proves("added-queues-not-used")
def test_keys_stay_when_queues_are_added_unless_that_was_asked_for(
    spark: SparkSession, broker: Broker
) -> None:
    name = broker.create_topic("growing", 2)
    options = {"topic": name, "sinkId": unique_name("sink")}
    with Client(broker.name_server, request_timeout_ms=15_000) as client:

        def batch(number: int, **more: object) -> set[int]:
            frame = rows_of(spark, number * EACH)
            save(frame, broker.name_server, **options, **more, batchId=number)
            await_numbers(client, name, (number + 1) * EACH)
            numbers = range(number * EACH, (number + 1) * EACH)
            return {
                queue.queue_id
                for queue, by_key in queues_and_numbers(client, name).items()
                if any(set(found) & set(numbers) for found in by_key.values())
            }

        assert batch(0) == {0, 1}
        frames.create_topic(broker.broker_address, name, 5)
        await_queues(client, name, 5)
        assert batch(1) == {0, 1}
        # Asked for, but a batch that may have been begun before stays where it is.
        assert batch(2, onQueueLayoutChange="rehash") == {0, 1}
        assert batch(3, onQueueLayoutChange="rehash") == {0, 1, 2, 3, 4}
        # A repetition finds its rows where they were put.
        assert batch(3, onQueueLayoutChange="rehash") == {0, 1, 2, 3, 4}


@proves("queues-pinned")
def test_keys_move_when_queues_are_gone_only_if_that_was_asked_for(
    spark: SparkSession, broker: Broker
) -> None:
    name = broker.create_topic("shrinking", 4)
    options = {"topic": name, "sinkId": unique_name("sink"), "sendTimeout": "2s"}
    with Client(broker.name_server, request_timeout_ms=15_000) as client:
        save(rows_of(spark), broker.name_server, **options, batchId=0)
        await_numbers(client, name, EACH)
        frames.create_topic(broker.broker_address, name, 3)
        await_queues(client, name, 3)
        with pytest.raises(Exception, match=f"QueueLayoutChanged.*{name}@broker-a#3"):
            save(rows_of(spark, EACH), broker.name_server, **options, batchId=1)
        rehash = {**options, "onQueueLayoutChange": "rehash"}
        for _ in range(2):
            save(rows_of(spark, EACH), broker.name_server, **rehash, batchId=1)
        queues = [MessageQueue(name, "broker-a", number) for number in range(3)]

        def moved() -> Numbers:
            return {
                key: [number for number in found[key] if number >= EACH]
                for queue, found in queues_and_numbers(client, name).items()
                for key in found
                if queue == select_by_hash(queues, key)
            }

        expected = {f"key-{key}": list(range(EACH, 2 * EACH)) for key in range(KEYS)}
        wait_until(lambda: moved() == expected, "all rows are in the queues that are left", 20)


@pytest.mark.proof
def test_compressed_bodies_come_back_whole_and_take_less_room(
    spark: SparkSession, broker: Broker
) -> None:
    bodies = {f"key-{number}": f"{number} " * 5_000 for number in range(6)}
    frame = spark.createDataFrame(list(bodies.items()), "key string, value string").coalesce(1)
    for compression in ("zlib", "lz4", "zstd"):
        name = broker.create_topic(compression, 1)
        save(frame, broker.name_server, topic=name, compression=compression)
        with Client(broker.name_server, request_timeout_ms=15_000) as client:
            (queue,) = client.routes.readable(name)
            wait_until(lambda q=queue: client.broker.max_offset(q) == 6, "all came", TIMEOUT_S)
        stored = frames.pull(broker.broker_address, name, 0, 0)
        assert len(stored.body) < 6 * 5_000
        source = spark.read.format("rmq-ordered").options(
            nameServer=broker.name_server, subscribe=name, requestTimeout="15s"
        )
        assert {row.key: bytes(row.value).decode() for row in source.load().collect()} == bodies
