"""A name server in memory: tells where the topics of some broker doubles live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmq_ordered.protocol.bodies import encode_json
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.testing.broker import BrokerDouble


class NameServerDouble:
    """Give ``serve`` to ``ScriptedNetwork.listen``.

    ``order_confs`` is RocketMQ's ORDER_TOPIC_CONFIG: topic to ``broker:queues;...``. ``kv`` is the
    rest of the key-value configuration, by namespace.
    """

    def __init__(self, brokers: Sequence[BrokerDouble]) -> None:
        self.brokers = list(brokers)
        self.order_confs: dict[str, str] = {}
        self.forgotten: list[str] = []
        self.kv: dict[str, dict[str, str]] = {}

    def serve(self, request: RemotingCommand) -> RemotingCommand:
        """Answer one request."""
        match request.code:
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                return self._route(request.ext("topic"))
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                return self._cluster()
            case RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                topics = sorted({topic for broker in self.brokers for topic in broker.topics})
                return RemotingCommand(
                    ResponseCode.SUCCESS, body=encode_json({"topicList": topics})
                )
            case RequestCode.DELETE_TOPIC_IN_NAMESRV:
                self.forgotten.append(request.ext("topic"))
                return RemotingCommand(ResponseCode.SUCCESS)
            case _:
                return self._serve_kv(request)

    def _serve_kv(self, request: RemotingCommand) -> RemotingCommand:
        match request.code:
            case RequestCode.PUT_KV_CONFIG:
                space = self.kv.setdefault(request.ext("namespace"), {})
                space[request.ext("key")] = request.ext("value")
                return RemotingCommand(ResponseCode.SUCCESS)
            case RequestCode.DELETE_KV_CONFIG:
                self.kv.get(request.ext("namespace"), {}).pop(request.ext("key"), None)
                return RemotingCommand(ResponseCode.SUCCESS)
            case RequestCode.GET_KVLIST_BY_NAMESPACE:
                table = self.kv.get(request.ext("namespace"))
                if not table:
                    return RemotingCommand(ResponseCode.QUERY_NOT_FOUND, remark="no config item")
                return RemotingCommand(ResponseCode.SUCCESS, body=encode_json({"table": table}))
            case _:
                return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    def _route(self, topic: str) -> RemotingCommand:
        holders = [broker for broker in self.brokers if topic in broker.topics]
        if not holders:
            return RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, remark=f"no route of {topic}")
        body: dict[str, Any] = {
            "brokerDatas": [_broker_data(broker) for broker in holders],
            "queueDatas": [_queue_data(broker, topic) for broker in holders],
            "rmqOrderedFeatures": sorted(holders[0].features),
        }
        if topic in self.order_confs:
            body["orderTopicConf"] = self.order_confs[topic]
        return RemotingCommand(ResponseCode.SUCCESS, body=encode_json(body))

    def _cluster(self) -> RemotingCommand:
        table = {broker.name: _broker_data(broker) for broker in self.brokers}
        return RemotingCommand(ResponseCode.SUCCESS, body=encode_json({"brokerAddrTable": table}))


def _broker_data(broker: BrokerDouble) -> dict[str, Any]:
    # A broker without a master is listed with its slave only.
    broker_id = "0" if broker.is_master else "1"
    return {
        "brokerAddrs": {broker_id: broker.address},
        "brokerName": broker.name,
        "cluster": "DoubleCluster",
    }


def _queue_data(broker: BrokerDouble, topic: str) -> dict[str, Any]:
    count = broker.topics[topic]
    return {
        "brokerName": broker.name,
        "perm": broker.permissions.get(topic, 6),
        "readQueueNums": count,
        "topicSysFlag": 0,
        "writeQueueNums": count,
    }
