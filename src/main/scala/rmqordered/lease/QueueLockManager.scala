package rmqordered.lease

import java.io.IOException
import java.util.concurrent.locks.ReentrantLock

import org.slf4j.LoggerFactory

import scala.collection.mutable

import rmqordered.model.MessageQueue
import rmqordered.util.Clock

/**
 * Who may consume which queue: RocketMQ's RebalanceLockManager, plus a rising epoch per (group,
 * queue) that lets the broker refuse whoever held the queue before.
 *
 * Invariants: at most one live lease per key; an epoch belongs to one grant only, over restarts
 * too; a grant is on disk before it is answered. Ownership fails closed: what cannot be recorded is
 * not granted, and an unknown epoch is a stale one.
 *
 * No threads: expiry is computed when somebody asks, strictly after `lifetimeMs` since the last
 * renewal. Thread-safe: changes are made one at a time and may wait for the disk (`changes`); the
 * table itself is locked for moments only (`this`), so that neither a renewal nor the fence in
 * front of every pull ever waits for a disk.
 *
 * After a restart nobody but the recorded owner gets a queue for one lifetime counted from the
 * restart: it may still be at work and trust its lease. Its epoch counts unless it has expired or
 * the clock cannot tell (`LeaseRestart`).
 *
 * Memory: `maxLeases` keys at most. When they are all in use those that nobody holds are forgotten;
 * a floor under all epochs to come keeps theirs from being given again.
 */
