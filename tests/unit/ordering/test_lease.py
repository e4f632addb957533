"""When a client may believe that a queue is its own, step by step."""

import pytest

from rmq_ordered.model import MessageQueue, QueueLease
from rmq_ordered.ordering.lease import LeaseTable

QUEUE, OTHER = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
TRUST_MS = 30_000


@pytest.fixture
def table() -> LeaseTable:
    return LeaseTable("billing", "me#1", TRUST_MS)


def test_a_queue_that_was_never_granted_is_not_ours(table: LeaseTable) -> None:
    assert table.loss(QUEUE, 0) == "it was never granted to this client"
    assert table.queues == ()


def test_a_granted_queue_is_ours_and_has_a_token(table: LeaseTable) -> None:
    table.granted(QUEUE, asked_at_ms=100, now_ms=150, epoch=7)
    assert table.loss(QUEUE, 150) is None
    assert table.lease(QUEUE) == QueueLease("billing", QUEUE, "me#1", 7)
    assert table.queues == (QUEUE,)


def test_trust_is_counted_from_the_request_not_from_the_answer(table: LeaseTable) -> None:
    table.granted(QUEUE, asked_at_ms=0, now_ms=20_000, epoch=None)
    assert table.loss(QUEUE, TRUST_MS) is None
    assert "30001 ms ago" in str(table.loss(QUEUE, TRUST_MS + 1))


def test_a_grant_that_took_longer_than_trust_is_worth_nothing(table: LeaseTable) -> None:
    table.granted(QUEUE, asked_at_ms=0, now_ms=TRUST_MS + 1, epoch=None)
    assert table.loss(QUEUE, TRUST_MS + 1) is not None


def test_a_renewal_extends_trust(table: LeaseTable) -> None:
    table.granted(QUEUE, 0, 10, 7)
    table.granted(QUEUE, 20_000, 20_010, 7)
    assert table.loss(QUEUE, 20_000 + TRUST_MS) is None
    assert table.loss(QUEUE, 20_001 + TRUST_MS) is not None


def test_answers_out_of_order_never_shorten_trust(table: LeaseTable) -> None:
    table.granted(QUEUE, 20_000, 20_010, 7)
    table.granted(QUEUE, 10_000, 20_020, 7)
    assert table.loss(QUEUE, 45_000) is None


def test_a_renewal_that_is_granted_after_trust_ran_out_does_not_bring_it_back(
    table: LeaseTable,
) -> None:
    table.granted(QUEUE, 0, 10, None)
    table.granted(QUEUE, TRUST_MS + 5, TRUST_MS + 10, None)
    assert table.loss(QUEUE, TRUST_MS + 10) is not None
    table.granted(QUEUE, TRUST_MS + 20, TRUST_MS + 30, None)
    assert table.loss(QUEUE, TRUST_MS + 30) is not None


def test_a_refused_renewal_is_a_loss_for_ever_that_names_the_owner(table: LeaseTable) -> None:
    table.granted(QUEUE, 0, 10, 7)
    table.refused(QUEUE, "other#1")
    table.granted(QUEUE, 20, 30, 7)
    assert "held by other#1" in str(table.loss(QUEUE, 30))
    table.refused(QUEUE, "third#1")
    assert "held by other#1" in str(table.loss(QUEUE, 30)), "the first reason stands"


def test_a_refusal_without_an_owner_says_another_client(table: LeaseTable) -> None:
    table.granted(QUEUE, 0, 10, None)
    table.refused(QUEUE, None)
    assert "another client" in str(table.loss(QUEUE, 10))


def test_a_refusal_of_a_queue_never_held_changes_nothing(table: LeaseTable) -> None:
    table.refused(QUEUE, "other#1")
    assert table.queues == ()


@pytest.mark.parametrize(("before", "after"), [(7, 8), (7, None), (None, 1)])
def test_another_epoch_means_that_somebody_was_there_in_between(
    table: LeaseTable, before: int | None, after: int | None
) -> None:
    table.granted(QUEUE, 0, 10, before)
    table.granted(QUEUE, 20, 30, after)
    assert f"epoch {after} instead of {before}" in str(table.loss(QUEUE, 30))
    table.granted(QUEUE, 40, 50, before)
    assert table.loss(QUEUE, 50) is not None, "lost for ever"


def test_a_queue_given_back_is_not_ours_and_may_be_taken_anew(table: LeaseTable) -> None:
    table.granted(QUEUE, 0, 10, 7)
    table.dropped(QUEUE)
    table.dropped(QUEUE)
    assert table.loss(QUEUE, 10) is not None
    table.granted(QUEUE, 20, 30, 8)
    assert table.loss(QUEUE, 30) is None


def test_queues_are_independent_and_listed_in_order(table: LeaseTable) -> None:
    table.granted(OTHER, 0, 10, 1)
    table.granted(QUEUE, 0, 10, 1)
    table.refused(QUEUE, None)
    assert table.queues == (QUEUE, OTHER)
    assert table.loss(OTHER, 10) is None
