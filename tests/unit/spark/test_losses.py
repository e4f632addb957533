"""Messages, queues and topics that are gone: fail by default, or count and go on."""

import logging
from contextlib import suppress

import pytest
from tests.support.calls import ALL, Engine, NewReader, again, ends, positions, ranges, read_all
from tests.support.promises import proves

from rmq_ordered.errors import (
    ConnectFailed,
    OffsetOutOfRange,
    OptionError,
    QueueLeaseLost,
    TopicNotFound,
    TransportError,
)
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.testing import BrokerDouble, ClusterDouble, Refuse

GOES_ON = {"failOnDataLoss": "false"}


@pytest.fixture
def finished(new_reader: NewReader) -> Engine:
    """A query that has read everything, and stopped."""
    engine = Engine(new_reader)
    engine.run()
    return engine


def offsets_read(engine: Engine, queue: MessageQueue) -> list[int]:
    return [row["offset"] for row in engine.rows if row["queue"] == queue.queue_id]


def expire(cluster: ClusterDouble, queue: MessageQueue, before: int) -> None:
    cluster.brokers[0].queues[queue].minimum = before


def second_broker(cluster: ClusterDouble) -> BrokerDouble:
    other = BrokerDouble(cluster.clock, "broker-b:10911", "broker-b")
    cluster.name_server.brokers.append(other)
    cluster.network.listen(other.address, other.serve)
    return other


def recreate(cluster: ClusterDouble, topic: str, messages: int) -> None:
    """Delete the topic, create it again later and fill it."""
    broker = cluster.brokers[0]
    names = [queue for queue in broker.queues if queue.topic == topic]
    for queue in names:
        del broker.queues[queue]
    broker.committed.clear()
    cluster.clock.advance_ms(5_000)
    for queue in broker.add_topic(topic, len(names)):
        broker.fill(queue, messages)


