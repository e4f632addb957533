"""Queue locks: RocketMQ's two requests, and what the embedded broker adds to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rmq_ordered.model import LeaseRecord, LockAnswer, MessageQueue, OwnershipEvent
from rmq_ordered.protocol.bodies import (
    decode_object,
    encode_json,
    objects,
    queue_from_json,
    queues_to_json,
    typed,
)
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand


def lock_request(group: str, client_id: str, queues: Iterable[MessageQueue]) -> RemotingCommand:
    """Ask for, or renew, the locks on queues of one broker."""
    return RemotingCommand(
        RequestCode.LOCK_BATCH_MQ, ext_fields={}, body=_lock_body(group, client_id, queues)
    )


def unlock_request(
    group: str, client_id: str, queues: Iterable[MessageQueue], *, run_goes_on: bool = False
) -> RemotingCommand:
    """Give locks back.

    Args:
        group: whose queues.
        client_id: who held them.
        queues: what is given back.
        run_goes_on: whether the run of the client goes on without them and may write what it has
            read: for a broker that fences writes.
    """
    marks = {"runGoesOn": True} if run_goes_on else {}
    body = _lock_body(group, client_id, queues, **marks)
    return RemotingCommand(RequestCode.UNLOCK_BATCH_MQ, ext_fields={}, body=body)


def parse_lock(response: RemotingCommand, asked: Sequence[MessageQueue]) -> tuple[LockAnswer, ...]:
    """One verdict per asked queue, in the order asked; what is not named is not granted."""
    what = "answer to a lock request"
    body = decode_object(response.body, what)
    granted = {queue_from_json(item, what) for item in objects(body, "lockOKMQSet", what)}
    leases = {queue_from_json(item, what): item for item in objects(body, "leases", what)}
    return tuple(_verdict(queue, queue in granted, leases.get(queue, {})) for queue in asked)


def leases_request(group: str | None = None, topic: str | None = None) -> RemotingCommand:
    """Ask the embedded broker for its lease table and ownership history."""
    fields = {"consumerGroup": group, "topic": topic}
    return RemotingCommand(
        RequestCode.GET_QUEUE_LEASES,
        ext_fields={name: value for name, value in fields.items() if value},
    )


def parse_leases(
    response: RemotingCommand,
) -> tuple[tuple[LeaseRecord, ...], tuple[OwnershipEvent, ...]]:
    """The lease table and the history of owners, oldest first."""
    what = "lease table"
    body = decode_object(response.body, what)
    table = tuple(_lease(item, what) for item in objects(body, "leases", what))
    history = tuple(_event(item, what) for item in objects(body, "history", what))
    return table, history


def _lock_body(group: str, client_id: str, queues: Iterable[MessageQueue], **marks: bool) -> bytes:
    return encode_json(
        {
            "clientId": client_id,
            "consumerGroup": group,
            "mqSet": queues_to_json(queues),
            "onlyThisBroker": False,
            **marks,
        }
    )


def _verdict(queue: MessageQueue, granted: bool, lease: Mapping[str, Any]) -> LockAnswer:
    owner = lease.get("clientId")
    epoch = lease.get("epoch")
    return LockAnswer(
        queue,
        granted,
        owner=str(owner) if owner else None,
        epoch=epoch if isinstance(epoch, int) else None,
    )


def _lease(item: Mapping[str, Any], what: str) -> LeaseRecord:
    return LeaseRecord(
        group=typed(item, "group", str, what),
        queue=queue_from_json(item, what),
        client_id=typed(item, "clientId", str, what),
        epoch=typed(item, "epoch", int, what),
        granted_at_ms=typed(item, "grantedAt", int, what),
        renewed_at_ms=typed(item, "renewedAt", int, what),
        expires_in_ms=typed(item, "expiresInMillis", int, what),
        is_live=typed(item, "live", bool, what),
    )


def _event(item: Mapping[str, Any], what: str) -> OwnershipEvent:
    previous, owner = item.get("previousOwner"), item.get("owner")
    return OwnershipEvent(
        at_ms=typed(item, "at", int, what),
        group=typed(item, "group", str, what),
        queue=queue_from_json(item, what),
        previous_owner=str(previous) if previous else None,
        owner=str(owner) if owner else None,
        epoch=typed(item, "epoch", int, what),
        reason=typed(item, "reason", str, what),
    )
