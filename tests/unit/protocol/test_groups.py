"""Requests about groups and single queues."""

import json

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.groups import (
    heartbeat_request,
    max_offset_request,
    members_request,
    min_offset_request,
    parse_members,
    query_offset_request,
    search_offset_request,
    unregister_request,
    update_offset_request,
)

QUEUE = MessageQueue("orders", "broker-a", 3)
QUEUE_FIELDS = {"bname": "broker-a", "queueId": "3", "topic": "orders"}


def test_a_heartbeat_names_client_group_and_topics_in_order() -> None:
    request = heartbeat_request("me#1", "billing", ["b", "a"], version_ms=7)
    body = json.loads(request.body)
    assert request.code == RequestCode.HEART_BEAT
    assert request.ext_fields == {}
    assert body["clientID"] == "me#1"
    (consumer,) = body["consumerDataSet"]
    assert consumer["groupName"] == "billing"
    assert consumer["messageModel"] == "CLUSTERING"
    subscriptions = consumer["subscriptionDataSet"]
    assert [entry["topic"] for entry in subscriptions] == ["a", "b"]
    assert {(entry["subString"], entry["subVersion"]) for entry in subscriptions} == {("*", 7)}


def test_leaving_names_client_and_group() -> None:
    request = unregister_request("me#1", "billing")
    assert request.code == RequestCode.UNREGISTER_CLIENT
    assert request.ext_fields == {"clientID": "me#1", "consumerGroup": "billing"}


def test_members_are_asked_for_by_group_and_sorted() -> None:
    assert members_request("billing").code == RequestCode.GET_CONSUMER_LIST_BY_GROUP
    assert members_request("billing").ext("consumerGroup") == "billing"
    body = b'{"consumerIdList":["b","a"]}'
    assert parse_members(RemotingCommand(0, body=body)) == ("a", "b")
    assert parse_members(RemotingCommand(0, body=b"{}")) == ()


@pytest.mark.parametrize("body", [b"", b'{"consumerIdList":5}', b'{"consumerIdList":[5]}'])
def test_a_member_list_that_makes_no_sense_is_a_remote_protocol_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_members(RemotingCommand(0, body=body))


def test_a_committed_offset_is_asked_for_without_a_default_of_zero() -> None:
    request = query_offset_request("billing", QUEUE)
    assert request.code == RequestCode.QUERY_CONSUMER_OFFSET
    expected = {"consumerGroup": "billing", "setZeroIfNotFound": "false"}
    assert request.ext_fields == QUEUE_FIELDS | expected


def test_a_commit_carries_the_epoch_only_if_there_is_one() -> None:
    plain = update_offset_request("billing", QUEUE, 42)
    assert plain.code == RequestCode.UPDATE_CONSUMER_OFFSET
    expected = QUEUE_FIELDS | {"commitOffset": "42", "consumerGroup": "billing"}
    assert plain.ext_fields == expected
    fenced = update_offset_request("billing", QUEUE, 42, lease_epoch=0)
    assert fenced.ext_fields == expected | {"leaseEpoch": "0"}


def test_the_ends_of_a_queue_and_a_time_can_be_asked_for() -> None:
    assert max_offset_request(QUEUE).code == RequestCode.GET_MAX_OFFSET
    assert max_offset_request(QUEUE).ext_fields == QUEUE_FIELDS
    assert min_offset_request(QUEUE).code == RequestCode.GET_MIN_OFFSET
    assert min_offset_request(QUEUE).ext_fields == QUEUE_FIELDS
    search = search_offset_request(QUEUE, 1_700_000_000_000)
    assert search.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert search.ext("timestamp") == "1700000000000"
    assert search.ext("boundaryType") == "LOWER"
