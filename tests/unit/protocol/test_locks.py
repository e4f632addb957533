"""Lock requests, verdicts, and the embedded broker's lease table."""

import json
from typing import Any

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import LeaseRecord, LockAnswer, MessageQueue, OwnershipEvent
from rmq_ordered.protocol.bodies import queue_to_json
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.locks import (
    leases_request,
    lock_request,
    parse_leases,
    parse_lock,
    unlock_request,
)

FIRST, SECOND = (MessageQueue("OT", "b-a", queue_id) for queue_id in (0, 1))

LEASE = queue_to_json(FIRST) | {
    "clientId": "c1",
    "epoch": 7,
    "expiresInMillis": 59_000,
    "grantedAt": 100,
    "group": "CG1",
    "live": True,
    "renewedAt": 200,
}
EVENT = queue_to_json(FIRST) | {
    "at": 100,
    "epoch": 7,
    "group": "CG1",
    "owner": "c1",
    "reason": "granted",
}


def response(body: Any) -> RemotingCommand:
    return RemotingCommand(0, body=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("request_of", "code"),
    [(lock_request, RequestCode.LOCK_BATCH_MQ), (unlock_request, RequestCode.UNLOCK_BATCH_MQ)],
)
def test_lock_and_unlock_have_the_body_that_java_sends(request_of: Any, code: int) -> None:
    request = request_of("CG1", "192.0.2.2@20910#1490001534534", [FIRST])
    assert request.code == code
    assert request.ext_fields == {}
    assert request.body == (
        b'{"clientId":"192.0.2.2@20910#1490001534534","consumerGroup":"CG1","mqSet":'
        b'[{"brokerName":"b-a","queueId":0,"topic":"OT"}],"onlyThisBroker":false}'
    )


def test_verdicts_come_in_the_order_asked_and_what_is_not_named_is_not_granted() -> None:
    granted = response({"lockOKMQSet": [queue_to_json(SECOND)]})
    assert parse_lock(granted, [FIRST, SECOND]) == (
        LockAnswer(FIRST, False),
        LockAnswer(SECOND, True),
    )


def test_a_queue_that_was_not_asked_for_is_ignored() -> None:
    assert parse_lock(response({"lockOKMQSet": [queue_to_json(SECOND)]}), []) == ()


def test_owner_and_epoch_are_read_where_the_broker_tells_them() -> None:
    leases = [
        queue_to_json(FIRST) | {"clientId": "other", "epoch": 3},
        queue_to_json(SECOND) | {"clientId": "", "epoch": "x"},
    ]
    body = {"leases": leases, "lockOKMQSet": [queue_to_json(SECOND)]}
    assert parse_lock(response(body), [FIRST, SECOND]) == (
        LockAnswer(FIRST, False, "other", 3),
        LockAnswer(SECOND, True, None, None),
    )


@pytest.mark.parametrize("body", [[], {"lockOKMQSet": 5}, {"lockOKMQSet": [{}]}, {"leases": [{}]}])
def test_a_verdict_that_makes_no_sense_is_a_remote_protocol_error(body: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_lock(response(body), [FIRST])


def test_the_lease_table_can_be_asked_for_by_group_and_topic() -> None:
    assert leases_request().code == RequestCode.GET_QUEUE_LEASES
    assert leases_request().ext_fields == {}
    assert leases_request("CG1", "OT").ext_fields == {"consumerGroup": "CG1", "topic": "OT"}


def test_lease_table_and_history_are_read() -> None:
    first = EVENT | {"owner": None, "previousOwner": "c0", "reason": "expired"}
    table, history = parse_leases(response({"history": [EVENT, first], "leases": [LEASE]}))
    assert table == (LeaseRecord("CG1", FIRST, "c1", 7, 100, 200, 59_000, True),)
    assert history == (
        OwnershipEvent(100, "CG1", FIRST, None, "c1", 7, "granted"),
        OwnershipEvent(100, "CG1", FIRST, "c0", None, 7, "expired"),
    )


@pytest.mark.parametrize("missing", sorted(LEASE))
def test_a_lease_without_one_of_its_fields_is_a_remote_protocol_error(missing: str) -> None:
    row = {name: value for name, value in LEASE.items() if name != missing}
    with pytest.raises(RemoteProtocolError, match=f"'{missing}'"):
        parse_leases(response({"leases": [row]}))


@pytest.mark.parametrize("missing", sorted(set(EVENT) - {"owner"}))
def test_an_event_without_one_of_its_fields_is_a_remote_protocol_error(missing: str) -> None:
    row = {name: value for name, value in EVENT.items() if name != missing}
    with pytest.raises(RemoteProtocolError, match=f"'{missing}'"):
        parse_leases(response({"history": [row]}))
