"""The bugs: mistakes that somebody could make tomorrow, each against one promise.

When the code has changed so that a bug does not apply any more, give it another place: the promise
is still there to be broken.
"""

from dataclasses import dataclass
from typing import Final

AREAS: Final = ("ownership", "offsets", "stamps", "window", "recovery", "fences")


@dataclass(frozen=True)
class Bug:
    """One mistake.

    Args:
        name: What it is called in the table and on the command line.
        area: One of ``AREAS``.
        promise: The id of the promise that it breaks; the tests with that mark must notice.
        file: Where it is planted, below the project's folder.
        function: In which function: ``Class.method``, or ``function``.
        expression: What stands there, once.
        replacement: What stands there when the bug is in.
        why: What goes wrong then.
    """

    name: str
    area: str
    promise: str
    file: str
    function: str
    expression: str
    replacement: str
    why: str

    @property
    def language(self) -> str:
        """``python`` or ``scala``, which is also the lane it runs in."""
        return "python" if self.file.endswith(".py") else "scala"


_PYTHON: Final = "python/rmq_ordered/"
_SCALA: Final = "src/main/scala/rmqordered/"

_OWNERSHIP: Final = (
    Bug(
        name="trust-counted-from-the-answer",
        area="ownership",
        promise="trust-ends-before-lease",
        file=_PYTHON + "ordering/lease.py",
        function="LeaseTable.granted",
        expression="self._holdings[queue] = _Holding(asked_at_ms, epoch)",
        replacement="self._holdings[queue] = _Holding(now_ms, epoch)",
        why="a slow answer makes trust outlive the broker's lock",
    ),
    Bug(
        name="trust-comes-back",
        area="ownership",
        promise="trust-ends-before-lease",
        file=_PYTHON + "ordering/lease.py",
        function="LeaseTable.granted",
        expression="if holding.lost_because is not None: return",
        replacement="holding.lost_because = None",
        why="a renewal that is granted too late brings a lost lease back",
    ),
    Bug(
        name="late-unlock-under-the-same-id",
        area="ownership",
        promise="late-unlock-frees-nothing",
        file=_PYTHON + "client/locking.py",
        function="QueueLocks.unlock",
        expression="self._current_id = next_id",
        replacement="self._current_id = self._client_id",
        why="an unlock that arrives late frees what was locked again under the same id",
    ),
    Bug(
        name="live-run-robbed",
        area="ownership",
        promise="instance-take-over",
        file=_PYTHON + "client/takeover.py",
        function="TakeOver._must_settle",
        expression="return not is_fenced and not all(",
        replacement="return is_fenced and not all(",
        why="where nothing tells a live run that it was robbed, nobody waits until it notices",
    ),
    Bug(
        name="robbed-queues-unlocked",
        area="ownership",
        promise="failed-take-over-leaves-locked",
        file=_PYTHON + "client/takeover.py",
        function="TakeOver.give_up",
        expression="if is_settled else frozenset(self._unsettled)",
        replacement="if is_settled or self._unsettled else frozenset(self._unsettled)",
        why="who gives up unlocks what a robbed run may still work on",
    ),
    Bug(
        name="foreign-lock-freed",
        area="ownership",
        promise="late-unlock-frees-nothing",
        file=_SCALA + "lease/QueueLockManager.scala",
        function="QueueLockManager.unlock",
        expression="leasesOf(group, queues).filter(_._2.clientId == clientId)",
        replacement="leasesOf(group, queues)",
        why="anybody's unlock frees anybody's queue",
    ),
    Bug(
        name="lease-dies-too-soon",
        area="ownership",
        promise="crashed-owner-one-lease",
        file=_SCALA + "lease/Lease.scala",
        function="Lease.isHeld",
        expression="now <= expiresAt",
        replacement="now < expiresAt",
        why="a lease is dead in its last millisecond, which its owner was promised",
    ),
    Bug(
        name="doubtful-owner-not-waited-for",
        area="ownership",
        promise="leases-over-restart",
        file=_SCALA + "lease/QueueLockManager.scala",
        function="QueueLockManager.renew",
        expression="lease.isLive(now) || (lease.isHeld(now) && lease.clientId != clientId)",
        replacement="lease.isLive(now)",
        why="after a restart others get a queue whose owner may still trust its lease",
    ),
    Bug(
        name="forgotten-epochs-given-again",
        area="ownership",
        promise="leases-over-restart",
        file=_SCALA + "lease/LeaseEntries.scala",
        function="LeaseEntries.forget",
        expression="Math.max(table.floor, table.get(key).fold(0L)(_.epoch))",
        replacement="table.floor",
        why="a key that was forgotten gets epochs that were given before",
    ),
)

