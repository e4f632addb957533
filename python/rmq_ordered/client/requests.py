"""How the rows of one stream in one queue become requests, and by what they are known there.

A broker that recognises repeats gets one stamp with each request. Where the queue is read back
instead, every record has to tell which one it is, because a broker that crashed may have kept only
the first records of a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from rmq_ordered.client.pieces import Piece
from rmq_ordered.client.readback import StreamTrace
from rmq_ordered.columnar.records import (
    UNIQUE_KEY_BYTES,
    RecordIdentity,
    digest_bytes,
    encode_records,
)
from rmq_ordered.model import MessageQueue, SendStream
from rmq_ordered.ordering.stream import Recovery
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.sends import (
    in_name_of,
    send_batch_request,
    send_record_request,
    send_stamped_request,
)
from rmq_ordered.protocol.stamps import stamp_prefix

_PRODUCER_GROUP: Final = "rmq-ordered"


@dataclass(frozen=True, slots=True)
class StreamRequests:
    """The requests of one stream to one queue.

    Attributes:
        queue: where to.
        stream: whose rows.
        identity: what the records carry.
        prefix: the stamp of a request up to the sequence of its first row; None where the records
            say all there is to say.
        run: in whose name, where the broker fences the writes of runs.
    """

    queue: MessageQueue
    stream: SendStream
    identity: RecordIdentity
    prefix: str | None
    run: str | None = None

    @classmethod
    def of(
        cls,
        queue: MessageQueue,
        stream: SendStream,
        recovery: Recovery,
        *,
        is_stamped: bool,
        run: str | None = None,
    ) -> Self:
        """Requests whose repeats can be told from new ones in the way that ``recovery`` says."""
        prefix = stamp_prefix(stream) if is_stamped else None
        is_told = recovery is Recovery.BROKER
        name = f"{stream.sink}/{stream.batch}/{stream.partition}"
        identity = RecordIdentity.of(name, queue, None if is_told else prefix)
        return cls(queue, stream, identity, prefix if is_told else None, run)

    @property
    def trace(self) -> StreamTrace:
        """How the rows are recognised when the queue is read back."""
        prefix = self.identity.unique_prefix
        if self.identity.stamp_prefix is None:
            return StreamTrace.of_unique_keys(self.stream, prefix)
        return StreamTrace.of_stamped(self.stream, prefix)

    def request(self, piece: Piece, born_ms: int) -> RemotingCommand:
        """The request that stores some rows."""
        request = self._request(piece, born_ms)
        return request if self.run is None else in_name_of(request, self.run)

    def _request(self, piece: Piece, born_ms: int) -> RemotingCommand:
        sys_flag = piece.sys_flag
        body = self._records(piece, sys_flag)
        if sys_flag and len(body) > piece.nbytes + UNIQUE_KEY_BYTES * len(piece.rows):
            # What cannot be made smaller goes as it is: it may just fit the broker's limit.
            sys_flag = 0
            body = self._records(piece, sys_flag)
        if self.prefix is not None:
            return send_stamped_request(
                self.queue,
                body,
                f"{self.prefix}{piece.first}",
                len(piece.rows),
                producer_group=_PRODUCER_GROUP,
                born_ms=born_ms,
                sys_flag=sys_flag,
            )
        # RocketMQ 5.5 takes an empty body in a batch, but not by itself (a null at its broker).
        is_single = len(piece.rows) == 1 and piece.rows.body_bytes[0] > 0
        build = send_record_request if is_single else send_batch_request
        return build(
            self.queue, body, producer_group=_PRODUCER_GROUP, born_ms=born_ms, sys_flag=sys_flag
        )

    def _records(self, piece: Piece, sys_flag: int) -> bytes:
        behind = b""
        if self.prefix is not None and piece.digests is not None:
            behind = digest_bytes(piece.digests)
        return encode_records(
            piece.rows, self.identity, piece.first, piece.digests, sys_flag, behind=behind
        )
