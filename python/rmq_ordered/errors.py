"""Every error this package raises on purpose, in one tree.

    RmqOrderedError                     retryable = False
      OptionError (ValueError)          a setting is missing, unknown or wrong
      ProtocolError
        LocalProtocolError              we tried to send something illegal: a bug of ours
        RemoteProtocolError             the peer sent bytes we cannot accept
      TransportError                    retryable = True; the network failed
        ConnectFailed
        ConnectionLost
          ClientClosed                  retryable = False; by this process, on purpose
        RequestTimedOut (TimeoutError)  the outcome of the request is unknown
      BrokerError                       a valid answer with an unwelcome code
        TopicNotFound
        OffsetOutOfRange
        BrokerBusy                      retryable = True
        AccessDenied                    who asks is not known, or may not do this
      OrderingError                     going on would break a guarantee; never retried silently
        QueueLeaseUnavailable
        QueueLeaseLost
        QueueGap
        OffsetWentBack
        ReplayDiverged
        BatchSuperseded
        StreamGap
        QueueLayoutChanged
        SendUnsettled
        WriteFenced
      UndecodableMessage                a body is not what the query was told it is
      EmbeddedBrokerError               the broker's process did not start or died
        EmbeddedBrokerUnavailable       it was not even tried: Java, the jar or PySpark is missing

Fields first, sentence in ``__str__``: what was expected, what was found, what to do next. Spark
keeps only the text of an error, so every field that matters is in the sentence. ``args`` always
holds the constructor's arguments, so that errors survive pickling.
"""

from __future__ import annotations

from collections.abc import Sequence


class RmqOrderedError(Exception):
    """Base of the tree. ``retryable`` says whether the same call may simply be tried again."""

    retryable = False


class OptionError(RmqOrderedError, ValueError):
    """A setting is missing, unknown or has a value that cannot be used."""

    def __init__(self, option: str, found: object, expected: str) -> None:
        super().__init__(option, found, expected)
        self.option = option
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        if self.found is None:
            return f"option '{self.option}': expected {self.expected}"
        return f"option '{self.option}': expected {self.expected}, found {self.found!r}"


class ProtocolError(RmqOrderedError):
    """Bytes or a sequence of calls that RocketMQ's protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """We were about to send something illegal: a bug on this side."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that cannot be RocketMQ's protocol."""


class TransportError(RmqOrderedError):
    """The network between us and one address failed."""

    retryable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


class ConnectFailed(TransportError):
    """No connection could be made."""

    def __str__(self) -> str:
        return (
            f"cannot connect to {self.address}: {self.reason}; "
            "check that the name server or broker runs there and that the address is reachable "
            "from this machine"
        )


class ConnectionLost(TransportError):
    """An established connection ended while answers were outstanding."""

    def __str__(self) -> str:
        return f"connection to {self.address} was lost: {self.reason}"


class ClientClosed(ConnectionLost):
    """Somebody in this process has closed the client whose connection this would be."""

    retryable = False

    def __init__(self, address: str) -> None:
        super().__init__(address, "this client is closed")
        self.args = (address,)

    def __str__(self) -> str:
        return (
            f"nothing more is sent to {self.address}: this client is closed; "
            "keep it open until everything that uses it has ended, or make another"
        )


class RequestTimedOut(TransportError, TimeoutError):
    """No answer came in time. Whether the request took effect is unknown."""

    def __init__(self, address: str, what: str, timeout_ms: int) -> None:
        super().__init__(address, f"no answer to {what} within {timeout_ms} ms")
        self.args = (address, what, timeout_ms)
        self.what = what
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"{self.address} gave {self.reason}; the outcome of the request is unknown"


class BrokerError(RmqOrderedError):
    """The broker understood the request and refused it."""

    def __init__(self, address: str, what: str, code: int, remark: str | None) -> None:
        super().__init__(address, what, code, remark)
        self.address = address
        self.what = what
        self.code = code
        self.remark = remark

    def __str__(self) -> str:
        remark = self.remark or "no remark"
        return f"{self.address} refused {self.what} with code {self.code}: {remark}"