_OFFSETS: Final = (
    Bug(
        name="offset-committed-back",
        area="offsets",
        promise="sleeping-driver-no-harm",
        file=_PYTHON + "spark/ownership.py",
        function="ensure_witness",
        expression="if found != witness.expected:",
        replacement="if found is None and witness.expected is not None:",
        why="on RocketMQ a run that slept moves back what its successor committed",
    ),
    Bug(
        name="foreign-progress-committed-over",
        area="offsets",
        promise="listener-commits-own-group",
        file=_PYTHON + "spark/lag.py",
        function="OffsetCommitListener._commit",
        expression="if leases[q].epoch is None and found[q] != read[q][0]",
        replacement="if leases[q].epoch is None and found[q] is None",
        why="without epochs the listener commits although others stand in between",
    ),
    Bug(
        name="entry-of-a-gained-queue-ignored",
        area="offsets",
        promise="shared-mode",
        file=_PYTHON + "ordering/offsets.py",
        function="batch_ranges",
        expression="end.entries.get(queue, start.positions.get(queue, last))",
        replacement="start.positions.get(queue, last)",
        why="a batch that is repeated reads other rows of a queue that joined",
    ),
    Bug(
        name="waiting-messages-committed",
        area="offsets",
        promise="one-batch-per-queue",
        file=_PYTHON + "ordering/progress.py",
        function="QueueProgress.finished",
        expression="self._waiting[0][0] if self._waiting else self.pull_offset",
        replacement="self.pull_offset",
        why="what was pulled and not handled yet is committed as done",
    ),
    Bug(
        name="lease-commit-goes-back",
        area="offsets",
        promise="lease-commit-never-back",
        file=_SCALA + "offset/ConsumerOffsets.scala",
        function="ConsumerOffsets.commitForward",
        expression="Math.max(old, wanted)",
        replacement="wanted",
        why="a commit under a lease moves the group back",
    ),
    Bug(
        name="offsets-beyond-the-end-kept",
        area="offsets",
        promise="acked-survives-power-failure",
        file=_SCALA + "offset/ConsumerOffsets.scala",
        function="ConsumerOffsets.clamp",
        expression="if (committed > end)",
        replacement="if (committed > end + 1)",
        why="after a power failure a group stands behind messages that do not exist yet",
    ),
    Bug(
        name="fenced-commit-not-written-soon",
        area="offsets",
        promise="lease-commit-never-back",
        file=_SCALA + "offset/ConsumerOffsets.scala",
        function="ConsumerOffsets.commitForward",
        expression="fencedChanged = true",
        replacement="fencedChanged = changed && fencedChanged",
        why="a crash takes seconds of fenced commits, so that the group stands further back",
    ),
)

_STAMPS: Final = (
    Bug(
        name="landed-rows-sent-again",
        area="stamps",
        promise="stream-adds-missing-only",
        file=_PYTHON + "ordering/stream.py",
        function="StampedStream.judge",
        expression="return Send(self._landed - first)",
        replacement="return Send()",
        why="a repeat that overlaps what landed stores the overlap twice",
    ),
    Bug(
        name="other-rows-pass-for-landed",
        area="stamps",
        promise="stream-adds-missing-only",
        file=_PYTHON + "ordering/stream.py",
        function="StampedStream._compare",
        expression="if own != last.digest:",
        replacement="if own < 0:",
        why="other rows than those of the first attempt are skipped without a word",
    ),
    Bug(
        name="digest-without-order",
        area="stamps",
        promise="stream-adds-missing-only",
        file=_PYTHON + "columnar/digest.py",
        function="running_digests",
        expression="_mix(places * _GOLDEN + hashes)",
        replacement="_mix(0 * places + hashes)",
        why="the same rows in another order pass for the same rows",
    ),
    Bug(
        name="lost-answer-not-read-back",
        area="stamps",
        promise="order-across-calls",
        file=_PYTHON + "ordering/stream.py",
        function="StampedStream.lost_answer",
        expression="self._is_known = self._recovery is not Recovery.READ_BACK",
        replacement="self._is_known = True",
        why="a send whose answer was lost is repeated although its rows may be there",
    ),
    Bug(
        name="sequence-gap-passed-over",
        area="stamps",
        promise="stamped-send-repeated",
        file=_SCALA + "dedup/SendStreams.scala",
        function="SendStreams.judge",
        expression="if first > last.sequence + 1 =>",
        replacement="if first > request.lastSequence + 1 =>",
        why="rows that come before their predecessors are stored, and leave a gap",
    ),
    Bug(
        name="repeat-not-trimmed",
        area="stamps",
        promise="stamped-send-repeated",
        file=_SCALA + "dedup/SendStreams.scala",
        function="SendStreams.judge",
        expression="Append((last.sequence + 1 - first).toInt)",
        replacement="Append(0)",
        why="a repeat that goes further than what landed stores the beginning twice",
    ),
    Bug(
        name="digest-not-compared",
        area="stamps",
        promise="stamped-send-repeated",
        file=_SCALA + "dedup/SendStreams.scala",
        function="SendStreams.judge",
        expression="request.digestOf(one.sequence) != one.digest",
        replacement="one.sequence < 0",
        why="other rows under the stamps of the first ones are taken for a repeat",
    ),
    Bug(
        name="first-record-after-snapshot-missed",
        area="stamps",
        promise="stamped-send-repeated",
        file=_SCALA + "dedup/SendStreams.scala",
        function="SendStreams.observe",
        expression="record.position.commitLogOffset >= validToOffset",
        replacement="record.position.commitLogOffset > validToOffset",
        why="after a crash the first append behind the snapshot is not known and stored again",
    ),
)

