"""The messages of one batch, hidden from the rest of the group until the batch is finished."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from rmq_ordered.client.pop import PopConsumer, PopHold
from rmq_ordered.client.retry import retry_until
from rmq_ordered.clock import Clock
from rmq_ordered.errors import RmqOrderedError
from rmq_ordered.model import MessageQueue
from rmq_ordered.ordering.popped import PoppedOffset, spans_of
from rmq_ordered.protocol.pops import PoppedMessage

_LOG: Final = logging.getLogger("rmq_ordered.spark")
# Hidden anew so often within the invisible time: two failures in a row do no harm.
_RENEWALS: Final = 3
# How long it may take to notice that somebody saw the batch finished.
_LOOK_MS: Final = 20_000
# Long enough for a broker to restart.
_ACK_PATIENCE_MS: Final = 20_000


class BatchHold:
    """Handles, kept in memory only and renewed by a daemon thread. Thread-safe.

    Nothing here fails a query: what cannot be hidden anew or acknowledged comes again, which a
    warning says. ``is_told_finished`` is asked before each renewal, and every 20 s; when it says
    yes, the batch is acknowledged before Spark itself tells.
    """

    def __init__(
        self,
        offset: PoppedOffset,
        clock: Clock,
        invisible_ms: int,
        is_told_finished: Callable[[], bool] = lambda: False,
    ) -> None:
        self._planned = offset
        self._clock = clock
        self._looks = math.ceil(invisible_ms / _RENEWALS / _LOOK_MS)
        self._period_s = invisible_ms / _RENEWALS / self._looks / 1000
        self._is_told_finished = is_told_finished
        self._holds: dict[str, PopHold] = {}
        self._places: dict[MessageQueue, list[int]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._keep, name="rmq-ordered pop batch", daemon=True
        )

    @property
    def batch(self) -> int:
        """The batch's number."""
        return self._planned.batch

    @property
    def offset(self) -> PoppedOffset:
        """The batch as it goes into Spark's log."""
        spans = {queue: spans_of(offsets) for queue, offsets in self._places.items()}
        return replace(self._planned, spans=spans)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was popped."""
        return not self._places

    def add(self, consumer: PopConsumer, popped: Iterable[PoppedMessage]) -> None:
        """Hold these too; of the messages only their handles are kept."""
        light = [_without_content(each) for each in popped]
        for each in light:
            handle = each.handle
            topic = handle.physical_topic(consumer.group, consumer.topic)
            queue = MessageQueue(topic, handle.broker_name, handle.queue_id)
            self._places.setdefault(queue, []).append(handle.queue_offset)
        hold = self._holds.get(consumer.topic)
        if hold is None:
            # A new table: the thread may be walking through the old one.
            self._holds = {**self._holds, consumer.topic: consumer.hold(light)}
        else:
            hold.add(light)
        if self._thread.ident is None:
            self._thread.start()

    def finish(self) -> None:
        """The batch is finished: acknowledge it, and hold nothing any more."""
        self._stop()
        deadline_ms = self._clock.monotonic_ms() + _ACK_PATIENCE_MS
        try:
            retry_until(self._clock, deadline_ms, self._ack)
        except RmqOrderedError as error:
            _LOG.warning(
                "batch=%s group=%s is finished, but could not be acknowledged: messages of it may "
                "come again: %s",
                self.batch,
                self._planned.group,
                error,
            )

    def let_go(self) -> None:
        """Nobody will wait for the batch: acknowledge it if it is known to be finished."""
        self._stop()
        if not self._is_finished():
            return
        try:
            self._ack()
        except RmqOrderedError as error:
            _LOG.warning("the last batch could not be acknowledged: %s", error)

    def look(self, *, is_due: bool = True) -> None:
        """Acknowledge what is said to be finished, else hide it anew if that is due."""
        try:
            if self._is_finished():
                self._ack()
            elif is_due:
                self._each(PopHold.renew)
        except RmqOrderedError as error:
            _LOG.warning(
                "batch=%s group=%s could not be hidden anew, messages of it may come to others "
                "while it is at work: %s",
                self.batch,
                self._planned.group,
                error,
            )

    def _keep(self) -> None:
        looks = 0
        while not self._stopping.wait(self._period_s):
            looks += 1
            self.look(is_due=looks % self._looks == 0)

    def _stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _is_finished(self) -> bool:
        if self.is_empty:
            return False
        try:
            return self._is_told_finished()
        except RmqOrderedError as error:
            _LOG.debug("= whether batch %s is finished is not known: %s", self._planned, error)
            return False

    def _ack(self) -> None:
        self._each(PopHold.ack)

    def _each(self, act: Callable[[PopHold], None]) -> None:
        """Do it to the messages of every topic, then raise the first failure."""
        failures: list[RmqOrderedError] = []
        for hold in self._holds.values():
            try:
                act(hold)
            except RmqOrderedError as error:
                failures.append(error)
        for failure in failures:
            raise failure


def _without_content(popped: PoppedMessage) -> PoppedMessage:
    """The driver needs no bodies: executors read them again."""
    return replace(popped, message=replace(popped.message, body=b"", properties={}))
