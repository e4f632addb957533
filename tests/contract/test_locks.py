"""Queue locks and leases, on both brokers: one owner at a time."""

from collections.abc import Callable, Iterator

import pytest
from tests.contract.divergences import diverges
from tests.support.brokers import Broker

from rmq_ordered.client import Client, LeaseKeeper, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.client.instances import InstanceRun, Predecessor
from rmq_ordered.errors import QueueLeaseLost, QueueLeaseUnavailable, RequestTimedOut
from rmq_ordered.model import MessageQueue, QueueLease, QueueRange

NewKeeper = Callable[[str], LeaseKeeper]


@pytest.fixture
def queues(broker: Broker, client: Client) -> tuple[MessageQueue, ...]:
    return client.routes.readable(broker.create_topic("locked", 3))


@pytest.fixture
def group(broker: Broker) -> str:
    return broker.unique("group")


@pytest.fixture
def new_keeper(client: Client, group: str) -> Iterator[NewKeeper]:
    """Makes keepers and lets none outlive its test."""
    keepers: list[LeaseKeeper] = []

    def make(client_id: str) -> LeaseKeeper:
        keepers.append(LeaseKeeper(client.broker, client.clock, group, client_id))
        return keepers[-1]

    yield make
    for keeper in keepers:
        keeper.release()


def granted(client: Client, group: str, owner: str, queues: tuple[MessageQueue, ...]) -> list[bool]:
    return [answer.granted for answer in client.broker.lock(group, owner, queues)]


def test_a_lock_is_refused_while_another_client_holds_it(
    client: Client, group: str, queues: tuple[MessageQueue, ...]
) -> None:
    assert granted(client, group, "one", queues[:2]) == [True, True]
    assert granted(client, group, "two", queues) == [False, False, True]


def test_the_same_client_may_lock_again(
    client: Client, group: str, queues: tuple[MessageQueue, ...]
) -> None:
    assert granted(client, group, "one", queues) == [True] * 3
    assert granted(client, group, "one", queues) == [True] * 3


def test_groups_do_not_disturb_each_other(
    broker: Broker, client: Client, group: str, queues: tuple[MessageQueue, ...]
) -> None:
    assert granted(client, group, "one", queues) == [True] * 3
    assert granted(client, broker.unique("other"), "two", queues) == [True] * 3


def test_an_unlocked_queue_is_free_at_once(
    client: Client, group: str, queues: tuple[MessageQueue, ...]
) -> None:
    granted(client, group, "one", queues)
    client.broker.unlock(group, "one", queues[:1])
    assert granted(client, group, "two", queues) == [True, False, False]


def test_unlocking_what_another_client_holds_changes_nothing(
    client: Client, group: str, queues: tuple[MessageQueue, ...]
) -> None:
    granted(client, group, "one", queues)
    client.broker.unlock(group, "two", queues)
    assert granted(client, group, "two", queues) == [False] * 3


def test_a_lock_outlives_the_connection_that_took_it(
    broker: Broker, client: Client, group: str, queues: tuple[MessageQueue, ...]
) -> None:
    with Client(broker.name_server) as short_lived:
        assert granted(short_lived, group, "one", queues) == [True] * 3
    assert granted(client, group, "two", queues) == [False] * 3


def test_the_owner_is_named_to_those_who_are_refused(
    request: pytest.FixtureRequest,
    broker: Broker,
    client: Client,
    group: str,
    queues: tuple[MessageQueue, ...],
) -> None:
    diverges(request, broker, "lock owner")
    granted(client, group, "one", queues)
    assert {answer.owner for answer in client.broker.lock(group, "two", queues)} == {"one"}


def test_epochs_rise_with_every_new_owner_and_stay_with_a_renewal(
    request: pytest.FixtureRequest,
    broker: Broker,
    client: Client,
    group: str,
    queues: tuple[MessageQueue, ...],
) -> None:
    diverges(request, broker, "lease table")
    queue = queues[0]
    epochs = []
    for owner in ("one", "one", "two"):
        if owner == "two":
            client.broker.unlock(group, "one", [queue])
        (answer,) = client.broker.lock(group, owner, [queue])
        epochs.append(answer.epoch)
    assert epochs[0] is not None
    assert epochs[0] == epochs[1]
    assert epochs[2] == epochs[0] + 1


def test_a_pull_under_a_stale_lease_is_refused(
    request: pytest.FixtureRequest,
    broker: Broker,
    client: Client,
    group: str,
    queues: tuple[MessageQueue, ...],
) -> None:
    diverges(request, broker, "fenced pulls")
    producer = OrderedProducer(client, queues[0].topic)
    producer.send_all({queues[0]: [producer.message(b"m")]})
    (answer,) = client.broker.lock(group, "one", queues[:1])
    lease = QueueLease(group, queues[0], "one", answer.epoch)
    plan = ReadPlan(QueueRange(queues[0], 0, 1), group, lease)
    assert sum(batch.num_rows for batch in QueueReader(client).read(plan)) == 1
    client.broker.unlock(group, "one", queues[:1])
    client.broker.lock(group, "two", queues[:1])
    with pytest.raises(QueueLeaseLost, match="two"):
        list(QueueReader(client).read(plan))