def test_expired_messages_fail_the_query(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    cluster.brokers[0].fill(queues[0], 20)
    expire(cluster, queues[0], 25)
    with pytest.raises(OffsetOutOfRange, match=r"offset 10 .*\[25, 30\).*failOnDataLoss=false"):
        finished.run()


@proves("lost-range-fails")
def test_expired_messages_are_counted_and_the_query_goes_on(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    finished: Engine,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.brokers[0].fill(queues[0], 20)
    expire(cluster, queues[0], 25)
    finished.options = GOES_ON
    with caplog.at_level(logging.WARNING, "rmq_ordered.spark"):
        finished.run()
    assert offsets_read(finished, queues[0]) == [*range(10), *range(25, 30)]
    assert finished.ends[-1]["skipped"] == 15
    assert positions(finished.ends[-1], "orders")["0"] == [25, 30]
    assert "skipped count=15 queue=orders@broker-a#0 from=10 to=25" in caplog.text


@proves("first-batch-repeated")
@pytest.mark.parametrize("start", ["earliest", "group"])
def test_messages_of_a_first_batch_that_expire_before_it_is_repeated_fail_the_query(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader, start: str
) -> None:
    engine = Engine(new_reader, {"startingOffsets": start, "leaseMode": "none"})
    engine.run(die_at="logged")
    expire(cluster, queues[0], 5)
    with pytest.raises(OffsetOutOfRange, match=r"offset 0 .*\[5, 10\).*failOnDataLoss=false"):
        engine.run()
    engine.options |= GOES_ON
    engine.run()
    assert offsets_read(engine, queues[0]) == [*range(5, 10)]


def test_the_count_of_skipped_messages_adds_up(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    finished.options = GOES_ON
    for end in (20, 40):
        cluster.brokers[0].fill(queues[0], 10)
        cluster.brokers[0].fill(queues[0], 10)
        expire(cluster, queues[0], end)
        finished.run()
    assert finished.ends[-1]["skipped"] == 20


def test_messages_that_expire_between_plan_and_read_fail_or_are_counted(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for options in ({}, GOES_ON):
        expire(cluster, queues[0], 0)
        reader = new_reader(startingOffsets="earliest", **options)
        start = reader.initialOffset()
        planned = reader.partitions(start, reader.latestOffset(start, ALL))
        expire(cluster, queues[0], 7)
        if options:
            offsets = [row["offset"] for row in read_all(reader, planned[:1])]
            assert offsets == [7, 8, 9]
        else:
            with pytest.raises(OffsetOutOfRange):
                read_all(reader, planned)
        reader.stop()
    assert "skipped count=7" in caplog.text


def test_a_topic_made_anew_is_noticed_while_it_is_shorter(
    cluster: ClusterDouble, finished: Engine
) -> None:
    recreate(cluster, "orders", 3)
    with pytest.raises(OffsetOutOfRange, match="made anew"):
        finished.run()


@proves("recreated-topic-noticed")
def test_a_topic_made_anew_is_noticed_although_it_is_longer(
    cluster: ClusterDouble, finished: Engine
) -> None:
    recreate(cluster, "orders", 50)
    with pytest.raises(OptionError, match="messages are younger than the checkpoint"):
        finished.run()


def test_a_topic_made_anew_is_noticed_before_an_unfinished_batch_is_repeated(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    cluster.brokers[0].fill(queues[0], 5)
    finished.run(die_at="logged")
    recreate(cluster, "orders", 50)
    with pytest.raises(OptionError, match="messages are younger than the checkpoint"):
        finished.run()


@pytest.mark.parametrize("messages", [3, 50])
def test_a_topic_made_anew_can_be_read_from_its_beginning(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine, messages: int
) -> None:
    recreate(cluster, "orders", messages)
    finished.options = GOES_ON
    finished.run()
    assert offsets_read(finished, queues[0]) == [*range(10), *range(messages)]


def test_a_topic_that_went_on_is_not_taken_for_a_new_one(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    # Stored in the very millisecond that the checkpoint knows, and later.
    cluster.clock.jump_wall_ms(-1_000)
    cluster.brokers[0].fill(queues[0], 3)
    cluster.clock.jump_wall_ms(5_000)
    cluster.brokers[0].fill(queues[0], 3)
    finished.run()
    assert offsets_read(finished, queues[0]) == list(range(16))


def test_a_queue_that_vanished_fails_the_query_or_waits_where_it_stood(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    broker = cluster.brokers[0]
    broker.fill(queues[0], 5)
    broker.topics["orders"] = 1
    with pytest.raises(OffsetOutOfRange, match="orders@broker-a#1"):
        finished.run()
    finished.options = GOES_ON
    finished.run()
    assert positions(finished.ends[-1], "orders") == {"0": 15, "1": 10}
    broker.topics["orders"] = 2
    broker.fill(queues[1], 5)
    cluster.clock.advance_ms(60_000)
    finished.run()
    assert offsets_read(finished, queues[1]) == list(range(15))


def test_a_queue_that_vanished_is_warned_of_once_until_it_is_back(
    cluster: ClusterDouble,
    finished: Engine,
    new_reader: NewReader,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = new_reader(leaseMode="none", **GOES_ON)
    for queues_there, warnings in ((1, 1), (2, 1), (1, 2)):
        cluster.brokers[0].topics["orders"] = queues_there
        cluster.clock.advance_ms(60_000)
        for _ in range(3):
            assert reader.latestOffset(finished.ends[-1], ALL) == finished.ends[-1]
        assert caplog.text.count("orders@broker-a#1 is not there") == warnings


def test_who_owns_the_queues_of_a_broker_that_goes_away_fails_and_who_owns_nothing_waits(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    other = second_broker(cluster)
    other.add_topic("orders", 1)
    owner, reader = new_reader(**GOES_ON), new_reader(leaseMode="none", **GOES_ON)
    starts = [again(one.initialOffset()) for one in (owner, reader)]
    cluster.name_server.brokers.remove(other)
    cluster.network.take_down(other.address)
    for _ in range(2):
        cluster.clock.advance_ms(16_000)
        with pytest.raises(TransportError):
            owner._open()._keeper.renew()
    with pytest.raises(QueueLeaseLost, match="orders@broker-b#0"):
        owner.latestOffset(starts[0], ALL)
    end = reader.latestOffset(starts[1], ALL)
    assert end["topics"]["orders"] == {
        "broker-a": {"0": [0, 10], "1": [0, 10]},
        "broker-b": {"0": [0, 0]},
    }


def test_a_queue_that_is_taken_away_while_its_route_is_believed_keeps_its_position(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    reader = new_reader(**GOES_ON)
    end = again(reader.latestOffset(again(reader.initialOffset()), ALL))
    cluster.brokers[0].topics["orders"] = 1
    assert reader.latestOffset(end, ALL) == end
    cluster.brokers[0].topics["orders"] = 2
    cluster.brokers[0].fill(queues[1], 3)
    assert ends(reader.latestOffset(end, ALL), "orders") == {"0": 10, "1": 13}


def test_a_batch_that_must_be_repeated_waits_for_all_its_queues(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    broker = cluster.brokers[0]
    broker.fill(queues[1], 5)
    finished.run(die_at="logged")
    broker.topics["orders"] = 1
    for options in ({}, GOES_ON):
        finished.options = options
        with pytest.raises(
            OptionError, match=r"reads \[10, 15\) of orders@broker-a#1, which is not"
        ):
            finished.run()
    broker.topics["orders"] = 2
    cluster.clock.advance_ms(60_000)
    finished.run()
    assert offsets_read(finished, queues[1]) == list(range(15))


def test_a_checkpoint_of_another_topic_is_refused_and_stays_as_it_is(
    cluster: ClusterDouble, finished: Engine
) -> None:
    cluster.brokers[0].add_topic("audit", 1)
    before = again(finished.ends[-1])
    for options in ({}, GOES_ON):
        finished.options = options | {"subscribe": "audit"}
        with pytest.raises(OptionError, match=r"a checkpoint of the subscribed topics \(audit\)"):
            finished.run()
    assert finished.ends[-1] == before
    assert len(finished.ends) == finished.finished == 1


def test_a_topic_taken_out_of_the_subscription_is_dropped_only_if_that_was_allowed(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    cluster.brokers[0].add_topic("audit", 1)
    engine = Engine(new_reader, {"subscribe": "orders,audit"})
    engine.run()
    engine.options = {"subscribe": "orders"}
    with pytest.raises(OptionError, match=r"found 'a checkpoint of audit'"):
        engine.run()
    engine.options |= GOES_ON
    engine.run()
    assert list(engine.ends[-1]["topics"]) == ["orders"]


ALL_TOPICS = {"subscribe": None, "subscribePattern": ".*"}
MODES = [{"leaseMode": mode} for mode in ("exclusive", "shared", "none")]


def delete(cluster: ClusterDouble, topic: str) -> None:
    with cluster.client() as operator:
        operator.broker.delete_topic(topic)


@proves("deleted-topic-of-pattern")
@pytest.mark.parametrize("mode", MODES)
def test_a_topic_of_a_pattern_that_is_deleted_fails_the_query_by_name(
    cluster: ClusterDouble, new_reader: NewReader, mode: dict[str, str]
) -> None:
    cluster.brokers[0].add_topic("audit", 1)
    reader = new_reader(**ALL_TOPICS, **mode)
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ALL))
    delete(cluster, "audit")
    expected = r"topics \(orders\).*create them.*failOnDataLoss=false, found '.* of audit'"
    with pytest.raises(OptionError, match=expected):
        reader.latestOffset(end, ALL)


@proves("deleted-topic-of-pattern")
@pytest.mark.parametrize("mode", MODES)
def test_a_topic_of_a_pattern_that_is_deleted_is_dropped_and_the_others_are_read_on(
    cluster: ClusterDouble,
    queues: tuple[MessageQueue, ...],
    new_reader: NewReader,
    mode: dict[str, str],
) -> None:
    cluster.brokers[0].add_topic("audit", 1)
    reader = new_reader(**ALL_TOPICS, **GOES_ON, **mode)
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ALL))
    delete(cluster, "audit")
    for _ in range(4):
        # For longer than a lease is trusted.
        cluster.clock.advance_ms(16_000)
        if reader._open()._keeper is not None:
            with suppress(TopicNotFound):
                reader._open()._keeper.renew()
    cluster.brokers[0].fill(queues[0], 5)
    last = again(reader.latestOffset(end, ALL))
    assert list(last["topics"]) == ["orders"]
    assert ranges(reader.partitions(end, last)) == [(0, 10, 15)]
    assert reader.latestOffset(last, ALL) == last


def test_a_deleted_topic_that_is_made_anew_is_a_new_topic_of_the_pattern(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    (old,) = cluster.brokers[0].add_topic("audit", 1)
    cluster.brokers[0].fill(old, 5)
    reader = new_reader(**ALL_TOPICS, **GOES_ON)
    end = again(reader.latestOffset(again(reader.initialOffset()), ALL))
    reader.latestOffset(end, ALL)
    delete(cluster, "audit")
    cluster.brokers[0].committed.pop(("billing", old))
    end = again(reader.latestOffset(end, ALL))
    (new,) = cluster.brokers[0].add_topic("audit", 1)
    cluster.brokers[0].fill(new, 7)
    cluster.clock.advance_ms(11_000)
    joined = again(reader.latestOffset(end, ALL))
    assert positions(joined, "audit") == {"0": [0, 7]}
    assert len(reader.partitions(end, joined)) == 1
    reader.latestOffset(joined, ALL)
    assert cluster.brokers[0].committed["billing", new] == 7


def test_name_servers_may_know_a_deleted_topic_a_little_longer_than_its_brokers(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    cluster.brokers[0].add_topic("audit", 1)
    reader = new_reader(**ALL_TOPICS, **GOES_ON)
    start = again(reader.initialOffset())
    code = RequestCode.GET_TOPIC_STATS_INFO
    cluster.network.arm(Refuse(ResponseCode.TOPIC_NOT_EXIST), code, times=3)
    assert sorted(reader.latestOffset(start, ALL)["topics"]) == ["audit", "orders"]
    cluster.network.arm(Refuse(ResponseCode.TOPIC_NOT_EXIST), code, times=100)
    with pytest.raises(TopicNotFound, match="audit"):
        reader.latestOffset(start, ALL)


@proves("deleted-topic-of-pattern")
def test_a_topic_whose_brokers_are_away_is_not_taken_for_deleted(
    cluster: ClusterDouble, new_reader: NewReader
) -> None:
    other = second_broker(cluster)
    other.fill(*other.add_topic("audit", 1), 5)
    reader = new_reader(**ALL_TOPICS, **GOES_ON, leaseMode="none")
    start = again(reader.initialOffset())
    end = again(reader.latestOffset(start, ALL))
    cluster.name_server.brokers.remove(other)
    cluster.network.take_down(other.address)
    cluster.clock.advance_ms(11_000)
    with pytest.raises(ConnectFailed, match="brokers of topic audit are not registered"):
        reader.latestOffset(end, ALL)
    cluster.name_server.brokers.append(other)
    cluster.network.bring_up(other.address)
    assert reader.latestOffset(end, ALL) == end


ONE_QUEUE = {"subscribe": None, "assign": '{"orders":{"broker-a":[1]}}'}


def test_a_queue_taken_out_of_the_assignment_is_dropped_only_if_that_was_allowed(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    finished.options = ONE_QUEUE
    expected = (
        r"a checkpoint of the assigned queues \(orders@broker-a#1\).* assign the missing queues "
        r"again.*failOnDataLoss=false, found 'a checkpoint of orders@broker-a#0'"
    )
    with pytest.raises(OptionError, match=expected):
        finished.run()
    finished.options = ONE_QUEUE | GOES_ON
    cluster.brokers[0].fill(queues[1], 5)
    finished.run()
    assert positions(finished.ends[-1], "orders") == {"1": 15}
    assert offsets_read(finished, queues[1]) == list(range(15))


def test_a_checkpoint_without_any_assigned_queue_is_refused(finished: Engine) -> None:
    finished.ends[-1]["topics"]["orders"]["broker-a"].pop("1")
    for options in ({}, GOES_ON):
        finished.options = ONE_QUEUE | options
        with pytest.raises(OptionError, match="found 'a checkpoint of orders@broker-a#0'"):
            finished.run()


def test_a_batch_that_must_be_repeated_needs_its_queues_assigned(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    cluster.brokers[0].fill(queues[0], 5)
    finished.run(die_at="logged")
    finished.options = ONE_QUEUE | GOES_ON
    with pytest.raises(OptionError, match=r"reads \[10, 15\) of orders@broker-a#0, which is not"):
        finished.run()
    finished.options = {}
    finished.run()
    assert offsets_read(finished, queues[0]) == list(range(15))


def test_the_group_may_stand_where_messages_are_gone(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], new_reader: NewReader
) -> None:
    cluster.brokers[0].committed["billing", queues[0]] = 2
    expire(cluster, queues[0], 6)
    with pytest.raises(OffsetOutOfRange, match="queue offset 2"):
        new_reader().initialOffset()
    initial = new_reader(**GOES_ON).initialOffset()
    assert ends(initial, "orders") == {"0": 6, "1": 0}
    assert initial["skipped"] == 4


@proves("lost-range-fails")
def test_the_range_that_was_planned_after_a_loss_is_repeated(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    cluster.brokers[0].fill(queues[0], 20)
    expire(cluster, queues[0], 25)
    finished.options = GOES_ON
    finished.run(die_at="read")
    finished.run()
    first, second = finished.attempts[1]
    assert first == second
    assert [row["offset"] for row in first] == list(range(25, 30))


def test_what_is_lost_is_not_committed_for_the_group(
    cluster: ClusterDouble, queues: tuple[MessageQueue, ...], finished: Engine
) -> None:
    recreate(cluster, "orders", 3)
    finished.options = GOES_ON
    finished.run()
    assert cluster.brokers[0].committed["billing", queues[0]] == 3
