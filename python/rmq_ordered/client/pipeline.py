"""Many questions at once: all requests go out before the first answer is waited for.

A round trip per queue is what makes planning and committing slow; here a broker has all its
requests in flight together, and the brokers work side by side. One deadline covers everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rmq_ordered.client.retry import retry_until
from rmq_ordered.client.routes import RouteTable
from rmq_ordered.clock import Clock
from rmq_ordered.errors import ConnectionLost, RequestTimedOut, RmqOrderedError, TransportError
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.net.remoting import Remoting
from rmq_ordered.protocol.answers import understood
from rmq_ordered.protocol.command import RemotingCommand

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One request to the master of a broker.

    Attributes:
        topic: whose route says where that master is.
        broker_name: the broker.
        request: what is sent.
        what: in words, for errors.
        parse: what the answer from an address means; raises for a refusal.
    """

    topic: str
    broker_name: str
    request: RemotingCommand
    what: str
    parse: Callable[[RemotingCommand, str], T]


class Pipeline:
    """Thread-safe, like the parts it is made of."""

    def __init__(
        self, remoting: Remoting, routes: RouteTable, clock: Clock, timeout_ms: int
    ) -> None:
        self._remoting = remoting
        self._routes = routes
        self._clock = clock
        self._timeout_ms = timeout_ms

    def read(self, questions: Sequence[Question[T]]) -> list[T]:
        """Answers in the order of the questions.

        Only for what may be asked twice: questions that failed for a reason that may pass are asked
        again, at the address of a new route, until the deadline.

        Raises:
            RmqOrderedError: the first failure that lasted, after every answer was waited for.
        """
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        answers: dict[int, T] = {}

        def attempt() -> None:
            still_open = [index for index in range(len(questions)) if index not in answers]
            outcomes = self._round([questions[index] for index in still_open], deadline_ms)
            failures = [outcome for outcome in outcomes if isinstance(outcome, RmqOrderedError)]
            for index, outcome in zip(still_open, outcomes, strict=True):
                if not isinstance(outcome, RmqOrderedError):
                    answers[index] = outcome
            _raise_worst(failures)

        retry_until(self._clock, deadline_ms, attempt)
        return [answers[index] for index in range(len(questions))]

    def write(self, questions: Sequence[Question[T]]) -> None:
        """Send every request once.

        Raises:
            RmqOrderedError: the first failure, after every answer was waited for: the other
                requests may have taken effect.
        """
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        outcomes = self._round(questions, deadline_ms)
        _raise_worst([outcome for outcome in outcomes if isinstance(outcome, RmqOrderedError)])

    def _round(
        self, questions: Sequence[Question[T]], deadline_ms: int
    ) -> list[T | RmqOrderedError]:
        """Start all, then collect all; a failure stands in the place of its answer."""
        away: dict[tuple[str, str], RmqOrderedError] = {}
        started = [self._start(question, deadline_ms, away) for question in questions]
        outcomes: list[T | RmqOrderedError] = []
        for question, pending in zip(questions, started, strict=True):
            outcome: T | RmqOrderedError = self._collect(question, pending)
            outcomes.append(outcome)
        return outcomes

    def _start(
        self,
        question: Question[T],
        deadline_ms: int,
        away: dict[tuple[str, str], RmqOrderedError],
    ) -> PendingAnswer | RmqOrderedError:
        """``away`` holds the brokers of this round that cannot be sent to: none is tried twice."""
        place = question.topic, question.broker_name
        if place in away:
            return away[place]
        try:
            self._ensure_time(question, deadline_ms)
            address = self._routes.master(*place)
            left_ms = max(1, deadline_ms - self._clock.monotonic_ms())
            return self._remoting.start(address, question.request, question.what, left_ms)
        except RmqOrderedError as error:
            # A connection that was open and broke is replaced at once: the next one may pass.
            if not isinstance(error, ConnectionLost):
                away[place] = error
            return self._failed(question, error)

    def _ensure_time(self, question: Question[T], deadline_ms: int) -> None:
        """Finding a broker, or connecting to one, may have used up everybody's time."""
        if self._clock.monotonic_ms() >= deadline_ms:
            raise RequestTimedOut(question.broker_name, question.what, self._timeout_ms)

    def _collect(
        self, question: Question[T], pending: PendingAnswer | RmqOrderedError
    ) -> T | RmqOrderedError:
        if isinstance(pending, RmqOrderedError):
            return pending
        try:
            address = pending.channel.address
            return understood(question.parse, pending.result(), address, question.what)
        except RmqOrderedError as error:
            return self._failed(question, error)

    def _failed(self, question: Question[T], error: RmqOrderedError) -> RmqOrderedError:
        if isinstance(error, TransportError):
            self._routes.forget(question.topic)
        return error


def _raise_worst(failures: Sequence[RmqOrderedError]) -> None:
    """Raise what will not pass before what may."""
    for error in sorted(failures, key=lambda error: error.retryable):
        raise error
