"""A broker double that can be popped: what it hands out stays out until it is acknowledged."""

import base64
import json
from collections import defaultdict

from rmq_ordered.model import MessageQueue
from rmq_ordered.protocol.codes import RequestCode, ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.message import encode_message
from rmq_ordered.testing import BrokerDouble, ClusterDouble

REVIVE_QUEUE = 3


class PoppingDouble:
    """Pops of one group over a double's queues; times run out when the test says so.

    Attributes:
        out: offsets handed out and not acknowledged.
        acked: offsets acknowledged.
        renewed: how often a message was hidden anew.
    """

    def __init__(self, double: BrokerDouble) -> None:
        self._double = double
        self._next: dict[MessageQueue, int] = defaultdict(int)
        self._again: dict[MessageQueue, set[int]] = defaultdict(set)
        self._attempts: dict[MessageQueue, tuple[str, list[int]]] = {}
        self.out: dict[MessageQueue, set[int]] = defaultdict(set)
        self.acked: dict[MessageQueue, list[int]] = defaultdict(list)
        self.renewed = 0

    def serve(self, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.POP_MESSAGE:
            return self._pop(request)
        if request.code == RequestCode.BATCH_ACK_MESSAGE:
            return self._ack(request)
        if request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            self.renewed += 1
            return RemotingCommand(ResponseCode.SUCCESS, ext_fields=self._times(request))
        return self._double.serve(request)

    def skip(self, queue: MessageQueue, count: int) -> None:
        """Somebody else of the group takes so many."""
        self._next[queue] += count

    def let_times_run_out(self) -> None:
        """What is out comes again; here, other than at real brokers, in its own place."""
        for queue, offsets in self.out.items():
            self._again[queue] |= offsets
            offsets.clear()

    def _pop(self, request: RemotingCommand) -> RemotingCommand:
        is_orderly = request.ext("order") == "true"
        left = request.ext_int("maxMsgNums")
        bodies, starts = [], []
        for queue, stored in sorted(self._double.queues.items()):
            if queue.topic != request.ext("topic"):
                continue
            offsets = self._take(queue, stored.maximum, left, request if is_orderly else None)
            if offsets:
                starts.append(f"0 {queue.queue_id} {offsets[0]}")
            bodies += [encode_message(stored.messages[offset]) for offset in offsets]
            left -= len(offsets)
        if not bodies:
            return RemotingCommand(ResponseCode.POLLING_TIMEOUT)
        fields = self._times(request) | {"startOffsetInfo": ";".join(starts)}
        return RemotingCommand(ResponseCode.SUCCESS, ext_fields=fields, body=b"".join(bodies))

    def _take(
        self, queue: MessageQueue, end: int, most: int, orderly: RemotingCommand | None
    ) -> list[int]:
        if orderly is not None and self.out[queue]:
            attempt, offsets = self._attempts[queue]
            return offsets if attempt == orderly.ext("attemptId") else []
        first = self._next[queue]
        ready = sorted(self._again[queue]) + list(range(first, end))
        offsets = ready[:most]
        self._again[queue] -= set(offsets)
        self._next[queue] = max([first, *(offset + 1 for offset in offsets)])
        self.out[queue] |= set(offsets)
        if orderly is not None:
            self._attempts[queue] = orderly.ext("attemptId"), offsets
        return offsets

    def _ack(self, request: RemotingCommand) -> RemotingCommand:
        for entry in json.loads(request.body)["acks"]:
            queue = MessageQueue(entry["t"], self._double.name, entry["q"])
            bits = int.from_bytes(base64.b64decode(entry["b"]), "little")
            for bit in range(bits.bit_length()):
                offset = entry["so"] + bit
                if bits >> bit & 1 and offset in self.out[queue]:
                    self.out[queue].discard(offset)
                    self.acked[queue].append(offset)
        return RemotingCommand(ResponseCode.SUCCESS)

    def _times(self, request: RemotingCommand) -> dict[str, str]:
        return {
            "popTime": str(self._double.clock.wall_ms()),
            "invisibleTime": request.ext("invisibleTime"),
            "reviveQid": str(REVIVE_QUEUE),
        }


def popping(cluster: ClusterDouble) -> list[PoppingDouble]:
    """Let every broker of a cluster be popped."""
    doubles = [PoppingDouble(broker) for broker in cluster.brokers]
    for broker, double in zip(cluster.brokers, doubles, strict=True):
        cluster.network.listen(broker.address, double.serve)
    return doubles
