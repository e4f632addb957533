"""How a producer sends: plain, frozen and picklable."""

from __future__ import annotations

from dataclasses import dataclass

from rmq_ordered.errors import OptionError
from rmq_ordered.model import (
    MAX_MESSAGE_BYTES,
    Compression,
    OnDivergence,
    OnLayoutChange,
    Selector,
)


@dataclass(frozen=True, slots=True)
class SendSettings:
    """Everything about sending that is not what or where to.

    Attributes:
        selector: how rows are given to queues.
        send_timeout_ms: how long one batch may keep being refused or unanswered.
        idempotent: resolve unknown outcomes before going on; otherwise a repeat may land twice.
        batch_bytes: most bytes of one request; RocketMQ allows 4 MiB.
        batch_rows: most messages of one request.
        buffer_bytes: how much may wait to be sent before ``write`` blocks.
        compression: of bodies.
        compress_over_bytes: a batch is compressed when most of its bytes are in bodies this large.
        wait_out_ms: how long an unanswered request is left alone before the queue is read back.
        on_divergence: what a replay with other rows does.
        on_layout_change: what a missing queue does when a producer starts.
        run: the run of a query whose rows these are. A broker that fences writes refuses them when
            a lease is over that the run has read under.
    """

    selector: Selector = Selector.HASH
    send_timeout_ms: int = 30_000
    idempotent: bool = True
    batch_bytes: int = 1024 * 1024
    batch_rows: int = 4_000
    buffer_bytes: int = 16 * 1024 * 1024
    compression: Compression = Compression.NONE
    compress_over_bytes: int = 4_096
    wait_out_ms: int = 1_000
    on_divergence: OnDivergence = OnDivergence.FAIL
    on_layout_change: OnLayoutChange = OnLayoutChange.FAIL
    run: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.batch_bytes <= MAX_MESSAGE_BYTES:
            expected = f"1 to {MAX_MESSAGE_BYTES}, RocketMQ's limit"
            raise OptionError("batchBytes", self.batch_bytes, expected)
        for name in ("send_timeout_ms", "batch_rows", "buffer_bytes", "compress_over_bytes"):
            if getattr(self, name) <= 0:
                raise OptionError(name, getattr(self, name), "a number above 0")
