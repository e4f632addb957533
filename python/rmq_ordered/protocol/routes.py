"""Name-server requests: where topics live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import BrokerData, MessageQueue, QueueData, TopicRoute
from rmq_ordered.protocol.bodies import decode_object, objects, texts, typed
from rmq_ordered.protocol.codes import Permission, RequestCode
from rmq_ordered.protocol.command import RemotingCommand

_MASTER_ID = "0"


def route_request(topic: str) -> RemotingCommand:
    """Ask for a topic's route."""
    fields = {"acceptStandardJsonOnly": "true", "topic": topic}
    return RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=fields)


def cluster_request() -> RemotingCommand:
    """Ask for all brokers."""
    return RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO, ext_fields={})


def topic_list_request() -> RemotingCommand:
    """Ask for all topics."""
    return RemotingCommand(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, ext_fields={})


def forget_topic_request(topic: str) -> RemotingCommand:
    """Tell the name server that a topic is gone."""
    return RemotingCommand(RequestCode.DELETE_TOPIC_IN_NAMESRV, ext_fields={"topic": topic})


def parse_route(response: RemotingCommand, topic: str) -> TopicRoute:
    """The route in an answer to ``route_request``."""
    what = f"route of topic {topic}"
    body = decode_object(response.body, what)
    brokers = tuple(_broker(data, what) for data in objects(body, "brokerDatas", what))
    queues = tuple(_queue_data(data, what) for data in objects(body, "queueDatas", what))
    order_conf = body.get("orderTopicConf")
    return TopicRoute(
        topic=topic,
        brokers=brokers,
        queues=queues,
        order_conf=order_conf if isinstance(order_conf, str) and order_conf else None,
        features=frozenset(texts(body, "rmqOrderedFeatures", what)),
    )


def parse_cluster(response: RemotingCommand) -> tuple[BrokerData, ...]:
    """The brokers in an answer to ``cluster_request``, by name."""
    what = "cluster information"
    table = typed(decode_object(response.body, what), "brokerAddrTable", dict, what)
    brokers = [_broker(data, what) for data in table.values() if isinstance(data, dict)]
    return tuple(sorted(brokers, key=lambda broker: broker.name))


def parse_topic_list(response: RemotingCommand) -> tuple[str, ...]:
    """The topic names in an answer to ``topic_list_request``, sorted."""
    what = "topic list"
    return tuple(sorted(texts(decode_object(response.body, what), "topicList", what)))


def readable_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """The queues a consumer may read, in RocketMQ's order (broker name, queue id)."""
    masters = {broker.name for broker in route.brokers if broker.master}
    return tuple(
        MessageQueue(route.topic, data.broker_name, queue_id)
        for data in sorted(route.queues, key=lambda data: data.broker_name)
        if data.is_readable and data.broker_name in masters
        for queue_id in range(data.read_queues)
    )


def writable_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """The queues a producer chooses from, in the order that Java's selectors index.

    ``orderTopicConf`` fixes the list even when a broker is away, so that keys do not move
    (RocketMQ's MQClientInstance.topicRouteData2TopicPublishInfo).
    """
    if route.order_conf:
        return tuple(_ordered_conf_queues(route))
    masters = {broker.name for broker in route.brokers if broker.master}
    return tuple(
        MessageQueue(route.topic, data.broker_name, queue_id)
        for data in sorted(route.queues, key=lambda data: data.broker_name)
        if data.is_writable and data.broker_name in masters
        for queue_id in range(data.write_queues)
    )


def _ordered_conf_queues(route: TopicRoute) -> list[MessageQueue]:
    queues: list[MessageQueue] = []
    # A trailing ';' is legal: Java's String.split drops empty entries at the end.
    for entry in (route.order_conf or "").rstrip(";").split(";"):
        name, _, count = entry.partition(":")
        if not count.isdecimal():
            raise RemoteProtocolError(
                f"orderTopicConf of topic {route.topic} should read broker:queues;broker:queues, "
                f"found {route.order_conf!r}"
            )
        queues += [MessageQueue(route.topic, name, queue_id) for queue_id in range(int(count))]
    return queues


def _broker(data: Mapping[str, Any], what: str) -> BrokerData:
    addresses = typed(data, "brokerAddrs", dict, what)
    master = addresses.get(_MASTER_ID)
    return BrokerData(typed(data, "brokerName", str, what), None if master is None else str(master))


def _queue_data(data: Mapping[str, Any], what: str) -> QueueData:
    permission = Permission(typed(data, "perm", int, what) & 7)
    return QueueData(
        broker_name=typed(data, "brokerName", str, what),
        read_queues=typed(data, "readQueueNums", int, what),
        write_queues=typed(data, "writeQueueNums", int, what),
        is_readable=Permission.READ in permission,
        is_writable=Permission.WRITE in permission,
    )