class TopicNotFound(BrokerError):
    """No broker of this name server serves the topic."""

    def __init__(self, address: str, topic: str, remark: str | None = None) -> None:
        super().__init__(address, f"topic {topic}", 17, remark)
        self.args = (address, topic, remark)
        self.topic = topic

    def __str__(self) -> str:
        return (
            f"topic '{self.topic}' is not known at {self.address}: "
            f"create it (rmq-ordered topic create {self.topic} --queues N) or check its name"
        )


class OffsetOutOfRange(BrokerError):
    """The broker no longer has, or does not yet have, the queue offset that was asked for."""

    def __init__(self, address: str, queue: object, asked: int, minimum: int, maximum: int) -> None:
        super().__init__(address, f"pull of {queue}", 21, None)
        self.args = (address, queue, asked, minimum, maximum)
        self.queue = queue
        self.asked = asked
        self.minimum = minimum
        self.maximum = maximum

    def __str__(self) -> str:
        return (
            f"{self.queue}: queue offset {self.asked} was asked for, but {self.address} holds "
            f"[{self.minimum}, {self.maximum}): messages expired, or the topic was made anew or "
            "lost a queue; to go on without what is missing, set failOnDataLoss=false or start "
            "with a new checkpoint"
        )


class BrokerBusy(BrokerError):
    """Flow control: the broker asks to be left alone for a moment."""

    retryable = True


class AccessDenied(BrokerError):
    """Access control, or the permissions of a topic, forbid the request."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}; check the access key, its secret key and what this user may do, "
            "and that the topic may be read and written"
        )


class OrderingError(RmqOrderedError):
    """Going on would break a guarantee about order or ownership."""


class QueueLeaseUnavailable(OrderingError):
    """Another client holds queues that this one must own before it may read."""

    def __init__(
        self, group: str, waited_ms: int, owners: Sequence[tuple[object, str | None]]
    ) -> None:
        super().__init__(group, waited_ms, owners)
        self.group = group
        self.waited_ms = waited_ms
        self.owners = tuple(owners)

    def __str__(self) -> str:
        held = ", ".join(f"{queue} by {owner or 'another client'}" for queue, owner in self.owners)
        return (
            f"group '{self.group}' could not lease its queues within {self.waited_ms} ms: held "
            f"are {held}; "
            "stop the other consumer of this group, use another group, or raise leaseTimeout"
        )


class QueueLeaseLost(OrderingError):
    """A lease this client held is no longer its own, or can no longer be trusted."""

    def __init__(self, group: str, queue: object, client_id: str, reason: str) -> None:
        super().__init__(group, queue, client_id, reason)
        self.group = group
        self.queue = queue
        self.client_id = client_id
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"lease of group '{self.group}' on {self.queue} held as '{self.client_id}' is lost: "
            f"{self.reason}; "
            "nothing more is read or committed under it; start the query again to take the queue "
            "back"
        )


class QueueGap(OrderingError):
    """Queue offsets did not follow one another where they must."""

    def __init__(self, queue: object, expected: int, found: int) -> None:
        super().__init__(queue, expected, found)
        self.queue = queue
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.queue}: expected queue offset {self.expected}, found {self.found}; "
            "the messages in between are gone at the broker, or its answer cannot be trusted"
        )


class OffsetWentBack(OrderingError):
    """A commit would move a group's offset backwards."""

    def __init__(self, group: str, queue: object, committed: int, proposed: int) -> None:
        super().__init__(group, queue, committed, proposed)
        self.group = group
        self.queue = queue
        self.committed = committed
        self.proposed = proposed

    def __str__(self) -> str:
        return (
            f"group '{self.group}' on {self.queue}: committed offset is {self.committed}, "
            f"and {self.proposed} would move it back; somebody else committed meanwhile"
        )


class ReplayDiverged(OrderingError):
    """A batch is written again with other rows, or the same rows in another order."""

    def __init__(self, queue: object, stream: object, sequence: int, reason: str) -> None:
        super().__init__(queue, stream, sequence, reason)
        self.queue = queue
        self.stream = stream
        self.sequence = sequence
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.queue}: row {self.sequence} of {self.stream} landed before, but this attempt "
            f"is not a repetition of that one: {self.reason}; rows must reach the sink in the same "
            "order each time (no shuffle between source and sink), or set "
            "onReplayDivergence=resend to write them all again"
        )


