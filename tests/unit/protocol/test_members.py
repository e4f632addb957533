"""Requests of and to members of a group."""

import json

import pytest

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import Message, MessageQueue
from rmq_ordered.protocol import fastjson
from rmq_ordered.protocol.bodies import queue_from_key
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.members import (
    FilterKind,
    StartPoint,
    Subscription,
    check_subscription_request,
    dead_letter_request,
    member_heartbeat_request,
    parse_reset,
    retry_topic,
    running_info,
)
from rmq_ordered.protocol.pulls import PullLimits, pull_request

QUEUE = MessageQueue("orders", "broker-a", 3)
OTHER = MessageQueue("orders", "broker-a", 4)


def test_tags_are_named_with_their_java_hash_codes() -> None:
    # "TagA".hashCode() and "TagB".hashCode(), as a Java client was seen to send them.
    found = Subscription("T", "TagA || TagB").to_json(1)
    assert found["codeSet"] == [2598919, 2598920]
    assert found["tagsSet"] == ["TagA", "TagB"]
    assert (found["subString"], found["subVersion"]) == ("TagA || TagB", 1)


@pytest.mark.parametrize(
    "subscription",
    [
        Subscription("T"),
        Subscription("T", ""),
        Subscription("T", " * "),
        Subscription("T", "a > 1 || b", FilterKind.SQL92),
    ],
)
def test_everything_and_sql_name_no_tags(subscription: Subscription) -> None:
    assert subscription.tags == frozenset()
    assert subscription.to_json(1)["codeSet"] == []


def test_a_member_is_a_push_consumer_with_its_subscriptions() -> None:
    wanted = [Subscription("orders", "a > 1", FilterKind.SQL92), Subscription(retry_topic("g"))]
    request = member_heartbeat_request("me#1", "g", wanted, start=StartPoint.LAST, version_ms=7)
    assert request.code == RequestCode.HEART_BEAT
    body = json.loads(request.body)
    (consumer,) = body["consumerDataSet"]
    assert body["clientID"] == "me#1"
    assert consumer["consumeType"] == "CONSUME_PASSIVELY"
    assert consumer["consumeFromWhere"] == "CONSUME_FROM_LAST_OFFSET"
    assert [
        (one["topic"], one["expressionType"], one["subString"])
        for one in consumer["subscriptionDataSet"]
    ] == [("orders", "SQL92", "a > 1"), ("%RETRY%g", "TAG", "*")]


def test_a_filter_is_checked_under_client_and_group() -> None:
    wanted = Subscription("orders", "a > 1", FilterKind.SQL92)
    request = check_subscription_request("me#1", "g", wanted, version_ms=7)
    assert request.code == RequestCode.CHECK_CLIENT_CONFIG
    body = json.loads(request.body)
    assert (body["clientId"], body["group"]) == ("me#1", "g")
    assert body["subscriptionData"]["subString"] == "a > 1"


def test_a_pull_carries_the_filter() -> None:
    wanted = Subscription("orders", "a > 1", FilterKind.SQL92)
    filtered = pull_request(
        QUEUE,
        5,
        group="g",
        limits=PullLimits(),
        expression=wanted.expression,
        expression_type=wanted.kind.value,
    )
    assert filtered.ext("expressionType") == "SQL92"
    assert filtered.ext("subscription") == "a > 1"
    assert filtered.ext("queueOffset") == "5"


def test_a_dead_letter_is_named_by_where_it_lies() -> None:
    message = Message(QUEUE, 7, 4096, b"", {"UNIQ_KEY": "id"}, 0, 0, "1.1.1.1:1", "1.1.1.1:1")
    request = dead_letter_request("g", message, 3)
    assert request.code == RequestCode.CONSUMER_SEND_MSG_BACK
    assert request.ext_fields == {
        "delayLevel": "-1",
        "group": "g",
        "maxReconsumeTimes": "3",
        "offset": "4096",
        "originMsgId": "id",
        "originTopic": "orders",
        "unitMode": "false",
    }


@pytest.mark.parametrize(
    "key",
    [
        b'{"brokerName":"broker-a","queueId":3,"topic":"orders"}',
        b'"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":3,\\"topic\\":\\"orders\\"}"',
    ],
    ids=["as Java writes it", "as JSON allows it"],
)
def test_a_reset_names_queues_and_their_offsets(key: bytes) -> None:
    request = RemotingCommand(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        ext_fields={"group": "g", "topic": "orders"},
        body=b'{"offsetTable":{' + key + b":42}}",
    )
    assert parse_reset(request) == ("g", {QUEUE: 42})


def test_a_reset_without_a_table_is_refused() -> None:
    request = RemotingCommand(220, ext_fields={"group": "g"}, body=b"{}")
    with pytest.raises(RemoteProtocolError, match="offset reset"):
        parse_reset(request)


def test_running_info_has_queues_as_keys() -> None:
    body = fastjson.loads(
        running_info({"P": "1"}, [Subscription("orders")], {QUEUE: {"locked": True}, OTHER: {}})
    )
    assert isinstance(body, dict)
    assert body["properties"] == {"P": "1"}
    assert [one["topic"] for one in body["subscriptionSet"]] == ["orders"]
    assert {queue_from_key(key, "key"): state for key, state in body["mqTable"].items()} == {
        QUEUE: {"locked": True},
        OTHER: {},
    }


def test_running_info_without_queues_is_json() -> None:
    assert json.loads(running_info({}, [], {}))["mqTable"] == {}
