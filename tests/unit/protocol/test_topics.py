"""Requests about topics, and the table of offsets in fastjson's dialect."""

import json

import pytest
from tests.support.paths import GOLDEN

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import MessageQueue, OffsetSpan
from rmq_ordered.protocol.codes import RequestCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.topics import (
    create_topic_request,
    delete_topic_request,
    parse_topic_stats,
    topic_stats_request,
)

KEY = b'{"brokerName":"a","queueId":0,"topic":"t"}'
RECORDED = json.loads((GOLDEN / "rocketmq-5.5.0-topic-stats.json").read_text())


def stats(body: bytes) -> dict[MessageQueue, OffsetSpan]:
    return parse_topic_stats(RemotingCommand(0, body=body), "golden")


def test_a_topic_is_created_with_as_many_read_as_write_queues() -> None:
    request = create_topic_request("orders", 4, ordered=False)
    assert request.code == RequestCode.UPDATE_AND_CREATE_TOPIC
    assert request.ext("readQueueNums") == request.ext("writeQueueNums") == "4"
    assert (request.ext("topic"), request.ext("perm"), request.ext("order")) == (
        "orders",
        "6",
        "false",
    )
    assert create_topic_request("orders", 1).ext("order") == "true"


def test_other_requests_name_the_topic() -> None:
    assert delete_topic_request("orders").code == RequestCode.DELETE_TOPIC_IN_BROKER
    assert delete_topic_request("orders").ext("topic") == "orders"
    assert topic_stats_request("orders").code == RequestCode.GET_TOPIC_STATS_INFO
    assert topic_stats_request("orders").ext("topic") == "orders"


def test_the_table_of_a_real_broker_is_read() -> None:
    spans = stats(RECORDED["GET_TOPIC_STATS_INFO"].encode())
    assert spans[MessageQueue("golden", "broker-a", 1)] == OffsetSpan(0, 0, 0)
    written = spans[MessageQueue("golden", "broker-a", 0)]
    assert (written.minimum, written.maximum) == (0, 10)
    assert written.last_stored_ms > 1_700_000_000_000


def test_a_queue_without_a_last_message_has_no_time() -> None:
    row = KEY + b':{"minOffset":1,"maxOffset":2}'
    assert stats(b'{"offsetTable":{' + row + b"}}") == {
        MessageQueue("t", "a", 0): OffsetSpan(1, 2, 0)
    }


@pytest.mark.parametrize(
    "table",
    [
        b"5",
        b"{" + KEY + b":5}",
        b"{" + KEY + b':{"minOffset":1}}',
        b"{" + KEY + b':{"minOffset":1,"maxOffset":2,"lastUpdateTimestamp":"now"}}',
        b"{0:{}}",
        b'{"\\ud800":{}}',
    ],
)
def test_a_table_that_makes_no_sense_is_a_remote_protocol_error(table: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        stats(b'{"offsetTable":' + table + b"}")
