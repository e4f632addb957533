"""Pull requests and their four possible outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import PullFlag, RequestCode, ResponseCode
from rmq_ordered.protocol.command import Header, RemotingCommand


class PullStatus(Enum):
    """What came of a pull."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MESSAGE = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MESSAGE = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


PULL_CODES: Final = frozenset(status.value for status in PullStatus)
# Looked up for every answer: faster than calling the enumerations.
_STATUSES: Final = {int(status.value): status for status in PullStatus}
_IMMEDIATE: Final = str(int(PullFlag.SUBSCRIPTION))
_PATIENT: Final = str(int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND))


class PullResult(NamedTuple):
    """An answered pull: raw records in ``body``, to be decoded by whoever wants them."""

    status: PullStatus
    next_offset: int
    minimum: int
    maximum: int
    body: bytes | memoryview


@dataclass(frozen=True, slots=True)
class PullLimits:
    """How much one pull may bring. A stock RocketMQ caps both at 32 messages and 256 KiB."""

    max_messages: int = 32
    max_bytes: int = 256 * 1024


def pull_request(
    queue: MessageQueue,
    queue_offset: int,
    *,
    group: str,
    limits: PullLimits,
    expression: str = "*",
    expression_type: str = "TAG",
    suspend_ms: int = 0,
    lease_epoch: int | None = None,
    run: str | None = None,
) -> RemotingCommand:
    """PULL_MESSAGE with the subscription inside, so that no heartbeat is needed.

    Args:
        queue: what is read.
        queue_offset: from where on.
        group: in whose name.
        limits: how much.
        expression: which messages.
        expression_type: what kind of expression that is.
        suspend_ms: how long to wait for messages.
        lease_epoch: under which lease.
        run: which run of a query reads; a broker with ``fencedWrite`` remembers it.
    """
    fields = {
        "bname": queue.broker_name,
        "commitOffset": "0",
        "consumerGroup": group,
        "expressionType": expression_type,
        "maxMsgBytes": str(limits.max_bytes),
        "maxMsgNums": str(limits.max_messages),
        "queueId": str(queue.queue_id),
        "queueOffset": str(queue_offset),
        "subVersion": "0",
        "subscription": expression,
        "suspendTimeoutMillis": str(suspend_ms),
        "sysFlag": _PATIENT if suspend_ms > 0 else _IMMEDIATE,
        "topic": queue.topic,
    }
    if lease_epoch is not None:
        fields["leaseEpoch"] = str(lease_epoch)
    if run is not None:
        fields["run"] = run
    return RemotingCommand(RequestCode.PULL_MESSAGE, ext_fields=fields)


def parse_pull(response: RemotingCommand) -> PullResult:
    """The outcome in a response whose code is one of PULL_CODES.

    Raises:
        RemoteProtocolError: a field is missing, or the queue is a static topic's that has moved:
            the offsets in its records are those of another queue.
    """
    return pull_result(response, response.body)


def pull_result(response: Header | RemotingCommand, body: bytes | memoryview) -> PullResult:
    """As ``parse_pull``, of a header and the body that came with it."""
    shift = (response.ext_fields or {}).get("offsetDelta", "0")
    if shift != "0":
        raise RemoteProtocolError(
            f"the offsets of a static topic's queue are shifted by {shift}, expected 0: static "
            "topics whose queues have moved between brokers cannot be read; use an ordinary topic"
        )
    return PullResult(
        status=_STATUSES[response.code],
        next_offset=response.ext_int("nextBeginOffset"),
        minimum=response.ext_int("minOffset"),
        maximum=response.ext_int("maxOffset"),
        body=body,
    )
