"""Apache's own Java clients as Python calls: producers, consumers, queue selector and mqadmin."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.java_programs import (
    PACKAGE,
    Event,
    JavaProgram,
    JavaProgramFailed,
    compiled_programs,
    java_command,
)
from tests.support.maven import rocketmq_jars

SEND_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 30.0
MQADMIN_TIMEOUT_S = 60.0
MQADMIN_FAILURES = ("Exception", "The sub command")
MQADMIN = f"{PACKAGE}.Mqadmin"


@dataclass(frozen=True)
class Sent:
    """What a producer was told about one message."""

    key: str
    queue_id: int
    queue_offset: int
    message_id: str


@dataclass(frozen=True)
class SentBatch:
    """What a producer was told about one batch: the offset is that of its first message."""

    count: int
    queue_id: int
    queue_offset: int
    message_ids: tuple[str, ...]


@dataclass(frozen=True)
class Received:
    """One call of a consumer's listener; times are wall-clock milliseconds of this machine."""

    queue_id: int
    queue_offset: int
    key: str | None
    body: str
    reconsume_times: int
    started_at_ms: int
    ended_at_ms: int

    @classmethod
    def of(cls, event: Event) -> "Received":
        """Reads the event that a consumer program prints."""
        return cls(
            queue_id=event["queueId"],
            queue_offset=event["queueOffset"],
            key=event["key"] if event["key"] is not None else event["keys"],
            body=event["body"],
            reconsume_times=event["reconsumeTimes"],
            started_at_ms=event["startedAt"],
            ended_at_ms=event["endedAt"],
        )


@dataclass(frozen=True)
class Choice:
    """The queue that Apache's hash selector picks for a key."""

    hash_code: int
    index: int


class Consumer(JavaProgram):
    """A running consumer program."""

    @property
    def client_id(self) -> str:
        """The id by which the broker knows this client; waits until it has started."""
        (started,) = self.wait_for_event("started", ANSWER_TIMEOUT_S)
        client_id: str = started["clientId"]
        return client_id

    @property
    def received(self) -> list[Received]:
        """Messages handled successfully so far, in the order of their handling."""
        return [Received.of(event) for event in self.events("message")]

    @property
    def suspended(self) -> list[Received]:
        """Messages refused so far (orderly listener only)."""
        return [Received.of(event) for event in self.events("suspended")]

    @property
    def assigned_queue_ids(self) -> list[int] | None:
        """The queues of the last rebalance (push consumer only), or None before the first."""
        assignments = self.events("assigned")
        return assignments[-1]["queueIds"] if assignments else None

    def wait_for_messages(self, count: int, timeout_s: float) -> list[Received]:
        """Waits until that many messages were handled, and returns all handled so far."""
        return [
            Received.of(event) for event in self.wait_for_event("message", timeout_s, count=count)
        ]


class SelectorOracle(JavaProgram):
    """Apache's SelectMessageQueueByHash, one question at a time, in one long-lived JVM."""

    def __init__(self, home: Path) -> None:
        super().__init__("SelectorOracle", [], home)
        self._asked = 0

    def choose(self, key: str, queues: int) -> Choice:
        """Asks for the hash code of a key and the index chosen among so many queues."""
        # json escapes what is not ASCII, lone surrogates included, so any Python string gets
        # through.
        self.write_lines([json.dumps({"key": key, "queues": queues})])
        self._asked += 1
        answer = self.wait_for_event("chosen", ANSWER_TIMEOUT_S, count=self._asked)[-1]
        return Choice(answer["hashCode"], answer["index"])


