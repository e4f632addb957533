"""Apache's own Java clients as Python calls: producers, consumers, queue selector and mqadmin."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.java_programs import (
    Event,
    JavaProgram,
    JavaProgramFailed,
    compiled_programs,
)
from tests.support.maven import ROCKETMQ_5, Release, rocketmq_jars
from tests.support.processes import tail

SEND_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 30.0
MQADMIN_TIMEOUT_S = 60.0
MQADMIN_FAILURES = ("Exception", "The sub command")


@dataclass(frozen=True)
class Sent:
    """What a producer was told about one message."""

    key: str
    queue_id: int
    queue_offset: int
    message_id: str


@dataclass(frozen=True)
class Answer:
    """What a producer was told about one message of `JavaClients.send`, and when."""

    body: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_message_id: str
    at_ms: int


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
    def held(self) -> list[str]:
        """The bodies of messages whose handling does not end (stuck concurrent listener only)."""
        return [event["body"] for event in self.events("held")]

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


class Mqadmin(JavaProgram):
    """Apache's mqadmin, one command at a time, in one long-lived JVM."""

    def __init__(self, home: Path) -> None:
        super().__init__("Mqadmin", [], home)
        self._asked = 0

    def run(self, words: Sequence[str]) -> str:
        """Runs one command and returns what it wrote to standard output.

        Raises:
            JavaProgramFailed: It failed; mqadmin says so in what it prints, not by a status.
        """
        self.write_lines([json.dumps(words)])
        self._asked += 1
        answer = self.wait_for_event("printed", MQADMIN_TIMEOUT_S, count=self._asked)[-1]
        output: str = answer["output"]
        if any(sign in output + answer["errors"] for sign in MQADMIN_FAILURES):
            # Requests of mqadmin give up after 5 s: the time tells a busy machine from a refusal.
            what = f"failed after {answer['millis']} ms: {' '.join(words)}"
            said = f"standard output:\n{output}\nstandard error:\n{answer['errors']}"
            raise JavaProgramFailed(self.name, what, f"{tail(self.log)}\n{said}")
        return output


class JavaClients:
    """Starts Apache's Java clients; whatever still runs at the end of the ``with`` block is killed.

    Args:
        home: A temporary folder that serves the clients as home and holds their logs.
        release: Of the producers and consumers; mqadmin and the selector are always the newest.
    """

    def __init__(self, home: Path, release: Release = ROCKETMQ_5) -> None:
        self._home = home
        self._release = release
        self._started: list[JavaProgram] = []
        self._mqadmin: Mqadmin | None = None
        for needed in (ROCKETMQ_5, release):
            rocketmq_jars(needed)
            compiled_programs(needed)

    @property
    def version(self) -> str:
        """Of the producers and consumers."""
        return self._release.version

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

    def send(
        self, name_server: str, topic: str, messages: Iterable[tuple[str, str]]
    ) -> list[Answer]:
        """Sends (how, body) pairs to any queue; how is explained in ``Sender.java``.

        Returns the answers in the order in which they came; a one-way send has none.
        """
        events = self._feed("Sender", _arguments(name_server, topic), _lines(messages))
        return [
            Answer(
                body=event["body"],
                queue_id=event["queueId"],
                queue_offset=event["queueOffset"],
                message_id=event["msgId"],
                offset_message_id=event["offsetMsgId"],
                at_ms=event["at"],
            )
            for event in events
        ]

    def sender(self, name_server: str, topic: str) -> JavaProgram:
        """Starts a producer that stays; its input lines are explained in ``Sender.java``."""
        arguments = _arguments(name_server, topic)
        program = JavaProgram("Sender", arguments, self._home, self._release)
        self._started.append(program)
        return program

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
        refuse: Mapping[str, int] | None = None,
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
            refuse: How often to refuse the message with this body.
            max_reconsume_times: Hand the message to the dead-letter queue after so many retries.
        """
        options = {
            "group": group,
            "max-messages": max_messages,
            "idle-ms": idle_ms,
            "work-ms": work_ms,
            "refuse": refuse,
            "max-reconsume-times": max_reconsume_times,
        }
        return self._consumer("OrderlyConsumer", _arguments(name_server, topic, **options))

    def concurrent_consumer(
        self, name_server: str, topic: str, group: str, **options: object
    ) -> Consumer:
        """Starts a push consumer with a concurrent listener, from the first offset.

        Args:
            name_server: Where to find the topic.
            topic: What to consume.
            group: The consumer group.
            options: Of ``ConcurrentConsumer.java``, underscores for hyphens: ``tags`` or ``sql``;
                ``broadcast`` with its ``instance``; ``server_rebalance``, which POP needs,
                ``invisible_ms`` and ``stuck``, for which nothing is ever finished;
                ``refuse`` and ``max_reconsume_times`` as above.
        """
        named = {name.replace("_", "-"): value for name, value in options.items()}
        arguments = _arguments(name_server, topic, group=group, **named)
        return self._consumer("ConcurrentConsumer", arguments)

    def lite_pull_consumer(
        self, name_server: str, topic: str, group: str, **options: object
    ) -> Consumer:
        """Starts a lite pull consumer, by default in subscribe mode and committing as it polls.

        Args:
            name_server: Where to find the topic.
            topic: What to consume, all tags.
            group: The consumer group.
            options: Of ``LitePull.java``, underscores for hyphens: ``assign``, ``seek`` and
                ``seek_after``, ``auto_commit``, ``max_messages``, ``idle_ms``.
        """
        named = {name.replace("_", "-"): value for name, value in options.items()}
        return self._consumer("LitePull", _arguments(name_server, topic, group=group, **named))

    def selector_oracle(self) -> SelectorOracle:
        """Starts the selector oracle."""
        oracle = SelectorOracle(self._home)
        self._started.append(oracle)
        return oracle

    def mqadmin(self, name_server: str, command: str, *arguments: str) -> str:
        """Runs one mqadmin command and returns what it printed, or raises JavaProgramFailed."""
        if self._mqadmin is None:
            self._mqadmin = Mqadmin(self._home)
            self._started.append(self._mqadmin)
        return self._mqadmin.run([command, "-n", name_server, *arguments])

    def run(self, program: str, arguments: Sequence[str], lines: Sequence[str] = ()) -> list[Event]:
        """Runs any of the programs to its end on some input lines, and returns its events."""
        return self._feed(program, arguments, lines)

    def _feed(self, program: str, arguments: Sequence[str], lines: Sequence[str]) -> list[Event]:
        with JavaProgram(program, arguments, self._home, self._release) as running:
            running.write_lines(lines)
            return running.finish(SEND_TIMEOUT_S)

    def _consumer(self, program: str, arguments: Sequence[str]) -> Consumer:
        consumer = Consumer(program, arguments, self._home, self._release)
        self._started.append(consumer)
        return consumer


def _arguments(name_server: str, topic: str, **options: object) -> list[str]:
    arguments = ["--name-server", name_server, "--topic", topic]
    for name, value in options.items():
        if value is not None:
            arguments += [f"--{name}", _text(value)]
    return arguments


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={inner}" for name, inner in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    lines = [f"{key}\t{value}" for key, value in pairs]
    assert all(line.count("\n") == 0 for line in lines), "a line break would split a message in two"
    return lines