_WINDOW: Final = (
    Bug(
        name="hole-behind-a-short-answer",
        area="window",
        promise="pulls-in-order",
        file=_PYTHON + "ordering/window.py",
        function="PullWindow.answered",
        expression="return self._void() if self.position < expected else 0",
        replacement="return 0",
        why="what an answer left out before the next pull is never asked for",
    ),
    Bug(
        name="position-goes-back",
        area="window",
        promise="pulls-in-order",
        file=_PYTHON + "ordering/window.py",
        function="PullWindow.answered",
        expression="self.position = max(self.position, min(next_offset, self.end))",
        replacement="self.position = min(next_offset, self.end)",
        why="an overtaken pull moves the read back, and rows come twice",
    ),
    Bug(
        name="void-pulls-not-asked-again",
        area="window",
        promise="pulls-in-order",
        file=_PYTHON + "ordering/window.py",
        function="PullWindow._void",
        expression="self._next_ask = self.position",
        replacement="self._next_ask = max(self.position, self._next_ask)",
        why="pulls that became void are not sent again from the place reached",
    ),
    Bug(
        name="count-beyond-the-range",
        area="window",
        promise="pulls-in-order",
        file=_PYTHON + "ordering/window.py",
        function="PullWindow._next_pull",
        expression="min(offset + self.step, self.end)",
        replacement="offset + self.step",
        why="a pull asks for more than the range, which others may own",
    ),
    Bug(
        name="hole-taken-for-filtered",
        area="window",
        promise="hole-in-range-fails",
        file=_PYTHON + "client/reader.py",
        function="QueueReader._rows",
        expression="if has_all and reached - position != rows.num_rows:",
        replacement="if has_all and reached - position < rows.num_rows:",
        why="a message missing in the middle of a range is skipped without a word",
    ),
)

