"""From an unwelcome response code to the error that says what to do about it, only here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rmq_ordered.errors import AccessDenied, BrokerBusy, BrokerError, RemoteProtocolError
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import Header, RemotingCommand

T = TypeVar("T")
_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL})


def refusal(response: Header | RemotingCommand, address: str, what: str) -> BrokerError:
    """The error for a response whose code is not what the caller can use."""
    error: type[BrokerError] = BrokerError
    if response.code in _BUSY:
        error = BrokerBusy
    elif response.code == ResponseCode.NO_PERMISSION:
        error = AccessDenied
    return error(address, what, response.code, response.remark)


def ensure_success(response: RemotingCommand, address: str, what: str) -> RemotingCommand:
    """Give the response back if it says SUCCESS, raise otherwise."""
    if response.code != ResponseCode.SUCCESS:
        raise refusal(response, address, what)
    return response


def accepted(
    parse: Callable[[RemotingCommand], T], response: RemotingCommand, address: str, what: str
) -> T:
    """What a response means if it says SUCCESS; every error names who answered what."""
    good = ensure_success(response, address, what)
    return understood(lambda one, _: parse(one), good, address, what)


def understood(
    parse: Callable[[RemotingCommand, str], T], response: RemotingCommand, address: str, what: str
) -> T:
    """What a response means; when it cannot be read, the error names who answered what."""
    try:
        return parse(response, address)
    except RemoteProtocolError as error:
        raise unknown_answer(address, what, error) from error


def unknown_answer(address: str, what: str, error: RemoteProtocolError) -> RemoteProtocolError:
    """For an answer that makes no sense."""
    return RemoteProtocolError(f"{address} answered {what} in an unknown way: {error}")


def not_rocketmq(address: str, what: str, error: RemoteProtocolError) -> RemoteProtocolError:
    """For bytes that are no answer at all."""
    return RemoteProtocolError(
        f"{address} did not answer {what} as RocketMQ would: {error}; "
        "check that this is the address of a RocketMQ name server or broker"
    )
