"""SingleOwner: two clients, one broker, any delays, and never two who believe.

The broker is the naive ``LockTable``: a lock lives 60 s after the last request it processed. Each
client is a ``LeaseTable`` driven the way ``LeaseKeeper`` drives it: it trusts for 30 s from the
moment it *asked*. Requests and answers take as long as hypothesis likes, or get lost.
"""

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.examples import examples
from tests.support.promises import proves

from rmq_ordered.model import LockAnswer, MessageQueue
from rmq_ordered.ordering.lease import LeaseTable
from rmq_ordered.testing import LockTable, ManualClock

QUEUE = MessageQueue("orders", "broker-a", 0)
GROUP = "billing"
NAMES = st.sampled_from(["a", "b"])


@dataclass
class Asked:
    """A lock request that its client still waits for."""

    at_ms: int
    is_renewal: bool
    answer: LockAnswer | None = None


@dataclass
class ClientModel:
    """One client: its table, what it waits for, and what is on its way to the broker."""

    table: LeaseTable
    waiting: Asked | None = None
    # Requests in the order sent; a lock request that nobody waits for any more may still arrive.
    on_the_way: deque[Asked | None] = field(default_factory=deque)


class LeaseMachine(RuleBasedStateMachine):
    """Two clients want the same queue."""

    TRUST_MS = 30_000

    @initialize(has_epochs=st.booleans())
    def begin(self, has_epochs: bool) -> None:
        self.clock = ManualClock(monotonic_ms=0)
        self.broker = LockTable()
        self.has_epochs = has_epochs
        self.clients = {
            name: ClientModel(LeaseTable(GROUP, name, self.TRUST_MS)) for name in ("a", "b")
        }

    def now(self) -> int:
        return self.clock.monotonic_ms()

    @rule(duration_ms=st.integers(1, 70_000) | st.sampled_from([1, 20_000, 30_000, 60_000]))
    def let_time_pass(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)

    @rule(name=NAMES)
    def ask(self, name: str) -> None:
        """Acquire, or renew if the queue is in the table."""
        client = self.clients[name]
        if client.waiting is None:
            client.waiting = Asked(self.now(), is_renewal=QUEUE in client.table.queues)
            client.on_the_way.append(client.waiting)

    @rule(name=NAMES)
    def arrive(self, name: str) -> None:
        """The broker processes the client's oldest request: a lock, or an unlock (None)."""
        client = self.clients[name]
        if not client.on_the_way:
            return
        request = client.on_the_way.popleft()
        if request is None:
            self.broker.unlock(GROUP, name, QUEUE)
        else:
            request.answer = self.broker.lock(GROUP, name, QUEUE, self.now())

    @rule(name=NAMES)
    def lose_request(self, name: str) -> None:
        if self.clients[name].on_the_way:
            self.clients[name].on_the_way.popleft()

    @rule(name=NAMES)
    def hear(self, name: str) -> None:
        """The answer reaches the client."""
        client = self.clients[name]
        asked = client.waiting
        if asked is None or asked.answer is None:
            return
        client.waiting = None
        if asked.is_renewal and QUEUE not in client.table.queues:
            return
        if asked.answer.granted:
            epoch = asked.answer.epoch if self.has_epochs else None
            client.table.granted(QUEUE, asked.at_ms, self.now(), epoch)
        else:
            client.table.refused(QUEUE, asked.answer.owner)

    @rule(name=NAMES)
    def give_up_waiting(self, name: str) -> None:
        self.clients[name].waiting = None

    @precondition(lambda self: any(client.table.queues for client in self.clients.values()))
    @rule(name=NAMES)
    def release(self, name: str) -> None:
        """Stop trusting first, then tell the broker."""
        client = self.clients[name]
        if QUEUE in client.table.queues:
            client.table.dropped(QUEUE)
            client.on_the_way.append(None)

    def believers(self) -> list[str]:
        return [
            name
            for name, client in self.clients.items()
            if client.table.loss(QUEUE, self.now()) is None
        ]

    @invariant()
    def single_owner(self) -> None:
        assert len(self.believers()) <= 1

    @invariant()
    def who_believes_is_who_the_broker_holds_it_for(self) -> None:
        for name in self.believers():
            assert self.broker.owner(GROUP, QUEUE, self.now()) == name

    @invariant()
    def a_token_of_the_believer_passes_the_fence(self) -> None:
        if self.has_epochs:
            for name in self.believers():
                token = self.clients[name].table.lease(QUEUE)
                assert token.epoch == self.broker.epoch(GROUP, QUEUE)


@proves("trust-ends-before-lease")
def test_at_most_one_client_believes_that_it_owns_the_queue() -> None:
    search = settings(max_examples=examples(400), stateful_step_count=50)
    run_state_machine_as_test(LeaseMachine, settings=search)


class CarelessMachine(LeaseMachine):
    """Trusts longer than the broker keeps its promise."""

    TRUST_MS = 90_000


def test_the_invariant_notices_a_trust_that_outlives_the_lock() -> None:
    search = settings(
        max_examples=2_000,
        stateful_step_count=50,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        print_blob=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(CarelessMachine, settings=search)