_RECOVERY: Final = (
    Bug(
        name="acknowledged-without-a-force",
        area="recovery",
        promise="acked-survives-power-failure",
        file=_SCALA + "store/GroupCommit.scala",
        function="GroupCommit.flush",
        expression="log.force(flushedTo, end)",
        replacement="log.force(Math.max(flushedTo, end), end)",
        why="sends are acknowledged before their bytes are on the disk",
    ),
    Bug(
        name="file-name-not-durable",
        area="recovery",
        promise="acked-survives-power-failure",
        file=_SCALA + "store/CommitLog.scala",
        function="CommitLog.force",
        expression="files.forceFolder(folder)",
        replacement="if (namedTo < 0) files.forceFolder(folder)",
        why="the bytes are on the disk, but the name of their file is not",
    ),
    Bug(
        name="torn-tail-not-cut",
        area="recovery",
        promise="damaged-log-stops",
        file=_SCALA + "store/Recovery.scala",
        function="Recovery.endAt",
        expression="if (!scan.isFull) files.cut(last.file, scan.position)",
        replacement="if (scan.isFull) files.cut(last.file, scan.position)",
        why="what is left of an unfinished append may come to life behind the next one",
    ),
    Bug(
        name="forced-place-not-looked-for",
        area="recovery",
        promise="damaged-log-stops",
        file=_SCALA + "store/Recovery.scala",
        function="Recovery.ensureNeverForced",
        expression="forcedTo > end",
        replacement="forcedTo > end + Int.MaxValue",
        why="damage behind the checkpoint is cut off with all that was acknowledged after it",
    ),
    Bug(
        name="seal-not-compared",
        area="recovery",
        promise="acked-survives-power-failure",
        file=_SCALA + "store/AppendSeal.scala",
        function="AppendSeal.verify",
        expression="checksum(segment, start, sealAt + ChecksumAt)",
        replacement="segment.getInt(sealAt + ChecksumAt)",
        why="an append that reached the disk in part is believed",
    ),
    Bug(
        name="damage-cut-off-in-silence",
        area="recovery",
        promise="damaged-log-stops",
        file=_SCALA + "store/Recovery.scala",
        function="Recovery.ensureNotDamage",
        expression="durableTo.fold(behind.nonEmpty)(end < _)",
        replacement="durableTo.fold(behind.nonEmpty)(end < _ && behind.nonEmpty)",
        why="damage in the last file costs what was known to be on the disk, unsaid",
    ),
    Bug(
        name="unreadable-append-passed-over",
        area="recovery",
        promise="damaged-log-stops",
        file=_SCALA + "store/Recovery.scala",
        function="Recovery.scanSegment",
        expression=".fold(problem => throw unreadable(segment, position, problem), identity)",
        replacement=(
            ".fold(problem => if (durableTo.isEmpty) throw unreadable(segment, position, problem)"
            " else Vector.empty[DecodedRecord], identity)"
        ),
        why="records that were written so and cannot be read are left out without a word",
    ),
)

_FENCES: Final = (
    Bug(
        name="commit-without-its-epoch",
        area="fences",
        promise="stale-lease-refused",
        file=_PYTHON + "client/commits.py",
        function="OffsetCommits._question",
        expression="lease.epoch if lease is not None else None",
        replacement="None",
        why="the broker cannot refuse the commit of a lease that is over",
    ),
    Bug(
        name="pull-without-its-epoch",
        area="fences",
        promise="stale-lease-refused",
        file=_PYTHON + "client/pulls.py",
        function="_encoder",
        expression="lease_epoch=plan.lease.epoch if plan.lease else None,",
        replacement="",
        why="the broker cannot refuse the pull of a lease that is over",
    ),
    Bug(
        name="commit-under-the-next-run-s-lease",
        area="fences",
        promise="listener-commits-own-group",
        file=_PYTHON + "spark/lag.py",
        function="OffsetCommitListener._commit",
        expression="broker.commit_offsets(self._group, certain, leases=leases)",
        replacement="broker.commit_offsets(self._group, certain)",
        why="a run that is over commits in the name of the next one",
    ),
    Bug(
        name="epoch-not-compared",
        area="fences",
        promise="stale-lease-refused",
        file=_SCALA + "lease/QueueLockManager.scala",
        function="QueueLockManager.ifCurrent",
        expression="if (live.exists(_.epoch == epoch)) Right(action)",
        replacement="if (live.exists(_.epoch >= epoch)) Right(action)",
        why="who lost a queue goes on under the lease of whoever has it now",
    ),
    Bug(
        name="expired-epoch-served",
        area="fences",
        promise="stale-lease-refused",
        file=_SCALA + "lease/QueueLockManager.scala",
        function="QueueLockManager.ifCurrent",
        expression="table.live(key, clock.monotonicMillis())",
        replacement="table.get(key).flatMap(_.lease).filter(!_.isOver)",
        why="a lease that expired is served until somebody else locks",
    ),
    Bug(
        name="woken-poll-not-checked",
        area="fences",
        promise="stale-lease-refused",
        file=_SCALA + "handler/PullHandler.scala",
        function="PullHandler.evaluate",
        expression="fence.ensure(call, group, key)",
        replacement="if (waited.isEmpty) fence.ensure(call, group, key)",
        why="a poll that waited under a lease that is over gets what came since",
    ),
    Bug(
        name="fenced-commit-taken-as-plain",
        area="fences",
        promise="stale-lease-refused",
        file=_SCALA + "handler/OffsetHandler.scala",
        function="OffsetHandler.update",
        expression="case Some(epoch) => commitFenced(key, epoch, committed)",
        replacement=(
            "case Some(epoch) => if (epoch < 0) commitFenced(key, epoch, committed)"
            " else offsets.commit(key, committed)"
        ),
        why="a commit under a stale lease is taken as if it had none",
    ),
)

BUGS: Final = (*_OWNERSHIP, *_OFFSETS, *_STAMPS, *_WINDOW, *_RECOVERY, *_FENCES)
