"""The lanes of a producer: kept busy together, and what those that were given up leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, wait

from rmq_ordered.client.connection import Client
from rmq_ordered.client.sending import Lane
from rmq_ordered.model import MessageQueue


class OpenSends:
    """Requests of one producer that nobody waits for any more and that may still be stored.

    A queue is sent to again only when its request is settled: answered, or found out as an unknown
    outcome is. One for all writers of a producer. Not thread-safe.
    """

    def __init__(self) -> None:
        self._left: dict[MessageQueue, Lane] = {}

    def keep(self, lanes: Iterable[Lane]) -> None:
        """Give lanes up, and remember those that have left something in flight."""
        for lane in lanes:
            left, known = lane.give_up(), self.before(lane.queue)
            if left is None or left is known:
                continue
            if known is not None:
                left.follow(known)
            self._left[lane.queue] = left

    def before(self, queue: MessageQueue) -> Lane | None:
        """What has to be settled before something new is sent to a queue."""
        left = self._left.get(queue)
        if left is not None and left.is_done:
            del self._left[queue]
            return None
        if left is not None:
            left.be_patient_again()
        return left


def run_lanes(client: Client, lanes: Iterable[Lane], is_enough: Callable[[], bool]) -> None:
    """Keep every lane busy until it is enough."""
    busy = list(lanes)
    while not is_enough():
        for lane in busy:
            lane.advance()
        if is_enough():
            return
        _await_any(client, busy)
        for lane in busy:
            lane.settle()
        busy = [lane for lane in busy if not lane.is_done]


def _await_any(client: Client, lanes: list[Lane]) -> None:
    """Wait for an answer, a deadline, or the end of a pause, whichever comes first."""
    pending = [lane.pending.future for lane in lanes if lane.pending is not None]
    if any(future.done() for future in pending):
        return
    now_ms = client.clock.monotonic_ms()
    wake_ups = [lane.wake_up_ms for lane in lanes if lane.wake_up_ms is not None]
    wait_ms = max(0, min(wake_ups, default=now_ms) - now_ms)
    if pending:
        wait(pending, wait_ms / 1000, FIRST_COMPLETED)
    elif wait_ms:
        client.clock.pause_ms(wait_ms)