class BatchSuperseded(OrderingError):
    """A later batch of the same writer has landed: this attempt is a leftover."""

    def __init__(self, queue: object, stream: object, latest: int) -> None:
        super().__init__(queue, stream, latest)
        self.queue = queue
        self.stream = stream
        self.latest = latest

    def __str__(self) -> str:
        return (
            f"{self.queue}: {self.stream} cannot be written, because batch {self.latest} of the "
            "same sink and partition has landed already; an old attempt is still alive, or two "
            "queries share one sink id: stop one, or give each its own"
        )


class StreamGap(OrderingError):
    """Rows that were acknowledged before are not there any more."""

    def __init__(self, queue: object, stream: object, acknowledged: int, found: int) -> None:
        super().__init__(queue, stream, acknowledged, found)
        self.queue = queue
        self.stream = stream
        self.acknowledged = acknowledged
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.queue}: {self.acknowledged} rows of {self.stream} were acknowledged, but the "
            f"broker has {self.found}: it lost messages (a crash with asynchronous flush, or a "
            "topic that was made anew); start the query again to write the batch once more"
        )


class QueueLayoutChanged(OrderingError):
    """Queues that keys were given to are gone: going on would move keys to other queues."""

    def __init__(self, topic: str, missing: Sequence[object], found: int) -> None:
        super().__init__(topic, missing, found)
        self.topic = topic
        self.missing = tuple(missing)
        self.found = found

    def __str__(self) -> str:
        gone = ", ".join(map(str, self.missing))
        return (
            f"topic '{self.topic}': the queues {gone} can no longer be written to, {self.found} "
            "others can; keys would move to other queues and lose their order: bring the broker "
            "or the queues back, or set onQueueLayoutChange=rehash"
        )


class SendUnsettled(OrderingError):
    """What was sent before may still be stored: anything newer could overtake it."""

    def __init__(self, queue: object, reason: str) -> None:
        super().__init__(queue, reason)
        self.queue = queue
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.queue}: a failed call of this producer left a request in flight, and what "
            f"became of it cannot be found out: {self.reason}; nothing newer was sent to this "
            "queue, so that nothing is overtaken: call again, or make a new OrderedProducer to go "
            "on without knowing"
        )


class WriteFenced(OrderingError):
    """The run that writes has lost a queue that it read from: others write its rows now."""

    def __init__(self, queue: object, run: str, reason: str) -> None:
        super().__init__(queue, run, reason)
        self.queue = queue
        self.run = run
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.queue}: the broker stores nothing more of run {self.run}: {self.reason}; "
            "another consumer of the group may be writing the same rows now: let it go on, or stop "
            "it and start this query again"
        )


class UndecodableMessage(RmqOrderedError):
    """A message's body is damaged, or not of the format that the query expects."""

    def __init__(self, queue: object, queue_offset: int, message_id: str, reason: str) -> None:
        super().__init__(queue, queue_offset, message_id, reason)
        self.queue = queue
        self.queue_offset = queue_offset
        self.message_id = message_id
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"message {self.message_id} of {self.queue} at queue offset {self.queue_offset} cannot "
            f"be decoded: {self.reason}; to go on without it set onDecodeError to null or dlq"
        )


class EmbeddedBrokerError(RmqOrderedError):
    """The embedded broker's process did not become ready, or ended."""

    def __init__(self, what: str, exit_code: int | None, last_lines: Sequence[str]) -> None:
        super().__init__(what, exit_code, last_lines)
        self.what = what
        self.exit_code = exit_code
        self.last_lines = tuple(last_lines)

    def __str__(self) -> str:
        tail = "\n  ".join(self.last_lines) or "(no output)"
        return f"{self.what} (exit code {self.exit_code}); last lines of its log:\n  {tail}"


class EmbeddedBrokerUnavailable(EmbeddedBrokerError):
    """Something the broker needs is missing here; it was not even tried to start it."""

    def __init__(self, what: str) -> None:
        super().__init__(what, None, ())
        self.args = (what,)

    def __str__(self) -> str:
        return self.what
