"""The naive lock table: the model that leases are compared with must itself be right."""

import pytest

from rmq_ordered.model import LockAnswer, MessageQueue
from rmq_ordered.testing import LockTable
from rmq_ordered.testing.locks import LOCK_LIFETIME_MS

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def table() -> LockTable:
    return LockTable()


def test_a_free_queue_is_granted(table: LockTable) -> None:
    assert table.owner("billing", QUEUE, 0) is None
    assert table.epoch("billing", QUEUE) == 0
    assert table.lock("billing", "a", QUEUE, 0) == LockAnswer(QUEUE, True, "a", 1)
    assert table.owner("billing", QUEUE, 0) == "a"


def test_a_lock_is_refused_while_another_client_holds_it(table: LockTable) -> None:
    table.lock("billing", "a", QUEUE, 0)
    assert table.lock("billing", "b", QUEUE, LOCK_LIFETIME_MS) == LockAnswer(QUEUE, False, "a", 1)


def test_groups_do_not_know_each_other(table: LockTable) -> None:
    table.lock("billing", "a", QUEUE, 0)
    assert table.lock("audit", "b", QUEUE, 0).granted


def test_a_renewal_keeps_the_epoch_and_prolongs_the_lock(table: LockTable) -> None:
    table.lock("billing", "a", QUEUE, 0)
    assert table.lock("billing", "a", QUEUE, 40_000) == LockAnswer(QUEUE, True, "a", 1)
    assert table.owner("billing", QUEUE, 100_000) == "a"
    assert table.owner("billing", QUEUE, 100_001) is None


@pytest.mark.parametrize("client_id", ["a", "b"])
def test_an_expired_lock_may_be_taken_under_a_new_epoch(table: LockTable, client_id: str) -> None:
    table.lock("billing", "a", QUEUE, 0)
    answer = table.lock("billing", client_id, QUEUE, LOCK_LIFETIME_MS + 1)
    assert answer == LockAnswer(QUEUE, True, client_id, 2)


def test_an_unlock_ends_the_epoch(table: LockTable) -> None:
    table.lock("billing", "a", QUEUE, 0)
    table.unlock("billing", "b", QUEUE)
    assert table.owner("billing", QUEUE, 0) == "a", "not b's to give back"
    table.unlock("billing", "a", QUEUE)
    assert table.owner("billing", QUEUE, 0) is None
    assert table.lock("billing", "a", QUEUE, 0).epoch == 2
    table.unlock("audit", "a", QUEUE)


def test_a_broker_that_lost_its_memory_grants_anything(table: LockTable) -> None:
    table.lock("billing", "a", QUEUE, 0)
    table.lose_memory()
    assert table.lock("billing", "b", QUEUE, 1) == LockAnswer(QUEUE, True, "b", 1)
