"""How far a broker has come with its own log."""

from __future__ import annotations

from dataclasses import dataclass

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.protocol.bodies import decode_object, typed
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand


@dataclass(frozen=True, slots=True)
class LogProgress:
    """Positions in a broker's commit log, in bytes.

    Attributes:
        appended: the end of the log.
        dispatched: up to where messages are in their consume queues, so that they can be read.
    """

    appended: int
    dispatched: int


def runtime_request() -> RemotingCommand:
    """Ask a broker how it is."""
    return RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)


def parse_log_progress(response: RemotingCommand) -> LogProgress:
    """What the answer says of the log."""
    what = "runtime information"
    table = typed(decode_object(response.body, what), "table", dict, what)
    appended = _number(table, "commitLogMaxOffset", what)
    return LogProgress(appended, appended - _number(table, "dispatchBehindBytes", what))


def _number(table: dict[str, object], name: str, what: str) -> int:
    """A number that is written as a text."""
    text = typed(table, name, str, what)
    try:
        return int(text)
    except ValueError:
        raise RemoteProtocolError(
            f"{what}: field '{name}' should be a number, found {text!r:.80}"
        ) from None
