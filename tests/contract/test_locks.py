"""Queue locks and leases, on both brokers: one owner at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tests.contract.divergences import diverges
from tests.support.brokers import Broker
from tests.support.promises import proves

from rmq_ordered.client import Client, LeaseKeeper, OrderedProducer, QueueReader, ReadPlan
from rmq_ordered.client.broker import Failures
from rmq_ordered.client.instances import InstanceRun, Predecessor
from rmq_ordered.errors import QueueLeaseLost, QueueLeaseUnavailable, RequestTimedOut
from rmq_ordered.model import MessageQueue, QueueLease, QueueRange


@dataclass
class Rig:
    """Three queues of a topic, a group that nobody else uses, and the keepers of its clients."""

    broker: Broker
    client: Client
    group: str
    queues: tuple[MessageQueue, ...]
    keepers: list[LeaseKeeper] = field(default_factory=list)

    def lock(self, owner: str, *numbers: int) -> list[bool]:
        """Ask for some of the queues, all if none is named; tells which are granted."""
        asked = self.some(*numbers)
        return [answer.granted for answer in self.client.broker.lock(self.group, owner, asked)]

    def unlock(self, owner: str, *numbers: int) -> None:
        self.client.broker.unlock(self.group, owner, self.some(*numbers))

    def keeper(self, client_id: str, predecessors: Sequence[Predecessor] = ()) -> LeaseKeeper:
        """A keeper that does not outlive the test."""
        client = self.client
        self.keepers.append(
            LeaseKeeper(
                client.broker, client.clock, self.group, client_id, predecessors=predecessors
            )
        )
        return self.keepers[-1]

    def some(self, *numbers: int) -> list[MessageQueue]:
        return [self.queues[number] for number in numbers or range(len(self.queues))]


@pytest.fixture
def rig(broker: Broker, client: Client) -> Iterator[Rig]:
    queues = client.routes.readable(broker.create_topic("locked", 3))
    rig = Rig(broker, client, broker.unique("group"), queues)
    yield rig
    for keeper in rig.keepers:
        keeper.release()


def test_a_lock_is_refused_while_another_client_holds_it(rig: Rig) -> None:
    assert rig.lock("one", 0, 1) == [True, True]
    assert rig.lock("two") == [False, False, True]


def test_the_same_client_may_lock_again(rig: Rig) -> None:
    assert rig.lock("one") == [True] * 3
    assert rig.lock("one") == [True] * 3


def test_groups_do_not_disturb_each_other(rig: Rig) -> None:
    assert rig.lock("one") == [True] * 3
    rig.group = rig.broker.unique("other")
    assert rig.lock("two") == [True] * 3


def test_an_unlocked_queue_is_free_at_once(rig: Rig) -> None:
    rig.lock("one")
    rig.unlock("one", 0)
    assert rig.lock("two") == [True, False, False]


def test_unlocking_what_another_client_holds_changes_nothing(rig: Rig) -> None:
    rig.lock("one")
    rig.unlock("two")
    assert rig.lock("two") == [False] * 3


def test_a_lock_outlives_the_connection_that_took_it(rig: Rig) -> None:
    with Client(rig.broker.name_server) as short_lived:
        assert replace(rig, client=short_lived).lock("one") == [True] * 3
    assert rig.lock("two") == [False] * 3


def test_the_owner_is_named_to_those_who_are_refused(
    request: pytest.FixtureRequest, rig: Rig
) -> None:
    diverges(request, rig.broker, "lock owner")
    rig.lock("one")
    assert {answer.owner for answer in rig.client.broker.lock(rig.group, "two", rig.queues)} == {
        "one"
    }


def test_epochs_rise_with_every_new_owner_and_stay_with_a_renewal(
    request: pytest.FixtureRequest, rig: Rig
) -> None:
    diverges(request, rig.broker, "lease table")
    queue = rig.queues[0]
    epochs = []
    for owner in ("one", "one", "two"):
        if owner == "two":
            rig.unlock("one", 0)
        (answer,) = rig.client.broker.lock(rig.group, owner, [queue])
        epochs.append(answer.epoch)
    assert epochs[0] is not None
    assert epochs[0] == epochs[1]
    assert epochs[2] == epochs[0] + 1


@proves("stale-lease-refused")
def test_a_pull_under_a_stale_lease_is_refused(request: pytest.FixtureRequest, rig: Rig) -> None:
    diverges(request, rig.broker, "fenced pulls")
    producer = OrderedProducer(rig.client, rig.queues[0].topic)
    producer.send_all({rig.queues[0]: [producer.message(b"m")]})
    (answer,) = rig.client.broker.lock(rig.group, "one", rig.queues[:1])
    lease = QueueLease(rig.group, rig.queues[0], "one", answer.epoch)
    plan = ReadPlan(QueueRange(rig.queues[0], 0, 1), rig.group, lease)
    assert sum(batch.num_rows for batch in QueueReader(rig.client).read(plan)) == 1
    rig.unlock("one", 0)
    rig.client.broker.lock(rig.group, "two", rig.queues[:1])
    with pytest.raises(QueueLeaseLost, match="two"):
        list(QueueReader(rig.client).read(plan))


def test_a_keeper_holds_what_it_acquired_and_gives_it_back(rig: Rig) -> None:
    keeper = rig.keeper("keeper")
    keeper.acquire(rig.queues, 5_000)
    keeper.ensure_held(rig.queues)
    keeper.renew()
    assert [keeper.lease(queue).client_id for queue in rig.queues] == ["keeper"] * 3
    assert rig.lock("other") == [False] * 3
    keeper.release()
    assert rig.lock("other") == [True] * 3
    with pytest.raises(QueueLeaseLost):
        keeper.ensure_held(rig.queues)


def test_a_keeper_fails_closed_when_another_client_keeps_a_queue(rig: Rig) -> None:
    rig.lock("other", 1)
    keeper = rig.keeper("keeper")
    with pytest.raises(QueueLeaseUnavailable, match=f"{rig.queues[1]} by "):
        keeper.acquire(rig.queues, 600)
    assert rig.lock("third") == [True, False, True]


def test_a_keeper_notices_that_its_lock_was_taken_away(rig: Rig) -> None:
    keeper = rig.keeper("keeper")
    keeper.acquire(rig.queues, 5_000)
    rig.unlock("keeper", 0)
    rig.lock("thief", 0)
    keeper.renew()
    with pytest.raises(QueueLeaseLost, match="refused to renew"):
        keeper.ensure_held()
    keeper.ensure_held(rig.queues[1:])
    keeper.release()
    assert rig.lock("keeper", 0) == [False]


def test_a_new_run_of_the_same_instance_takes_over_from_a_dead_one_at_once(rig: Rig) -> None:
    before = InstanceRun(rig.client.kv, rig.group, "billing", process="a dead process")
    before.enter("billing#run-1")
    old = rig.keeper("billing#run-1")
    old.acquire(rig.queues, 5_000)
    after = InstanceRun(
        rig.client.kv, rig.group, "billing", is_dead=lambda process: "dead" in process
    )
    after.enter("billing#run-2")
    earlier = after.predecessors()
    assert earlier == (Predecessor("billing#run-1", is_known_dead=True),)
    new = rig.keeper("billing#run-2", earlier)
    new.acquire(rig.queues, 600)
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
    assert rig.client.kv.list(f"rmq-ordered-runs@{rig.group}@billing") == {}


@proves("late-unlock-frees-nothing")
def test_an_unlock_that_arrives_late_does_not_free_what_was_locked_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = rig.keeper("keeper")
    keeper.acquire(rig.queues, 5_000)

    def lose(
        group: str, client_id: str, queues: Sequence[MessageQueue], **more: object
    ) -> Failures:
        return dict.fromkeys(queues, RequestTimedOut("broker", "an unlock", 1))

    with monkeypatch.context() as patch:
        patch.setattr(rig.client.broker, "try_unlock", lose)
        keeper.give_back(rig.queues[:1])
    assert keeper.try_acquire(rig.queues[:1]) == [rig.queues[0]]
    rig.unlock("keeper", 0)
    assert rig.lock("other", 0) == [False]
    keeper.release()
    assert rig.lock("other") == [True] * 3


def test_the_lease_table_and_its_history_tell_who_owned_what(
    request: pytest.FixtureRequest, rig: Rig
) -> None:
    diverges(request, rig.broker, "lease table")
    rig.lock("one", 0)
    rig.unlock("one", 0)
    rig.lock("two", 0)
    table, history = rig.client.broker.leases(group=rig.group)
    (row,) = [row for row in table if row.is_live]
    assert (row.queue, row.client_id) == (rig.queues[0], "two")
    assert 0 < row.expires_in_ms <= 60_000
    assert [(event.reason, event.owner) for event in history] == [
        ("granted", "one"),
        ("unlocked", None),
        ("granted", "two"),
    ]
