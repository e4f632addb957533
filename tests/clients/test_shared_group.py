"""One group, two languages: Apache's Java orderly consumer and this project's, side by side.

Members join, are killed and leave in turn, while messages keep coming. Nobody handles a queue while
somebody else does, nothing is lost, and first deliveries keep the order of each key.
"""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.clients.order import (
    assert_first_deliveries_follow_send_order,
    assert_one_owner_at_a_time,
    keyed_messages,
    wait_until_all_committed,
    wait_until_assigned,
)
from tests.support.brokers import Broker
from tests.support.java_clients import Consumer, JavaClients, Sent
from tests.support.paths import ROOT
from tests.support.promises import proves
from tests.support.waiting import wait_until

PROGRAM = ROOT / "tests" / "support" / "ordered_consumer.py"
QUEUES, KEYS, EACH = 4, 8, 15
WORK_MS = 10
TIMEOUT_S = 60.0


class SharedGroup:
    """A topic, a group, everybody who was ever in it, and everything that was ever sent."""

    def __init__(self, broker: Broker, java: JavaClients, home: Path) -> None:
        self._broker = broker
        self._java = java
        self._home = home
        self._topic = broker.create_topic("shared", QUEUES)
        self._group = broker.unique("shared")
        self._members: list[Consumer] = []
        self._pairs: list[tuple[str, str]] = []
        self._sent: list[Sent] = []

    def java(self) -> Consumer:
        member = self._java.orderly_consumer(
            self._broker.name_server, self._topic, self._group, work_ms=WORK_MS
        )
        self._members.append(member)
        return member

    def python(self) -> Consumer:
        arguments = [self._broker.name_server, self._topic, self._group, str(WORK_MS)]
        command = [sys.executable, str(PROGRAM), *arguments]
        member = Consumer("OrderedConsumer", [], self._home, command=command)
        self._members.append(member)
        return member

    def send(self) -> None:
        more = keyed_messages(KEYS, EACH, first=len(self._pairs) // KEYS)
        self._pairs += more
        self._sent += self._java.send_ordered(self._broker.name_server, self._topic, more)

    def wait_until_all_is_handled(self) -> None:
        def missing() -> set[str]:
            seen = {message.body for member in self._members for message in member.received}
            return {value for _, value in self._pairs} - seen

        wait_until(lambda: not missing(), "every message was handled by somebody", TIMEOUT_S)

    def check(self) -> None:
        wait_until_all_committed(self._broker, self._group, self._topic, self._sent)
        handled = [member.received for member in self._members]
        for one, other in itertools.combinations(handled, 2):
            assert_one_owner_at_a_time(one, other)
        everything = [message for received in handled for message in received]
        assert_first_deliveries_follow_send_order(everything, self._pairs)

    def end(self) -> None:
        for member in self._members:
            member.kill()


@pytest.fixture
def shared(short_leases: Broker, javaclients: JavaClients, tmp_path: Path) -> Iterator[SharedGroup]:
    group = SharedGroup(short_leases, javaclients, tmp_path)
    yield group
    group.end()


Start = Callable[[SharedGroup], Consumer]


@proves("consumer-beside-java")
@pytest.mark.parametrize(
    ("first", "second"),
    [(SharedGroup.java, SharedGroup.python), (SharedGroup.python, SharedGroup.java)],
    ids=["python joins java", "java joins python"],
)
def test_a_member_of_the_other_language_joins_is_killed_comes_back_and_leaves(
    shared: SharedGroup, first: Start, second: Start
) -> None:
    stays = first(shared)
    wait_until_assigned(stays, QUEUES)
    shared.send()
    killed = second(shared)  # while the other is at work
    wait_until_assigned(killed, QUEUES // 2)
    wait_until_assigned(stays, QUEUES // 2)
    shared.send()
    killed.wait_for_messages(5, TIMEOUT_S)
    killed.kill()
    wait_until_assigned(stays, QUEUES)
    shared.wait_until_all_is_handled()

    leaves = second(shared)
    wait_until_assigned(leaves, QUEUES // 2)
    shared.send()
    leaves.wait_for_messages(5, TIMEOUT_S)
    leaves.stop()
    wait_until_assigned(stays, QUEUES)
    shared.wait_until_all_is_handled()
    shared.check()