def test_a_keeper_holds_what_it_acquired_and_gives_it_back(
    client: Client, group: str, queues: tuple[MessageQueue, ...], new_keeper: NewKeeper
) -> None:
    keeper = new_keeper("keeper")
    keeper.acquire(queues, 5_000)
    keeper.ensure_held(queues)
    keeper.renew()
    assert [keeper.lease(queue).client_id for queue in queues] == ["keeper"] * 3
    assert granted(client, group, "other", queues) == [False] * 3
    keeper.release()
    assert granted(client, group, "other", queues) == [True] * 3
    with pytest.raises(QueueLeaseLost):
        keeper.ensure_held(queues)


def test_a_keeper_fails_closed_when_another_client_keeps_a_queue(
    client: Client, group: str, queues: tuple[MessageQueue, ...], new_keeper: NewKeeper
) -> None:
    granted(client, group, "other", queues[1:2])
    keeper = new_keeper("keeper")
    with pytest.raises(QueueLeaseUnavailable, match=f"{queues[1]} by "):
        keeper.acquire(queues, 600)
    assert granted(client, group, "third", queues) == [True, False, True]


def test_a_keeper_notices_that_its_lock_was_taken_away(
    client: Client, group: str, queues: tuple[MessageQueue, ...], new_keeper: NewKeeper
) -> None:
    keeper = new_keeper("keeper")
    keeper.acquire(queues, 5_000)
    client.broker.unlock(group, "keeper", queues[:1])
    granted(client, group, "thief", queues[:1])
    keeper.renew()
    with pytest.raises(QueueLeaseLost, match="refused to renew"):
        keeper.ensure_held()
    keeper.ensure_held(queues[1:])
    keeper.release()
    assert granted(client, group, "keeper", queues[:1]) == [False]


def test_a_new_run_of_the_same_instance_takes_over_from_a_dead_one_at_once(
    client: Client, group: str, queues: tuple[MessageQueue, ...], new_keeper: NewKeeper
) -> None:
    before = InstanceRun(client.kv, group, "billing", process="a dead process")
    before.enter("billing#run-1")
    old = new_keeper("billing#run-1")
    old.acquire(queues, 5_000)
    after = InstanceRun(client.kv, group, "billing", is_dead=lambda process: "dead" in process)
    after.enter("billing#run-2")
    earlier = after.predecessors()
    assert earlier == (Predecessor("billing#run-1", is_known_dead=True),)
    new = LeaseKeeper(client.broker, client.clock, group, "billing#run-2", predecessors=earlier)
    new.acquire(queues, 600)
    after.forget_earlier()
    old.renew()
    with pytest.raises(QueueLeaseLost, match="refused to renew"):
        old.ensure_held()
    new.ensure_held()
    old.release()  # late: it finds nothing of its own any more
    new.renew()
    new.ensure_held()
    new.release()
    after.leave()
    assert client.kv.list(f"rmq-ordered-runs@{group}@billing") == {}


def test_an_unlock_that_arrives_late_does_not_free_what_was_locked_again(
    client: Client, group: str, queues: tuple[MessageQueue, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = LeaseKeeper(client.broker, client.clock, group, "keeper")
    keeper.acquire(queues, 5_000)

    def lose(*arguments: object) -> None:
        raise RequestTimedOut("broker", "an unlock", 1)

    with monkeypatch.context() as patch:
        patch.setattr(client.broker, "unlock", lose)
        keeper.give_back(queues[:1])
    assert keeper.try_acquire(queues[:1]) == [queues[0]]
    client.broker.unlock(group, "keeper", queues[:1])
    assert granted(client, group, "other", queues[:1]) == [False]
    keeper.release()
    assert granted(client, group, "other", queues) == [True] * 3


def test_the_lease_table_and_its_history_tell_who_owned_what(
    request: pytest.FixtureRequest,
    broker: Broker,
    client: Client,
    group: str,
    queues: tuple[MessageQueue, ...],
) -> None:
    diverges(request, broker, "lease table")
    granted(client, group, "one", queues[:1])
    client.broker.unlock(group, "one", queues[:1])
    granted(client, group, "two", queues[:1])
    table, history = client.broker.leases(group=group)
    (row,) = [row for row in table if row.is_live]
    assert (row.queue, row.client_id) == (queues[0], "two")
    assert 0 < row.expires_in_ms <= 60_000
    assert [(event.reason, event.owner) for event in history] == [
        ("granted", "one"),
        ("unlocked", None),
        ("granted", "two"),
    ]
