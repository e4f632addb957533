"""Parsers of answers: whatever JSON a peer sends, only our own errors come out."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol import groups, locks, pulls, routes, sends, topics
from rmq_ordered.protocol.bodies import encode_json, queue_from_key, queue_to_json
from rmq_ordered.protocol.command import RemotingCommand

QUEUE = MessageQueue("orders", "broker-a", 0)
PARSERS: dict[str, Callable[[RemotingCommand], object]] = {
    "route": lambda response: routes.writable_queues(routes.parse_route(response, "orders")),
    "cluster": routes.parse_cluster,
    "topic list": routes.parse_topic_list,
    "statistics": lambda response: topics.parse_topic_stats(response, "orders"),
    "lock": lambda response: locks.parse_lock(response, [QUEUE]),
    "leases": locks.parse_leases,
    "members": groups.parse_members,
    "pull": pulls.parse_pull,
    "send": lambda response: sends.parse_receipt(response, QUEUE, 1),
}
FIELDS = [
    "brokerDatas", "queueDatas", "rmqOrderedFeatures", "orderTopicConf", "brokerAddrTable",
    "topicList", "offsetTable", "lockOKMQSet", "leases", "history", "consumerIdList", "brokerName",
    "brokerAddrs", "perm", "readQueueNums", "writeQueueNums", "topic", "queueId", "minOffset",
    "maxOffset", "lastUpdateTimestamp", "clientId", "epoch", "0",
    '{"brokerName":"a","queueId":0,"topic":"t"}',
]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-10, 10)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["a:1;b:2", "a:x", "\ud800"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("name", PARSERS)
@given(body=values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=30))
def test_an_odd_body_raises_nothing_but_remote_protocol_errors(name: str, body: bytes) -> None:
    fields = {"minOffset": "1", "maxOffset": "x", "msgId": "", "queueId": "0"}
    with contextlib.suppress(RemoteProtocolError):
        PARSERS[name](RemotingCommand(0, ext_fields=fields, body=body))


unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(st.builds(MessageQueue, unicode_text, unicode_text, st.integers(0, 2**31 - 1)))
def test_a_queue_used_as_a_key_is_read_back(queue: MessageQueue) -> None:
    assert queue_from_key(encode_json(queue_to_json(queue)).decode(), "statistics") == queue
