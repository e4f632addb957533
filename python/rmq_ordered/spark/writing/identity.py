"""Who writes: what makes a replayed batch the same batch, and a new query a new sink.

A stream is known by the id of its query, which Spark keeps in the checkpoint: the same after every
restart, another one after the checkpoint was deleted. Only tasks see it, so the driver learns it
from what they report (``docs/decisions/0008-a-sink-is-known-by-its-query.md``).
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext

from rmq_ordered.client.ledger import WriteAttempt
from rmq_ordered.errors import LocalProtocolError
from rmq_ordered.model import SendStream
from rmq_ordered.options import SinkOptions
from rmq_ordered.spark.run_name import QUERY_PROPERTY, RUN_PROPERTY

_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """A batch write: either the user's own name for it, or one that is used once.

    Attributes:
        is_lasting: whether other writes of the same sink may follow.
    """

    sink: str
    batch: int
    is_lasting: bool

    @classmethod
    def of(cls, options: SinkOptions) -> BatchIdentity:
        """Made once, on the driver."""
        if options.sink_id is not None and options.batch_id is not None:
            return cls(options.sink_id, options.batch_id, True)
        return cls(f"w-{_short(uuid.uuid4())}", 0, False)

    def attempt(self) -> WriteAttempt:
        """This task's part; asked on an executor."""
        context = _context()
        stream = SendStream(self.sink, self.batch, context.partitionId())
        # A user's retry of a batch looks like its first attempt, so it never counts as one.
        run = None if self.is_lasting else self.sink
        return WriteAttempt(stream, run, context.attemptNumber() == 0)


def stream_attempt() -> WriteAttempt:
    """This task's part of a micro-batch; asked on an executor."""
    context = _context()
    query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(_BATCH)
    if query is None or batch is None:
        raise LocalProtocolError(
            f"expected Spark to tell the task its query and batch ({QUERY_PROPERTY}, {_BATCH}), "
            f"found {query!r} and {batch!r}; inside foreachBatch use df.write with sinkId and "
            "batchId"
        )
    stream = SendStream(f"q-{_short(uuid.UUID(query))}", int(batch), context.partitionId())
    return WriteAttempt(
        stream, context.getLocalProperty(RUN_PROPERTY), context.attemptNumber() == 0
    )


def _short(number: uuid.UUID) -> str:
    """Its bytes in base64: the name of a sink travels with, and is stored in, every message."""
    return base64.urlsafe_b64encode(number.bytes).rstrip(b"=").decode()


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise LocalProtocolError("expected to run inside a Spark task, found none")
    return context
