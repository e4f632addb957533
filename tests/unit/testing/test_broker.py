"""The broker in memory, asked with the real requests and read with the real parsers."""

from itertools import repeat

import pytest

from rmq_ordered.model import MessageQueue, OffsetSpan, OutgoingMessage
from rmq_ordered.protocol import groups, locks, pulls, sends, topics
from rmq_ordered.protocol.codes import FEATURE_LEASE_EPOCH, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import decode_messages, encode_batch
from rmq_ordered.protocol.pulls import PullLimits, PullResult, PullStatus
from rmq_ordered.testing import BrokerDouble, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> BrokerDouble:
    return BrokerDouble(clock, features=frozenset({FEATURE_LEASE_EPOCH}))


@pytest.fixture
def queue(broker: BrokerDouble) -> MessageQueue:
    queue, _ = broker.add_topic("orders", 2)
    broker.fill(queue, 100)
    return queue


def pull(
    broker: BrokerDouble, queue: MessageQueue, offset: int, count: int = 32
) -> tuple[PullResult, list[int]]:
    request = pulls.pull_request(queue, offset, group="billing", limits=PullLimits(count))
    result = pulls.parse_pull(broker.serve(request))
    found = decode_messages(result.body, broker_name=queue.broker_name)
    return result, [message.queue_offset for message in found]


def test_a_pull_brings_what_was_asked_for_up_to_the_cap(
    broker: BrokerDouble, queue: MessageQueue
) -> None:
    result, offsets = pull(broker, queue, 10, 8)
    assert (result.status, result.next_offset) == (PullStatus.FOUND, 18)
    assert (result.minimum, result.maximum) == (0, 100)
    assert offsets == list(range(10, 18))
    broker.pull_caps = repeat(5)
    assert pull(broker, queue, 10)[1] == list(range(10, 15))
    assert pull(broker, queue, 98)[1] == [98, 99]


def test_a_filter_skips_and_says_so(broker: BrokerDouble, queue: MessageQueue) -> None:
    broker.is_matching = lambda offset: offset % 2 == 0
    result, offsets = pull(broker, queue, 0, 5)
    assert (offsets, result.next_offset) == ([0, 2, 4], 5)
    broker.is_matching = lambda offset: False
    result, offsets = pull(broker, queue, 0, 5)
    assert result.status is PullStatus.NO_MATCHED_MESSAGE
    assert (offsets, result.next_offset) == ([], 5)


@pytest.mark.parametrize(
    ("asked", "status", "next_offset"),
    [
        (100, PullStatus.NO_NEW_MESSAGE, 100),
        (101, PullStatus.OFFSET_ILLEGAL, 100),
        (5, PullStatus.OFFSET_ILLEGAL, 10),
    ],
)
def test_offsets_outside_are_answered_as_rocketmq_does(
    broker: BrokerDouble, queue: MessageQueue, asked: int, status: PullStatus, next_offset: int
) -> None:
    broker.queues[queue].minimum = 10
    result, offsets = pull(broker, queue, asked)
    assert (result.status, result.next_offset, offsets) == (status, next_offset, [])


def test_messages_and_batches_are_stored_in_order(
    broker: BrokerDouble, queue: MessageQueue
) -> None:
    other = MessageQueue("orders", "broker-a", 1)
    single = sends.send_request(other, b"a", {"TAGS": "t"}, producer_group="p", born_ms=1)
    assert sends.parse_receipt(broker.serve(single), other, 1).first_offset == 0
    batch = encode_batch([OutgoingMessage(b"b"), OutgoingMessage(b"c")])
    request = sends.send_batch_request(other, batch, producer_group="p", born_ms=1)
    landed = sends.parse_receipt(broker.serve(request), other, 2)
    assert (landed.queue, landed.first_offset, landed.last_offset) == (other, 1, 2)
    assert broker.queues[other].bodies == [b"a", b"b", b"c"]
    assert broker.queues[other].messages[0].properties == {"TAGS": "t"}


def test_offsets_of_queues_and_groups(
    broker: BrokerDouble, clock: ManualClock, queue: MessageQueue
) -> None:
    def ask(request: RemotingCommand) -> int:
        return broker.serve(request).ext_int("offset")

    assert ask(groups.max_offset_request(queue)) == 100
    assert ask(groups.min_offset_request(queue)) == 0
    assert ask(groups.search_offset_request(queue, clock.wall_ms() + 1)) == 100
    unknown = broker.serve(groups.query_offset_request("billing", queue))
    assert unknown.code == ResponseCode.QUERY_NOT_FOUND
    for proposed in (7, 3):
        assert broker.serve(groups.update_offset_request("billing", queue, proposed)).code == 0
        assert ask(groups.query_offset_request("billing", queue)) == proposed


