"""What brokers ask of this client, on the connections that it opened.

Called on the thread that reads the connection: members answer from memory and wake their own
threads, and never wait.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Protocol

from rmq_ordered.errors import OptionError, RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import parse_reset

_LOG: Final = logging.getLogger("rmq_ordered.client")
_REFUSED: Final = {
    RequestCode.CHECK_TRANSACTION_STATE: "this client sends no transactional messages",
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: "ask for the consumer's running info instead",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: "an ordered consumer handles messages in order only",
}


class GroupMember(Protocol):
    """A consumer that brokers may talk to."""

    def members_changed(self) -> None:
        """Somebody joined or left the group."""

    def offsets_reset(self, offsets: dict[MessageQueue, int]) -> None:
        """An operator wants the group to go on from these offsets."""

    def describe(self) -> bytes:
        """RocketMQ's ``ConsumerRunningInfo``."""


class ServerRequests:
    """Thread-safe. One member per group: brokers know members by their connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: dict[str, GroupMember] = {}

    def join(self, group: str, member: GroupMember) -> None:
        """Let a member hear what brokers say to its group."""
        with self._lock:
            if group in self._members:
                raise OptionError(
                    "group", group, "a group that no other consumer of this Client has joined"
                )
            self._members[group] = member

    def leave(self, group: str) -> None:
        """Undo ``join``."""
        with self._lock:
            self._members.pop(group, None)

    def __call__(self, address: str, request: RemotingCommand) -> RemotingCommand | None:
        """Serve one request; the answer, or None where none is wanted."""
        _LOG.debug("< request code=%s from=%s", request.code, address)
        try:
            return self._serve(request)
        except RemoteProtocolError as error:
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=str(error))

    def _serve(self, request: RemotingCommand) -> RemotingCommand | None:
        match request.code:
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                if (member := self._member(request.ext("consumerGroup"))) is not None:
                    member.members_changed()
                return None
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                group, offsets = parse_reset(request)
                if (member := self._member(group)) is not None:
                    member.offsets_reset(offsets)
                return None
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                return self._running_info(request.ext("consumerGroup"))
            case code:
                reason = _REFUSED.get(RequestCode(code)) if code in list(RequestCode) else None
                remark = f"request {code} is not served by this client"
                return RemotingCommand(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    remark=f"{remark}: {reason}" if reason else remark,
                )

    def _running_info(self, group: str) -> RemotingCommand:
        member = self._member(group)
        if member is None:
            remark = f"group {group} has no consumer in this client"
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark)
        return RemotingCommand(ResponseCode.SUCCESS, body=member.describe())

    def _member(self, group: str) -> GroupMember | None:
        with self._lock:
            return self._members.get(group)