final class QueueLockManager(
    journal: LeaseJournal,
    clock: Clock,
    settings: LeaseSettings,
    historyCapacity: Int = OwnershipHistory.DefaultCapacity
) {
  import QueueLockManager._
  import settings.lifetimeMs

  // Fair: a long flush, made in steps, lets everybody in between its steps.
  private val changes = new ReentrantLock(true)
  private val flushing = new Object
  private val recorder = new LeaseRecorder(journal, clock)
  // Keys that are not on disk as they are in the table: renewals, lives that began anew with a
  // start, and writes that failed.
  private val unrecorded = mutable.LinkedHashSet.empty[LeaseKey]
  // Read and written under `this`; but for renewals and what the clock ends, only whoever has
  // `changes` writes it.
  private var table: LeaseEntries = restore()
  // Rises with every change but a renewal. Under `this`.
  private var changesOfOwner = 0L
  private val history = new OwnershipHistory(historyCapacity)

  private def restore(): LeaseEntries = journal.load() match {
    case Some(loaded) =>
      if (!loaded.isWhole) warnOfLoss()
      val restored = new LeaseRestart(clock, settings).restored(loaded)
      unrecorded ++= restored.entries.collect { case (key, entry) if entry.lease.nonEmpty => key }
      restored
    case None =>
      if (settings.floorAfterLoss > 0) warnOfLoss()
      val empty = LeaseEntries.empty(settings.floorAfterLoss)
      // From now on files that are missing were lost.
      recorder.writeBase(journal.rotate() -> empty)
      empty
  }

  private def warnOfLoss(): Unit = logger.warn(
    "leases of an earlier run may be missing; epochs go on above {} file={}",
    settings.floorAfterLoss,
    journal.name
  )

  /**
   * Asks for queues; each is judged on its own. New grants of one call are recorded together, so a
   * batch costs one write. Renewals wait for no write.
   */
  def tryLock(
      group: String,
      clientId: String,
      queues: Seq[MessageQueue]
  ): Map[MessageQueue, LockOutcome] = {
    val asked = queues.distinct.map(LeaseKey(group, _))
    val kept = renew(asked, clientId)
    val wanted = asked.filterNot(kept.contains)
    val granted = if (wanted.isEmpty) Map.empty else changing(grant(wanted, clientId))
    (kept ++ granted).map { case (key, outcome) => key.queue -> outcome }
  }

  private def changing[T](action: => T): T = {
    changes.lock()
    try action
    finally changes.unlock()
  }

  private def current: LeaseEntries = synchronized(table)

  /** Whatever it is but a renewal: what was found to be live is looked at again after it. */
  private def changeOwners(change: LeaseEntries => LeaseEntries): Unit = synchronized {
    table = change(table)
    changesOfOwner += 1
  }

  /** Judges the queues that cannot be granted anew: live, or nobody else's for a while. */
  private def renew(asked: Seq[LeaseKey], clientId: String): Map[LeaseKey, LockOutcome] =
    synchronized {
      val (now, wall) = (clock.monotonicMillis(), clock.wallMillis())
      val outcomes = for {
        key <- asked
        lease <- table.get(key).flatMap(_.lease)
        if lease.isLive(now) || (lease.isHeld(now) && lease.clientId != clientId)
      } yield key -> {
        if (lease.clientId != clientId) LockOutcome.HeldBy(lease)
        else LockOutcome.Renewed(lease.copy(renewedAtWall = wall, expiresAt = now + lifetimeMs))
      }
      val renewed = outcomes.collect { case (key, LockOutcome.Renewed(lease)) =>
        key -> LeaseEntry(lease.epoch, Some(lease))
      }
      table = table ++ renewed
      unrecorded ++= renewed.map(_._1)
      outcomes.toMap
    }

  /** Under `changes`. What was given to somebody else meanwhile is judged again. */
  private def grant(asked: Seq[LeaseKey], clientId: String): Map[LeaseKey, LockOutcome] = {
    val kept = renew(asked, clientId)
    val wanted = asked.filterNot(kept.contains)
    val at = recorder.now
    val before = current
    val (known, unknown) = wanted.partition(before.get(_).isDefined)
    val room = new LeaseRoom(before, settings, at.monotonic, known, unknown)
    val full = room.refused.map { case (key, reason) => key -> LockOutcome.Refused(reason) }
    val changed = (known ++ room.admitted).map { key =>
      val epoch = room.cleared.nextEpoch(key)
      key -> LeaseEntry(
        epoch,
        Some(Lease(clientId, epoch, at.wall, at.wall, at.monotonic + lifetimeMs))
      )
    }
    val isRecorded =
      changed.isEmpty || recorder.record(changed, room.cleared, at, room.forgotten)
    if (isRecorded && changed.nonEmpty) {
      changed.foreach { case (key, entry) => announceGrant(before, key, entry, at.wall) }
      changeOwners(_.forget(room.forgotten) ++ changed)
    }
    val granted = changed.map { case (key, entry) =>
      key -> (if (isRecorded) LockOutcome.Granted(entry.lease.get) else unrecordable)
    }
    kept ++ full ++ granted
  }

  private def unrecordable: LockOutcome =
    LockOutcome.Refused(s"the lease could not be recorded in ${journal.name}")

  private def announceGrant(
      before: LeaseEntries,
      key: LeaseKey,
      entry: LeaseEntry,
      wall: Long
  ): Unit = {
    val previous = before.get(key).flatMap(_.lease).map(_.clientId)
    val reason =
      if (previous.isDefined) OwnershipEvent.TakeoverAfterExpiry else OwnershipEvent.Granted
    announce(OwnershipEvent(wall, key, previous, entry.lease.map(_.clientId), entry.epoch, reason))
  }

  /** Gives queues back. Only the owner's word counts, expired or not, from any connection. */
  def unlock(group: String, clientId: String, queues: Seq[MessageQueue]): Unit = changing {
    val ended = leasesOf(group, queues).filter(_._2.clientId == clientId)
    if (ended.nonEmpty) {
      val changed = freed(ended)
      end(ended, OwnershipEvent.Unlocked)(_ ++ changed)
      // If this write fails the queue is free all the same, and the next `flush` tries again;
      // after a restart its old owner would merely be waited for.
      if (!recorder.record(changed, current, recorder.now)) remember(ended.map(_._1))
    }
  }

  /**
   * Ends the epochs of queues whatever their owners think, because their offsets are being reset:
   * the owners are refused from now on, and whoever locks next, they too, does so under a new
   * epoch. The reset itself is done before any of the queues can be granted again.
   *
   * @throws java.io.IOException
   *   when that could not be recorded; then nothing is changed
   */
  def endEpochs(group: String, queues: Seq[MessageQueue])(reset: => Unit): Unit = changing {
    val ended = leasesOf(group, queues)
    if (ended.nonEmpty) {
      val changed = freed(ended)
      if (!recorder.record(changed, current, recorder.now))
        throw new IOException(s"the end of a lease could not be recorded in ${journal.name}")
      end(ended, OwnershipEvent.Reset)(_ ++ changed)
    }
    reset
  }

  /** Forgets the leases of a topic that is being deleted. */
  def removeTopic(topic: String): Unit = remove(_.queue.topic == topic)

  /** Forgets the leases of a group that is being deleted. */
  def removeGroup(group: String): Unit = remove(_.group == group)

  private def remove(matches: LeaseKey => Boolean): Unit = changing {
    val gone = current.entries.iterator.collect {
      case (key, entry) if matches(key) => key -> entry.lease
    }.toVector
    if (gone.nonEmpty) {
      val keys = gone.map(_._1)
      val ended = gone.collect { case (key, Some(lease)) => key -> lease }
      end(ended, OwnershipEvent.Deleted)(_.forget(keys))
      // As with an unlock.
      if (!recorder.record(Nil, current, recorder.now, keys)) remember(keys)
    }
  }

  private def leasesOf(group: String, queues: Seq[MessageQueue]): Seq[(LeaseKey, Lease)] = {
    val now = current
    for {
      queue <- queues.distinct
      key = LeaseKey(group, queue)
      lease <- now.get(key).flatMap(_.lease)
    } yield key -> lease
  }

  private def freed(leases: Seq[(LeaseKey, Lease)]): Seq[(LeaseKey, LeaseEntry)] =
    leases.map { case (key, lease) => key -> LeaseEntry(lease.epoch, None) }

  private def end(leases: Seq[(LeaseKey, Lease)], reason: OwnershipEvent.Reason)(
      change: LeaseEntries => LeaseEntries
  ): Unit = {
    changeOwners(change)
    val wall = clock.wallMillis()
    leases.foreach { case (key, lease) =>
      announce(OwnershipEvent(wall, key, Some(lease.clientId), None, lease.epoch, reason))
    }
  }

  /**
   * Periodic: records renewals, and that leases have expired, so that a restart knows; writes a new
   * base when the journal has grown. In steps: locks and unlocks wait for one at most.
   */
  def flush(): Unit = flushing.synchronized {
    noteExpired()
    while (recordSome()) ()
    if (changing(journal.isGrown)) recorder.writeBase(changing(journal.rotate() -> current))
  }

  private def noteExpired(): Unit = {
    val now = clock.monotonicMillis()
    val expired = current.entries.iterator.collect { case (key, e) if e.isExpired(now) => key }
    expired.grouped(LeaseRecorder.StepKeys).foreach { keys =>
      synchronized {
        // Some may have been granted again since.
        val ended = keys.flatMap(key => table.get(key).filter(_.isExpired(now)).map(key -> _.ended))
        changeOwners(_ ++ ended)
        unrecorded ++= ended.map(_._1)
      }
    }
  }

  /** Records some of what is not on disk as it is; false if nothing is left, or nothing can be. */
  private def recordSome(): Boolean = changing {
    val at = recorder.now
    val (keys, now) = synchronized {
      val step = unrecorded.iterator.take(LeaseRecorder.StepKeys).toVector
      unrecorded --= step
      (step, table)
    }
    if (keys.isEmpty) false
    else {
      val (known, gone) = keys.partition(now.get(_).isDefined)
      val isRecorded = recorder.record(known.map(key => key -> now.get(key).get), now, at, gone)
      if (!isRecorded) remember(keys)
      isRecorded
    }
  }

  private def remember(keys: Seq[LeaseKey]): Unit = synchronized(unrecorded ++= keys)

  /**
   * The fence in front of pulls and commits: runs the action only if exactly this epoch is live,
   * and so that nobody else is granted the queue before the action is done.
   */
  def ifCurrent[T](group: String, queue: MessageQueue, epoch: Long)(
      action: => T
  ): Either[StaleEpoch, T] = synchronized {
    val key = LeaseKey(group, queue)
    val live = table.live(key, clock.monotonicMillis())
    if (live.exists(_.epoch == epoch)) Right(action)
    else Left(StaleEpoch(live, table.lastEpoch(key)))
  }

  /**
   * Whether all of these epochs are live, or one that is not. What was found before saves looking
   * again while no owner has changed and none of them can have expired.
   */
  def verify(
      epochs: Map[LeaseKey, Long],
      before: Option[Verified] = None
  ): Either[GrantedQueue, Verified] = synchronized {
    val now = clock.monotonicMillis()
    before.filter(seen => seen.changesOfOwner == changesOfOwner && now <= seen.until) match {
      case Some(seen) => Right(seen)
      case None =>
        val live = epochs.map { case (key, epoch) =>
          GrantedQueue(key, epoch) -> table.live(key, now).filter(_.epoch == epoch)
        }
        live.collectFirst { case (grant, None) => grant }.toLeft {
          val until = live.values.flatten.map(_.expiresAt).minOption.getOrElse(now)
          Verified(epochs, changesOfOwner, until)
        }
    }
  }

  /** The live epochs of those of the queues that a client holds. */
  def heldBy(group: String, clientId: String, queues: Seq[MessageQueue]): Seq[GrantedQueue] =
    synchronized {
      val now = clock.monotonicMillis()
      for {
        (key, lease) <- leasesOf(group, queues)
        if lease.clientId == clientId && lease.isLive(now)
      } yield GrantedQueue(key, lease.epoch)
    }

  /** Who has a queue now. */
  def holder(key: LeaseKey): Option[Lease] = current.live(key, clock.monotonicMillis())

  /** Whether a group holds any queue, which is how RocketMQ knows that it consumes in order. */
  def hasLiveLease(group: String): Boolean = current.isHolding(group, clock.monotonicMillis())

  /** Everything not given back, live or not, with the time it is judged at. */
  def snapshot(): LeaseSnapshot = synchronized {
    val leases = table.entries.iterator.flatMap { case (key, entry) => entry.lease.map(key -> _) }
    LeaseSnapshot(clock.monotonicMillis(), leases.toVector, history.toVector)
  }

  private def announce(event: OwnershipEvent): Unit = {
    synchronized(history.add(event))
    OwnershipHistory.log(event)
  }
}

object QueueLockManager {
  private val logger = LoggerFactory.getLogger(classOf[QueueLockManager])
}