class JavaClients:
    """Starts Apache's Java clients; whatever still runs at the end of the ``with`` block is killed.

    Args:
        home: A temporary folder that serves the clients as home and holds their logs.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._started: list[JavaProgram] = []
        rocketmq_jars()
        compiled_programs()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for program in self._started:
            program.kill()

    def send_ordered(
        self,
        name_server: str,
        topic: str,
        pairs: Iterable[tuple[str, str]],
        *,
        with_sharding_key: bool = True,
    ) -> list[Sent]:
        """Sends (key, value) pairs one after another, each to the queue its key selects."""
        arguments = _arguments(name_server, topic, **{"sharding-key": with_sharding_key})
        return [
            Sent(event["key"], event["queueId"], event["queueOffset"], event["msgId"])
            for event in self._feed("OrderedProducer", arguments, _lines(pairs))
        ]

    def send_batches(
        self,
        name_server: str,
        topic: str,
        pairs: Iterable[tuple[str, str]],
        *,
        queue_id: int,
        batch_size: int,
    ) -> list[SentBatch]:
        """Sends (key, value) pairs in batches to one queue."""
        extra = {"queue": queue_id, "batch-size": batch_size, "sharding-key": True}
        arguments = _arguments(name_server, topic, **extra)
        return [
            SentBatch(
                count=event["count"],
                queue_id=event["queueId"],
                queue_offset=event["queueOffset"],
                message_ids=tuple(event["msgId"].split(",")),
            )
            for event in self._feed("BatchProducer", arguments, _lines(pairs))
        ]

    def orderly_consumer(
        self,
        name_server: str,
        topic: str,
        group: str,
        *,
        max_messages: int | None = None,
        idle_ms: int | None = None,
        work_ms: int = 0,
        fail_body: str | None = None,
        fail_times: int = 0,
        max_reconsume_times: int | None = None,
    ) -> Consumer:
        """Starts a push consumer with an orderly listener, from the first offset.

        Args:
            name_server: Where to find the topic.
            topic: What to consume, all tags.
            group: The consumer group.
            max_messages: Stop after so many messages were handled.
            idle_ms: Stop after so long without any.
            work_ms: How long the listener takes for each message.
            fail_body: Refuse the message with this body ...
            fail_times: ... the first so many times.
            max_reconsume_times: Hand the message to the dead-letter queue after so many retries.
        """
        options = {
            "group": group,
            "max-messages": max_messages,
            "idle-ms": idle_ms,
            "work-ms": work_ms,
            "fail-body": fail_body,
            "fail-times": fail_times,
            "max-reconsume-times": max_reconsume_times,
        }
        return self._consumer("OrderlyConsumer", _arguments(name_server, topic, **options))

    def concurrent_consumer(
        self,
        name_server: str,
        topic: str,
        group: str,
        *,
        server_rebalance: bool = False,
        fail_body: str | None = None,
        fail_times: int = 0,
    ) -> Consumer:
        """Starts a push consumer with a concurrent listener, from the first offset.

        Args:
            name_server: Where to find the topic.
            topic: What to consume, all tags.
            group: The consumer group.
            server_rebalance: Let the broker assign queues, which POP needs.
            fail_body: Refuse the message with this body ...
            fail_times: ... the first so many times.
        """
        options = {
            "group": group,
            "server-rebalance": server_rebalance,
            "fail-body": fail_body,
            "fail-times": fail_times,
        }
        return self._consumer("ConcurrentConsumer", _arguments(name_server, topic, **options))

    def lite_pull_consumer(
        self,
        name_server: str,
        topic: str,
        group: str,
        *,
        max_messages: int | None = None,
        idle_ms: int | None = None,
    ) -> Consumer:
        """Starts a lite pull consumer in subscribe mode; it starts at 0 and commits as it polls."""
        options = {"group": group, "max-messages": max_messages, "idle-ms": idle_ms}
        return self._consumer("LitePull", _arguments(name_server, topic, **options))

    def selector_oracle(self) -> SelectorOracle:
        """Starts the selector oracle."""
        oracle = SelectorOracle(self._home)
        self._started.append(oracle)
        return oracle

    def mqadmin(self, name_server: str, command: str, *arguments: str) -> str:
        """Runs one mqadmin command and returns what it printed.

        Raises:
            JavaProgramFailed: It failed; mqadmin says so in its output, not by its exit status.
        """
        java = java_command(MQADMIN, [command, "-n", name_server, *arguments], self._home)
        done = subprocess.run(
            java, capture_output=True, text=True, timeout=MQADMIN_TIMEOUT_S, check=False
        )
        output = done.stdout + done.stderr
        if done.returncode != 0 or any(sign in output for sign in MQADMIN_FAILURES):
            raise JavaProgramFailed("mqadmin", f"{command} {' '.join(arguments)} failed", output)
        return done.stdout

    def run(self, program: str, arguments: Sequence[str], lines: Sequence[str] = ()) -> list[Event]:
        """Runs any of the programs to its end on some input lines, and returns its events."""
        return self._feed(program, arguments, lines)

    def _feed(self, program: str, arguments: Sequence[str], lines: Sequence[str]) -> list[Event]:
        with JavaProgram(program, arguments, self._home) as running:
            running.write_lines(lines)
            return running.finish(SEND_TIMEOUT_S)

    def _consumer(self, program: str, arguments: Sequence[str]) -> Consumer:
        consumer = Consumer(program, arguments, self._home)
        self._started.append(consumer)
        return consumer


def _arguments(name_server: str, topic: str, **options: object) -> list[str]:
    arguments = ["--name-server", name_server, "--topic", topic]
    for name, value in options.items():
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments += [f"--{name}", text]
    return arguments


def _lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    lines = [f"{key}\t{value}" for key, value in pairs]
    assert all(line.count("\n") == 0 for line in lines), "a line break would split a message in two"
    return lines
