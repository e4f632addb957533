"""The sends of one queue.

``QueueSequencer`` says which rows come next, ``StampedStream`` what of them is there already; this
module moves bytes. One request of a queue is in flight at a time, so nothing is ever overtaken, and
what an earlier lane has left behind in flight is settled before the next one sends:

    SENDING --give_up, a request may still be stored--> GIVEN UP --answered, or found out--> done
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rmq_ordered.client.connection import Client
from rmq_ordered.client.pieces import LaneTally, Piece
from rmq_ordered.client.readback import TraceFound, floor_of, read_back
from rmq_ordered.client.requests import StreamRequests
from rmq_ordered.client.send_settings import SendSettings
from rmq_ordered.columnar.records import RecordIdentity
from rmq_ordered.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    QueueLayoutChanged,
    RemoteProtocolError,
    ReplayDiverged,
    RequestTimedOut,
    RmqOrderedError,
    SendUnsettled,
    StreamGap,
    TransportError,
    WriteFenced,
)
from rmq_ordered.model import MessageQueue, OnDivergence, QueueReceipt, SendStream
from rmq_ordered.net.channel import PendingAnswer
from rmq_ordered.ordering.sequencer import QueueSequencer
from rmq_ordered.ordering.stream import Diverged, ReadBack, Recovery, Send, Skip, StampedStream
from rmq_ordered.protocol.answers import refusal, understood
from rmq_ordered.protocol.codes import ResponseCode
from rmq_ordered.protocol.command import RemotingCommand
from rmq_ordered.protocol.sends import STORED_CODES, is_put_off, parse_receipt
from rmq_ordered.protocol.stamps import parse_landed

_LOG: Final = logging.getLogger("rmq_ordered.client")
_LOST_CODES: Final = frozenset({ResponseCode.STREAM_UNKNOWN, ResponseCode.SEQUENCE_GAP})
_ELSEWHERE_CODES: Final = frozenset(
    {ResponseCode.INVALID_PARAMETER, ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST}
)


class Lane:
    """One queue. Not thread-safe.

    Args:
        client: the cluster.
        queue: the queue.
        stream: whose rows.
        recovery: how unknown outcomes are resolved.
        settings: how to send.
        is_stamped: whether the stream's stamps are sent along.
        floor: where rows of earlier attempts begin, if there may be any.
        before: a lane of the same queue that was given up and has to be settled first.
    """

    def __init__(
        self,
        client: Client,
        queue: MessageQueue,
        stream: SendStream,
        recovery: Recovery,
        settings: SendSettings,
        *,
        is_stamped: bool,
        floor: int | None = None,
        before: Lane | None = None,
    ) -> None:
        self.queue = queue
        self._before = before
        self.tally = LaneTally(QueueReceipt(queue))
        self._client = client
        self._original = stream
        self._recovery = recovery
        self._settings = settings
        self._is_stamped = is_stamped
        self._first_floor = self._floor = floor
        self._sequencer: QueueSequencer[Piece] = QueueSequencer(settings.send_timeout_ms)
        self._pending: PendingAnswer | None = None
        self._late: tuple[PendingAnswer, Piece] | None = None
        self._sending: Piece | None = None
        # What nobody has answered for: it may be stored already, or yet be stored.
        self._open: Piece | None = None
        self._open_since_ms = 0
        self._is_given_up = False
        self._found: TraceFound | None = None
        self._held: list[Piece] = []
        self._generation = 0
        self._attempted = 0
        self._skipped = 0
        self.waiting_bytes = 0
        self._begin(stream)

    def _begin(self, stream: SendStream) -> None:
        self._stream = stream
        self._requests = StreamRequests.of(
            self.queue,
            stream,
            self._recovery,
            is_stamped=self._is_stamped,
            run=self._settings.run,
        )
        is_known = self._first_floor is None
        self._state = StampedStream(self.queue, stream, self._recovery, is_known=is_known)
        self._floor = self._first_floor
        # The sequence of the first row that may lie at or after the floor.
        self._floor_sequence = 0

    # What the loop asks

    @property
    def is_done(self) -> bool:
        """Whether every piece has landed."""
        return self._sequencer.is_done

    @property
    def pending(self) -> PendingAnswer | None:
        """The request in flight."""
        return self._pending if self._before is None else self._before.pending

    @property
    def wake_up_ms(self) -> int | None:
        """When something is to be done without an answer; None if there is nothing to do."""
        if self._before is not None and not self._sequencer.is_done:
            return self._before.wake_up_ms
        if self._pending is not None:
            return self._pending.deadline_ms
        return None if self._sequencer.is_done else self._sequencer.not_before_ms

    @property
    def identity(self) -> RecordIdentity:
        """What records carry beside their rows."""
        return self._requests.identity

    def add(self, piece: Piece) -> None:
        """Rows to send after all others."""
        self.waiting_bytes += piece.nbytes
        self._sequencer.add(piece)

    def advance(self) -> None:
        """Send what may be sent now."""
        if self._before is not None:
            self._settle_before(self._before.advance)
        if self._before is not None:
            return
        while (piece := self._sequencer.take(self._now())) is not None:
            try:
                if self._take_late() or not self._step(piece):
                    return
            except RmqOrderedError as error:
                self._fail(error)
                return

    def settle(self) -> None:
        """Take the answer, if it is there or will never be."""
        if self._before is not None:
            self._settle_before(self._before.settle)
        answer = self._pending
        if answer is None:
            return
        if answer.future.done():
            self._pending = None
            self._answered(answer)
        elif self._now() >= answer.deadline_ms:
            self._pending = None
            self._timed_out(answer)

    def finish(self, count: int) -> None:
        """There are no more than ``count`` rows; raises ReplayDiverged if there once were."""
        diverged = self._state.finish(count)
        if diverged is not None:
            self._diverge(diverged)

    # What is left behind

    def give_up(self) -> Lane | None:
        """Send nothing more; gives back the lane whose request may still be stored, if there is.

        As the lane before another it goes on until it is known what became of that request.
        """
        piece = self._sending or self._open
        if self._is_given_up:
            return None if piece is None else self
        if piece is None:
            return self._before
        if self._pending is None and self._sending is not None:
            self._lose(self._sending)  # interrupted while it was sent
            self._sending = None
        self._is_given_up = True
        self._settings = replace(self._settings, on_divergence=OnDivergence.FAIL)
        self._held.clear()
        self._skipped = 0
        waits_out = self._recovery is Recovery.READ_BACK and self._open is not None
        self._sequencer = QueueSequencer(
            self._settings.send_timeout_ms,
            [piece],
            not_before_ms=self._open_since_ms + self._settings.wait_out_ms if waits_out else 0,
        )
        if self._pending is not None:
            self._sequencer.resume()
        return self

    def follow(self, before: Lane) -> None:
        """Let another lane of the queue be settled first."""
        self._before = before

    def be_patient_again(self) -> None:
        """A new call has its own send timeout."""
        self._sequencer.be_patient_again()
        if self._before is not None:
            self._before.be_patient_again()

    def _settle_before(self, go_on: Callable[[], None]) -> None:
        """Go on with what an earlier lane of this queue has left behind."""
        try:
            go_on()
        except SendUnsettled:
            raise
        except RmqOrderedError as error:
            raise SendUnsettled(self.queue, str(error)) from error
        if self._before is not None and self._before.is_done:
            self._before = None

    # Deciding and sending

    def _step(self, piece: Piece) -> bool:
        """Whether the lane can go on at once."""
        if self._floor is None and self._recovery is Recovery.READ_BACK:
            self._floor = floor_of(self._client, self.queue)
        decision = self._state.judge(piece.first, len(piece.rows), piece.digest_at)
        if isinstance(decision, ReadBack):
            self._read_back()
            decision = self._state.judge(piece.first, len(piece.rows), piece.digest_at)
        if self._is_given_up and self._recovery is not Recovery.BROKER:
            # The broker or its queue has told, or nobody ever will; what was given up stays so.
            self._settled()
            return True
        match decision:
            case Skip():
                self._skip(piece)
                return True
            case Diverged():
                self._diverge(decision)
                return True
            case Send(skip=skip):
                self._skipped = skip
                self._send(piece.after(skip))
        return False

    def _send(self, piece: Piece) -> None:
        self._held.clear()
        key = piece.rows.first_key
        named = "" if key is None else f", the first with key {key!r:.200}"
        what = f"a send of {len(piece.rows)} messages to {self.queue}{named}"
        request = self._requests.request(piece, self._client.clock.wall_ms())
        self._sending = piece
        self._pending = self._client.broker.start(
            self.queue, request, what, self._client.request_timeout_ms
        )

    def _skip(self, piece: Piece) -> None:
        self._tally_landed(piece.first, len(piece.rows))
        self._landed()
        if self._settings.on_divergence is OnDivergence.RESEND:
            self._held.append(piece)

    def _settled(self) -> None:
        self._open = self._sending = None
        self._landed()

    def _landed(self) -> None:
        self.waiting_bytes -= self._sequencer.landed().nbytes

    def _tally_landed(self, first: int, count: int) -> None:
        """Rows that a read-back or an answer found to be there."""
        found = self._found
        first_offset = last_offset = None
        if found is not None:
            first_offset = found.first_offset if first == self._floor_sequence else None
            is_last = first + count - 1 == found.last.sequence
            last_offset = found.last.queue_offset if is_last else None
        # What this lane has tried to send before is its own work, though nobody acknowledged it.
        own = max(0, min(count, self._attempted - first))
        receipt = QueueReceipt(self.queue, own, count - own, first_offset, last_offset)
        self.tally.add(receipt)

    # Outcomes

    def _answered(self, answer: PendingAnswer) -> None:
        def accept(response: RemotingCommand, address: str) -> None:
            self._accept(response, answer)

        try:
            understood(accept, answer.result(), answer.channel.address, answer.what)
        except RmqOrderedError as error:
            self._fail(error)

    def _accept(self, response: RemotingCommand, answer: PendingAnswer) -> None:
        piece = self._sending
        if piece is None:
            return
        if response.code not in STORED_CODES:
            self._refused(response, answer, piece)
            return
        if response.code != ResponseCode.SUCCESS:
            _LOG.warning(
                "stored, but less durable than configured code=%s queue=%s: %s",
                response.code,
                self.queue,
                response.remark,
            )
        receipt = parse_receipt(response, self.queue, len(piece.rows))
        last = parse_landed(response)
        if last is not None and (last.batch, last.sequence) == (self._stream.batch, piece.end - 1):
            receipt = replace(receipt, last_offset=last.queue_offset)
        if self._skipped:
            self._tally_landed(piece.first - self._skipped, self._skipped)
        own = min(receipt.duplicates, max(0, self._attempted - piece.first))
        count, duplicates = receipt.count + own, receipt.duplicates - own
        self.tally.add(replace(receipt, count=count, duplicates=duplicates))
        if receipt.last_offset is not None:
            self._floor, self._floor_sequence = receipt.last_offset + 1, piece.end
        if receipt.duplicates == 0 or last is None:
            self._state.acknowledged(piece.first, len(piece.rows))
        if last is not None:
            self._state.learned(last)
        self._attempted = max(self._attempted, piece.end)
        self._settled()
        if receipt.duplicates and self._settings.on_divergence is OnDivergence.RESEND:
            self._held.append(piece)

    def _refused(self, response: RemotingCommand, answer: PendingAnswer, piece: Piece) -> None:
        last = parse_landed(response)
        if response.code == ResponseCode.REPLAY_DIVERGED and last is not None:
            own = piece.digest_at(last.sequence)
            reason = f"digest {last.digest:016x} landed at offset {last.queue_offset}, not"
            self._diverge(Diverged(last.sequence, f"{reason} {own:016x}"))
            return
        if response.code == ResponseCode.STALE_BATCH and last is not None:
            self._state.learned(last)
        if response.code == ResponseCode.WRITE_FENCED:
            raise WriteFenced(self.queue, self._settings.run or "", response.remark or "fenced")
        if response.code in _LOST_CODES:
            is_same = last is not None and last.batch == self._stream.batch
            found = last.sequence + 1 if last is not None and is_same else 0
            raise StreamGap(self.queue, self._stream, piece.first, found)
        address = answer.channel.address
        if is_put_off(response):
            raise BrokerBusy(address, answer.what, response.code, response.remark)
        raise refusal(response, address, answer.what)

    def _timed_out(self, answer: PendingAnswer) -> None:
        """The request may still be served: where the queue is read back, that is waited out."""
        error = RequestTimedOut(answer.channel.address, answer.what, answer.timeout_ms)
        answer.channel.retire()
        if self._recovery is Recovery.READ_BACK and self._sending is not None:
            self._late = (answer, self._sending)
        else:
            answer.abandon()
        self._fail(error)

    def _take_late(self) -> bool:
        """Whether an answer came after its deadline, but before the queue was read back."""
        if self._late is None:
            return False
        (late, piece), self._late = self._late, None
        is_answered = late.future.done() and late.future.exception() is None
        if is_answered:
            self._open = None
            self._state.learned(None)
            self._sending = piece
            self._answered(late)
        else:
            late.abandon()
        return is_answered

    def _fail(self, error: RmqOrderedError) -> None:
        pause_ms = 0
        is_answer = not isinstance(error, TransportError | RemoteProtocolError)
        if self._sending is not None and is_answer and self._is_settled_by(error):
            self._settled()
            return
        if self._sending is not None and not is_answer and not isinstance(error, ConnectFailed):
            self._lose(self._sending)
            pause_ms = self._settings.wait_out_ms if self._recovery is Recovery.READ_BACK else 0
            if self._is_given_up and not error.retryable:
                error = ConnectionLost(self.queue.broker_name, str(error))
        self._sending = None
        self._client.routes.forget(self.queue.topic)
        try:
            self._sequencer.failed(error, self._now(), at_least_ms=pause_ms)
        except RmqOrderedError:
            self._ensure_layout(error)
            raise

    def _lose(self, piece: Piece) -> None:
        """Nobody knows whether these rows are stored, or will be."""
        self._state.lost_answer()
        self._attempted = max(self._attempted, piece.end)
        self._open, self._open_since_ms = piece, self._now()

    def _is_settled_by(self, refused: RmqOrderedError) -> bool:
        """Whether a refusal is all that there is to know about what was given up.

        A refused repeat tells nothing about the request before it, unless the broker knows both.
        """
        is_told = self._recovery is Recovery.BROKER and not refused.retryable
        return self._is_given_up and (self._open is None or is_told)

    def _ensure_layout(self, error: RmqOrderedError) -> None:
        """A queue that is not there any more is told apart from one that is out of reach."""
        is_suspect = isinstance(error, TransportError) or (
            isinstance(error, BrokerError) and error.code in _ELSEWHERE_CODES
        )
        if not is_suspect:
            return
        try:
            found = self._client.routes.writable(self.queue.topic)
        except RmqOrderedError:
            return
        if self.queue not in found:
            raise QueueLayoutChanged(self.queue.topic, (self.queue,), len(found)) from error

    # What landed before

    def _read_back(self) -> None:
        floor = self._floor if self._floor is not None else 0
        found = read_back(self._client, self.queue, floor, self._requests.trace)
        _LOG.info("read back queue=%s from=%s found=%s", self.queue, floor, found)
        self._open = None
        self._state.learned(None if found is None else found.last)
        if found is not None and found.last.batch == self._stream.batch:
            self._found = found

    def _diverge(self, diverged: Diverged) -> None:
        if self._settings.on_divergence is not OnDivergence.RESEND:
            raise ReplayDiverged(self.queue, self._stream, diverged.sequence, diverged.reason)
        self._generation += 1
        _LOG.warning(
            "a replay differs from what landed and is sent again queue=%s sequence=%s: %s",
            self.queue,
            diverged.sequence,
            diverged.reason,
        )
        earlier, self._held = self._held, []
        self.waiting_bytes += sum(piece.nbytes for piece in earlier)
        self._sequencer.begin_again(earlier)
        self.tally = LaneTally(QueueReceipt(self.queue))
        self._found = self._sending = self._open = None
        self._attempted = 0
        self._begin(replace(self._original, sink=f"{self._original.sink}.{self._generation}"))

    def _now(self) -> int:
        return self._client.clock.monotonic_ms()
