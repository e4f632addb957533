"""From an unwelcome response code to the error that says what to do about it, only here."""

from __future__ import annotations

from typing import Final

from rmq_ordered.errors import BrokerBusy, BrokerError
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand

_BUSY: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL})


def refusal(response: RemotingCommand, address: str, what: str) -> BrokerError:
    """The error for a response whose code is not what the caller can use."""
    error = BrokerBusy if response.code in _BUSY else BrokerError
    return error(address, what, response.code, response.remark)


def ensure_success(response: RemotingCommand, address: str, what: str) -> RemotingCommand:
    """Give the response back if it says SUCCESS, raise otherwise."""
    if response.code != ResponseCode.SUCCESS:
        raise refusal(response, address, what)
    return response
