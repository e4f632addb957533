"""A broker in memory that speaks the real protocol: scripted where a real one cannot be.

It is no substitute for the contract tests against real brokers. Its purpose is behaviour that a
real broker shows rarely or never: odd caps on pulls, answers that stop short, offsets that move,
locks that change hands at a chosen moment. Not thread-safe: ``ScriptedNetwork`` serves one request
at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import repeat

from rmq_ordered.clock import Clock
from rmq_ordered.errors import RemoteProtocolError
from rmq_ordered.model import LockAnswer, MessageQueue, OutgoingMessage
from rmq_ordered.protocol.bodies import encode_json, objects, queue_from_json, queue_to_json
from rmq_ordered.protocol.codes import (
    FEATURE_FENCED_WRITE,
    FEATURE_IDEMPOTENT_SEND,
    FEATURE_LEASE_EPOCH,
    RequestCode,
    ResponseCode,
)
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.properties import decode_properties
from rmq_ordered.testing.locks import LOCK_LIFETIME_MS, LockTable
from rmq_ordered.testing.storage import StoredQueue
from rmq_ordered.testing.streams import Batch, StreamTable, landed_fields

_OK = RemotingCommand(ResponseCode.SUCCESS)


class BrokerDouble:
    """One master. Give ``serve`` to ``ScriptedNetwork.listen``.

    Attributes:
        features: what the broker announces; with ``leaseEpoch`` it fences pulls and commits, with
            ``idempotentSend`` and ``stampedRequest`` it recognises stamped sends.
        fenced_runs: with ``fencedWrite``, whose sends are refused.
        pull_caps: how many messages each successive pull may return.
        is_matching: which queue offsets pass the broker's filter.
        filter_scan: how many offsets a pull looks at while it has not enough that match.
    """

    def __init__(
        self,
        clock: Clock,
        address: str = "broker-a:10911",
        name: str = "broker-a",
        features: frozenset[str] = frozenset(),
    ) -> None:
        self.clock = clock
        self.address = address
        self.name = name
        self.features = features
        self.is_master = True
        self.topics: dict[str, int] = {}
        self.permissions: dict[str, int] = {}
        self.queues: dict[MessageQueue, StoredQueue] = {}
        self.locks = LockTable()
        self.streams = StreamTable()
        self.fenced_runs: set[str] = set()
        self.committed: dict[tuple[str, MessageQueue], int] = {}
        self.members: dict[str, set[str]] = {}
        self.pull_caps: Iterator[int] = repeat(32)
        self.is_matching: Callable[[int], bool] = lambda _: True
        self.filter_scan = 0
        # The log, and what of it is acknowledged but not in its queues yet.
        self.log_bytes, self.behind = 1_000, 0
        self._handlers: dict[int, Callable[[RemotingCommand], RemotingCommand]] = {
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send_batch,
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search_offset,
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime,
            RequestCode.GET_MAX_OFFSET: lambda r: _offset(self._queue(r).maximum),
            RequestCode.GET_MIN_OFFSET: lambda r: _offset(self._queue(r).minimum),
            RequestCode.GET_TOPIC_STATS_INFO: self._stats,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._unlock,
            RequestCode.GET_QUEUE_LEASES: self._leases,
            RequestCode.GET_SEND_STREAM: self._send_stream,
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._create_topic,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete_topic,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._member_list,
            RequestCode.CHECK_CLIENT_CONFIG: lambda _: _OK,
        }

    # For the test

    def add_topic(self, topic: str, queues: int) -> tuple[MessageQueue, ...]:
        """Create a topic; returns its queues on this broker."""
        self.topics[topic] = queues
        names = tuple(MessageQueue(topic, self.name, queue_id) for queue_id in range(queues))
        for queue in names:
            self.queues.setdefault(queue, StoredQueue(queue))
        return names

    def fill(self, queue: MessageQueue, count: int) -> None:
        """Append messages whose bodies are their queue offsets."""
        stored = self.queues[queue]
        for _ in range(count):
            stored.append(OutgoingMessage(str(stored.maximum).encode()), self.clock.wall_ms())

    def serve(self, request: RemotingCommand) -> RemotingCommand:
        """Answer one request."""
        handler = self._handlers.get(request.code)
        if handler is None:
            return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return handler(request)

    # Messages

    def _pull(self, request: RemotingCommand) -> RemotingCommand:
        stored = self._queue(request)
        asked = request.ext_int("queueOffset")
        if self._is_stale(request, stored.queue):
            return self._stale(request, stored.queue)
        if not stored.minimum <= asked <= stored.maximum:
            nearest = stored.minimum if asked < stored.minimum else stored.maximum
            return self._pulled(stored, ResponseCode.PULL_OFFSET_MOVED, nearest)
        if asked == stored.maximum:
            return self._pulled(stored, ResponseCode.PULL_NOT_FOUND, asked)
        count = min(request.ext_int("maxMsgNums"), next(self.pull_caps))
        end = min(asked + max(count, self.filter_scan), stored.maximum)
        matching = [offset for offset in range(asked, end) if self.is_matching(offset)]
        if len(matching) > count:
            end = matching[count]
        body = b"".join(
            record for offset in matching[:count] for record in stored.records(offset, offset + 1)
        )
        code = ResponseCode.SUCCESS if body else ResponseCode.PULL_RETRY_IMMEDIATELY
        return self._pulled(stored, code, end, body)

    def _pulled(
        self, stored: StoredQueue, code: int, next_offset: int, body: bytes = b""
    ) -> RemotingCommand:
        fields = {
            "maxOffset": str(stored.maximum),
            "minOffset": str(stored.minimum),
            "nextBeginOffset": str(next_offset),
            "suggestWhichBrokerId": "0",
        }
        return RemotingCommand(code, ext_fields=fields, body=body)

    def _send(self, request: RemotingCommand) -> RemotingCommand:
        properties = decode_properties(request.ext("i").encode())
        message = OutgoingMessage(request.body, properties, request.ext_int("h"))
        return self._store(request, Batch([message]))

    def _send_batch(self, request: RemotingCommand) -> RemotingCommand:
        try:
            return self._store(request, Batch.of(request))
        except RemoteProtocolError as error:
            return RemotingCommand(ResponseCode.MESSAGE_ILLEGAL, remark=str(error))

    def _store(self, request: RemotingCommand, batch: Batch) -> RemotingCommand:
        stored = self._target(request)
        if stored.queue.queue_id >= self.topics.get(stored.queue.topic, 0):
            return RemotingCommand(ResponseCode.INVALID_PARAMETER, remark="no such queue")
        run = (request.ext_fields or {}).get("run")
        if FEATURE_FENCED_WRITE in self.features and run in self.fenced_runs:
            return RemotingCommand(ResponseCode.WRITE_FENCED, remark=f"run {run} lost a queue")
        is_judged = FEATURE_IDEMPOTENT_SEND in self.features
        stamped = self.streams.judge(stored.queue, batch) if is_judged else None
        if isinstance(stamped, RemotingCommand):
            return stamped
        first, sys_flag = stored.maximum, request.ext_int("f")
        landed = stamped.landed if stamped is not None else 0
        for message in batch.after(landed):
            stored.append(message, self.clock.wall_ms(), sys_flag)
        if stamped is None:
            return _sent(stored, first, len(batch.messages))
        # Like the real one, it does not remember where everything lies.
        sent = _sent(stored, -1 if landed else first, len(batch.messages))
        fields = self.streams.landed(stamped, stored.maximum - 1)
        return RemotingCommand(sent.code, ext_fields={**(sent.ext_fields or {}), **fields})

    def _send_stream(self, request: RemotingCommand) -> RemotingCommand:
        if FEATURE_IDEMPOTENT_SEND not in self.features:
            return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        queue = self._queue(request).queue
        last = self.streams.last.get((queue, request.ext("sink"), request.ext_int("partition")))
        if last is None:
            return RemotingCommand(ResponseCode.QUERY_NOT_FOUND, remark="no such stream")
        return RemotingCommand(ResponseCode.SUCCESS, ext_fields=landed_fields(last))

    # Offsets and groups

    def _query_offset(self, request: RemotingCommand) -> RemotingCommand:
        known = self.committed.get((request.ext("consumerGroup"), self._queue(request).queue))
        if known is None:
            return RemotingCommand(ResponseCode.QUERY_NOT_FOUND, remark="never committed")
        return _offset(known)

    def _update_offset(self, request: RemotingCommand) -> RemotingCommand:
        group, queue = request.ext("consumerGroup"), self._queue(request).queue
        proposed = request.ext_int("commitOffset")
        if self._is_stale(request, queue):
            return self._stale(request, queue)
        is_fenced = "leaseEpoch" in (request.ext_fields or {})
        if is_fenced and proposed < self.committed.get((group, queue), 0):
            return RemotingCommand(ResponseCode.OFFSET_WENT_BACK)
        self.committed[group, queue] = proposed
        return _OK

    def _search_offset(self, request: RemotingCommand) -> RemotingCommand:
        return _offset(self._queue(request).first_at(request.ext_int("timestamp")))

    def _runtime(self, request: RemotingCommand) -> RemotingCommand:
        del request
        table = {
            "commitLogMaxOffset": str(self.log_bytes),
            "dispatchBehindBytes": str(self.behind),
        }
        return RemotingCommand(ResponseCode.SUCCESS, body=json.dumps({"table": table}).encode())

    def _stats(self, request: RemotingCommand) -> RemotingCommand:
        topic = request.ext("topic")
        if topic not in self.topics:
            return RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, remark=f"no topic {topic}")
        # Queues that nobody wrote to are listed, those that were taken away are not.
        rows = (
            f"{json.dumps(queue_to_json(queue))}:"
            f'{{"lastUpdateTimestamp":{_last_stored_ms(stored)},'
            f'"maxOffset":{stored.maximum},"minOffset":{stored.minimum}}}'
            for queue, stored in self.queues.items()
            if queue.topic == topic and queue.queue_id < self.topics[topic]
        )
        body = f'{{"offsetTable":{{{",".join(rows)}}}}}'
        return RemotingCommand(ResponseCode.SUCCESS, body=body.encode())

    def _heartbeat(self, request: RemotingCommand) -> RemotingCommand:
        body = json.loads(request.body)
        for consumer in body["consumerDataSet"]:
            self.members.setdefault(consumer["groupName"], set()).add(body["clientID"])
        return _OK

    def _unregister(self, request: RemotingCommand) -> RemotingCommand:
        self.members.get(request.ext("consumerGroup"), set()).discard(request.ext("clientID"))
        return _OK

    def _member_list(self, request: RemotingCommand) -> RemotingCommand:
        members = self.members.get(request.ext("consumerGroup"))
        if not members:
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="no consumer of this group")
        body = encode_json({"consumerIdList": sorted(members)})
        return RemotingCommand(ResponseCode.SUCCESS, body=body)

    # Topics

    def _create_topic(self, request: RemotingCommand) -> RemotingCommand:
        self.add_topic(request.ext("topic"), request.ext_int("writeQueueNums"))
        return _OK

    def _delete_topic(self, request: RemotingCommand) -> RemotingCommand:
        topic = request.ext("topic")
        self.topics.pop(topic, None)
        self.queues = {queue: data for queue, data in self.queues.items() if queue.topic != topic}
        return _OK

    # Locks

    def _lock(self, request: RemotingCommand) -> RemotingCommand:
        body = json.loads(request.body)
        answers = [
            self.locks.lock(
                body["consumerGroup"],
                body["clientId"],
                queue_from_json(item, "lock request"),
                self.clock.monotonic_ms(),
            )
            for item in objects(body, "mqSet", "lock request")
        ]
        granted = [queue_to_json(answer.queue) for answer in answers if answer.granted]
        reply: dict[str, object] = {"lockOKMQSet": granted}
        if FEATURE_LEASE_EPOCH in self.features:
            reply["leases"] = [_lease_json(answer) for answer in answers]
        return RemotingCommand(ResponseCode.SUCCESS, body=encode_json(reply))

    def _unlock(self, request: RemotingCommand) -> RemotingCommand:
        body = json.loads(request.body)
        for item in objects(body, "mqSet", "unlock request"):
            queue = queue_from_json(item, "unlock request")
            self.locks.unlock(body["consumerGroup"], body["clientId"], queue)
        return _OK

    def _leases(self, request: RemotingCommand) -> RemotingCommand:
        if FEATURE_LEASE_EPOCH not in self.features:
            return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        wanted = (request.ext_fields or {}).get("consumerGroup")
        now_ms = self.clock.monotonic_ms()
        rows = [
            queue_to_json(queue)
            | {
                "clientId": lock.owner or "",
                "epoch": lock.epoch,
                "expiresInMillis": max(0, lock.renewed_at_ms + LOCK_LIFETIME_MS - now_ms),
                "grantedAt": lock.granted_at_ms,
                "group": group,
                "live": self.locks.owner(group, queue, now_ms) is not None,
                "renewedAt": lock.renewed_at_ms,
            }
            for (group, queue), lock in self.locks.locks.items()
            if wanted in (None, group)
        ]
        reply = encode_json({"history": [], "leases": rows})
        return RemotingCommand(ResponseCode.SUCCESS, body=reply)

    def _is_stale(self, request: RemotingCommand, queue: MessageQueue) -> bool:
        fields = request.ext_fields or {}
        if FEATURE_LEASE_EPOCH not in self.features or "leaseEpoch" not in fields:
            return False
        group = request.ext("consumerGroup")
        is_live = self.locks.owner(group, queue, self.clock.monotonic_ms()) is not None
        return not is_live or request.ext_int("leaseEpoch") != self.locks.epoch(group, queue)

    def _stale(self, request: RemotingCommand, queue: MessageQueue) -> RemotingCommand:
        epoch = self.locks.epoch(request.ext("consumerGroup"), queue)
        return RemotingCommand(ResponseCode.STALE_LEASE, remark=f"the epoch is {epoch}")

    def _queue(self, request: RemotingCommand) -> StoredQueue:
        return self._stored(request.ext("topic"), request.ext_int("queueId"))

    def _target(self, request: RemotingCommand) -> StoredQueue:
        return self._stored(request.ext("b"), request.ext_int("e"))

    def _stored(self, topic: str, queue_id: int) -> StoredQueue:
        queue = MessageQueue(topic, self.name, queue_id)
        return self.queues.setdefault(queue, StoredQueue(queue))


def _lease_json(answer: LockAnswer) -> dict[str, object]:
    owner = {"clientId": answer.owner, "epoch": answer.epoch}
    return queue_to_json(answer.queue) | owner


def _offset(value: int) -> RemotingCommand:
    return RemotingCommand(ResponseCode.SUCCESS, ext_fields={"offset": str(value)})


def _sent(stored: StoredQueue, first: int, count: int) -> RemotingCommand:
    fields = {
        "msgId": ",".join(f"{offset:032X}" for offset in range(first, first + count)),
        "queueId": str(stored.queue.queue_id),
        "queueOffset": str(first),
    }
    return RemotingCommand(ResponseCode.SUCCESS, ext_fields=fields)


def _last_stored_ms(stored: StoredQueue) -> int:
    return stored.messages[-1].store_timestamp_ms if stored.messages else 0