def test_statistics_tell_of_silent_queues_too_and_not_of_those_that_were_taken_away(
    broker: BrokerDouble, clock: ManualClock, queue: MessageQueue
) -> None:
    response = broker.serve(topics.topic_stats_request("orders"))
    silent = MessageQueue("orders", broker.name, 1)
    expected = {queue: OffsetSpan(0, 100, clock.wall_ms()), silent: OffsetSpan(0, 0)}
    assert topics.parse_topic_stats(response, "orders") == expected
    broker.topics["orders"] = 1
    response = broker.serve(topics.topic_stats_request("orders"))
    assert topics.parse_topic_stats(response, "orders").keys() == {queue}
    unknown = broker.serve(topics.topic_stats_request("nope"))
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


def test_topics_are_created_and_deleted(broker: BrokerDouble, queue: MessageQueue) -> None:
    broker.serve(topics.create_topic_request("audit", 3))
    assert broker.topics == {"audit": 3, "orders": 2}
    broker.serve(topics.delete_topic_request("orders"))
    assert broker.topics == {"audit": 3}
    assert queue not in broker.queues


def test_members_come_and_go(broker: BrokerDouble) -> None:
    broker.serve(groups.heartbeat_request("me", "billing", ["orders"], version_ms=1))
    response = broker.serve(groups.members_request("billing"))
    assert groups.parse_members(response) == ("me",)
    broker.serve(groups.unregister_request("me", "billing"))
    broker.serve(groups.unregister_request("me", "audit"))
    empty = broker.serve(groups.members_request("billing"))
    assert empty.code == ResponseCode.SYSTEM_ERROR


def test_locks_tell_owner_and_epoch_only_with_the_feature(
    broker: BrokerDouble, queue: MessageQueue
) -> None:
    request = locks.lock_request("billing", "me", [queue])
    (answer,) = locks.parse_lock(broker.serve(request), [queue])
    assert (answer.granted, answer.owner, answer.epoch) == (True, "me", 1)
    broker.features = frozenset()
    (answer,) = locks.parse_lock(broker.serve(request), [queue])
    assert (answer.granted, answer.owner, answer.epoch) == (True, None, None)
    refused = locks.lock_request("billing", "other", [queue])
    assert not locks.parse_lock(broker.serve(refused), [queue])[0].granted
    broker.serve(locks.unlock_request("billing", "me", [queue]))
    assert locks.parse_lock(broker.serve(refused), [queue])[0].granted


def test_the_lease_table_can_be_asked_for_with_the_feature(
    broker: BrokerDouble, clock: ManualClock, queue: MessageQueue
) -> None:
    broker.serve(locks.lock_request("billing", "me", [queue]))
    clock.advance_ms(10_000)
    (row,), _ = locks.parse_leases(broker.serve(locks.leases_request("billing")))
    assert (row.client_id, row.epoch, row.expires_in_ms, row.is_live) == ("me", 1, 50_000, True)
    assert locks.parse_leases(broker.serve(locks.leases_request("audit")))[0] == ()
    clock.advance_ms(50_001)
    (row,), _ = locks.parse_leases(broker.serve(locks.leases_request()))
    assert (row.expires_in_ms, row.is_live) == (0, False)
    broker.features = frozenset()
    response = broker.serve(locks.leases_request())
    assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(("epoch", "is_stale"), [(1, False), (2, True), (0, True)])
def test_pulls_and_commits_are_fenced(
    broker: BrokerDouble, queue: MessageQueue, epoch: int, is_stale: bool
) -> None:
    broker.serve(locks.lock_request("billing", "me", [queue]))
    commit = groups.update_offset_request("billing", queue, 5, lease_epoch=epoch)
    limits = PullLimits()
    fetch = pulls.pull_request(queue, 0, group="billing", limits=limits, lease_epoch=epoch)
    expected = ResponseCode.STALE_LEASE if is_stale else ResponseCode.SUCCESS
    assert broker.serve(commit).code == broker.serve(fetch).code == expected


def test_a_fenced_commit_never_goes_back_and_ends_with_the_lease(
    broker: BrokerDouble, clock: ManualClock, queue: MessageQueue
) -> None:
    broker.serve(locks.lock_request("billing", "me", [queue]))

    def commit(queue_offset: int) -> int:
        request = groups.update_offset_request("billing", queue, queue_offset, lease_epoch=1)
        return broker.serve(request).code

    assert [commit(offset) for offset in (5, 5, 4)] == [0, 0, ResponseCode.OFFSET_WENT_BACK]
    clock.advance_ms(60_001)
    assert commit(6) == ResponseCode.STALE_LEASE


def test_anything_else_is_not_supported(broker: BrokerDouble) -> None:
    assert broker.serve(RemotingCommand(1)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
