package rmqordered.lease

import java.io.IOException

import org.slf4j.LoggerFactory

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
 * table itself is locked for moments only (`this`), so that the fence in front of every pull never
 * waits for a disk.
 *
 * After a restart nobody but the recorded owner gets a queue for one lifetime counted from the
 * restart: it may still be at work and trust its lease. Its epoch counts unless it has expired or
 * the clock cannot tell (`LeaseRestart`).
 *
 * Memory: `maxLeases` keys at most. When they are all in use those that nobody holds are forgotten;
 * a floor under all epochs to come keeps theirs from being given again.
 */
final class QueueLockManager(
    file: LeaseFile,
    clock: Clock,
    settings: LeaseSettings,
    historyCapacity: Int = OwnershipHistory.DefaultCapacity
) {
  import QueueLockManager._
  import settings.lifetimeMs

  private val changes = new Object
  // Renewals since the last write, or a write that failed.
  private var isUnrecorded = false
  // Written under both locks, hence readable under either.
  private var table: LeaseEntries = restore()
  // Rises with every change but a renewal. Under `this`.
  private var changesOfOwner = 0L
  private val history = new OwnershipHistory(historyCapacity)

  private def restore(): LeaseEntries = file.load() match {
    case Some(recorded) =>
      new LeaseRestart(clock, lifetimeMs, settings.renewalSaveMs).restored(recorded)
    case None =>
      if (settings.floorWithoutFile > 0)
        logger.warn(
          "the leases of an earlier run are missing; epochs go on above {} file={}",
          settings.floorWithoutFile,
          file.name
        )
      val empty = LeaseEntries(Map.empty, settings.floorWithoutFile)
      // From now on a file that is missing was lost.
      val _ = record(empty)
      empty
  }

  /**
   * Asks for queues; each is judged on its own. New grants of one call are recorded together, so a
   * batch costs one write.
   */
  def tryLock(
      group: String,
      clientId: String,
      queues: Seq[MessageQueue]
  ): Map[MessageQueue, LockOutcome] = changes.synchronized {
    val now = clock.monotonicMillis()
    val wall = clock.wallMillis()
    val asked = queues.distinct.map(LeaseKey(group, _))
    val (held, wanted) = asked.partition(isTaken(_, clientId, now))
    val kept = held.map(key => key.queue -> renewOrRefuse(key, clientId, now, wall))
    val (known, unknown) = wanted.partition(table.get(_).isDefined)
    val room = new LeaseRoom(table, settings, now, known, unknown)
    val full = room.refused.map { case (key, reason) => key.queue -> LockOutcome.Refused(reason) }
    val granted = grant(room.cleared, known ++ room.admitted, clientId, now, wall)
    (kept ++ full ++ granted).toMap
  }

  /** Not to be granted anew: live, or nobody else's until its owner is certain to have given up. */
  private def isTaken(key: LeaseKey, clientId: String, now: Long): Boolean =
    table.get(key).flatMap(_.lease).exists { lease =>
      lease.isLive(now) || (lease.isHeld(now) && lease.clientId != clientId)
    }

  private def renewOrRefuse(key: LeaseKey, clientId: String, now: Long, wall: Long): LockOutcome = {
    val entry = table.get(key).get
    val lease = entry.lease.get
    if (lease.clientId != clientId) LockOutcome.HeldBy(lease)
    else {
      val renewed = lease.copy(renewedAtWall = wall, expiresAt = now + lifetimeMs)
      synchronized { table = table ++ Seq(key -> entry.copy(lease = Some(renewed))) }
      isUnrecorded = true
      LockOutcome.Renewed(renewed)
    }
  }

  private def grant(
      cleared: LeaseEntries,
      keys: Seq[LeaseKey],
      clientId: String,
      now: Long,
      wall: Long
  ): Seq[(MessageQueue, LockOutcome)] = {
    val changed = keys.map { key =>
      val epoch = cleared.nextEpoch(key)
      key -> LeaseEntry(epoch, Some(Lease(clientId, epoch, wall, wall, now + lifetimeMs)))
    }
    if (changed.isEmpty) Nil
    else if (!record(cleared ++ changed))
      changed.map { case (key, _) =>
        key.queue -> LockOutcome.Refused(s"the lease could not be recorded in ${file.name}")
      }
    else {
      changed.foreach { case (key, entry) => announceGrant(key, entry, wall) }
      put(cleared ++ changed)
      changed.map { case (key, entry) => key.queue -> LockOutcome.Granted(entry.lease.get) }
    }
  }

  private def announceGrant(key: LeaseKey, entry: LeaseEntry, wall: Long): Unit = {
    val previous = table.get(key).flatMap(_.lease).map(_.clientId)
    val reason =
      if (previous.isDefined) OwnershipEvent.TakeoverAfterExpiry else OwnershipEvent.Granted
    announce(OwnershipEvent(wall, key, previous, entry.lease.map(_.clientId), entry.epoch, reason))
  }

  /** Gives queues back. Only the owner's word counts, expired or not, from any connection. */
  def unlock(group: String, clientId: String, queues: Seq[MessageQueue]): Unit =
    changes.synchronized {
      val ended = leasesOf(group, queues).filter(_._2.clientId == clientId)
      if (ended.nonEmpty) {
        end(ended, table ++ freed(ended), OwnershipEvent.Unlocked)
        // If this write fails the queue is free all the same, and the next `flush` tries again;
        // after a restart its old owner would merely be waited for.
        val _ = record(table)
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
  def endEpochs(group: String, queues: Seq[MessageQueue])(reset: => Unit): Unit =
    changes.synchronized {
      val ended = leasesOf(group, queues)
      if (ended.nonEmpty) {
        val changed = table ++ freed(ended)
        if (!record(changed))
          throw new IOException(s"the end of a lease could not be recorded in ${file.name}")
        end(ended, changed, OwnershipEvent.Reset)
      }
      reset
    }

  /** Forgets the leases of a topic that is being deleted. */
  def removeTopic(topic: String): Unit = remove(_.queue.topic == topic)

  /** Forgets the leases of a group that is being deleted. */
  def removeGroup(group: String): Unit = remove(_.group == group)

  private def remove(matches: LeaseKey => Boolean): Unit = changes.synchronized {
    val changed = table.forget((key, _) => matches(key))
    if (changed.size < table.size) {
      val ended = for {
        (key, entry) <- table.entries.toSeq if matches(key)
        lease <- entry.lease
      } yield key -> lease
      end(ended, changed, OwnershipEvent.Deleted)
      // As with an unlock.
      val _ = record(table)
    }
  }

  private def leasesOf(group: String, queues: Seq[MessageQueue]): Seq[(LeaseKey, Lease)] =
    for {
      queue <- queues.distinct
      key = LeaseKey(group, queue)
      lease <- table.get(key).flatMap(_.lease)
    } yield key -> lease

  private def freed(leases: Seq[(LeaseKey, Lease)]): Seq[(LeaseKey, LeaseEntry)] =
    leases.map { case (key, lease) => key -> LeaseEntry(lease.epoch, None) }

  private def end(
      leases: Seq[(LeaseKey, Lease)],
      changed: LeaseEntries,
      reason: OwnershipEvent.Reason
  ): Unit = {
    put(changed)
    val wall = clock.wallMillis()
    leases.foreach { case (key, lease) =>
      announce(OwnershipEvent(wall, key, Some(lease.clientId), None, lease.epoch, reason))
    }
  }

  /** Periodic: records renewals, and that leases have expired, so that a restart knows. */
  def flush(): Unit = changes.synchronized {
    val now = clock.monotonicMillis()
    val expired = table.entries.filter(_._2.isExpired(now))
    if (expired.nonEmpty || isUnrecorded) {
      val changed = table ++ expired.map { case (key, entry) => key -> entry.ended }
      if (record(changed)) put(changed)
    }
  }

  /**
   * The fence in front of pulls and commits: runs the action only if exactly this epoch is live,
   * and so that nobody else is granted the queue before the action is done.
   */
  def ifCurrent[T](group: String, queue: MessageQueue, epoch: Long)(
      action: => T
  ): Either[StaleEpoch, T] = synchronized {
    val now = clock.monotonicMillis()
    val key = LeaseKey(group, queue)
    val live = table.get(key).flatMap(_.lease).filter(_.isLive(now))
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
        def live(key: LeaseKey, epoch: Long): Option[Lease] =
          table.get(key).flatMap(_.lease).filter(held => held.epoch == epoch && held.isLive(now))
        epochs.find { case (key, epoch) => live(key, epoch).isEmpty } match {
          case Some((key, epoch)) => Left(GrantedQueue(key, epoch))
          case None =>
            val until =
              epochs.iterator.flatMap((live _).tupled(_)).map(_.expiresAt).minOption.getOrElse(now)
            Right(Verified(epochs, changesOfOwner, until))
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
  def holder(key: LeaseKey): Option[Lease] = synchronized {
    val now = clock.monotonicMillis()
    table.get(key).flatMap(_.lease).filter(_.isLive(now))
  }

  /** Whether a group holds any queue, which is how RocketMQ knows that it consumes in order. */
  def hasLiveLease(group: String): Boolean = synchronized {
    val now = clock.monotonicMillis()
    table.entries.exists { case (key, entry) => key.group == group && entry.isLive(now) }
  }

  /** Everything not given back, live or not, with the time it is judged at. */
  def snapshot(): LeaseSnapshot = synchronized {
    val leases = table.entries.iterator.flatMap { case (key, entry) => entry.lease.map(key -> _) }
    LeaseSnapshot(clock.monotonicMillis(), leases.toVector, history.toVector)
  }

  private def record(wanted: LeaseEntries): Boolean =
    try {
      file.save(wanted.recorded(clock.monotonicMillis(), clock.wallMillis()))
      isUnrecorded = false
      true
    } catch {
      case error: IOException =>
        logger.error("the leases could not be recorded file={}", file.name, error)
        isUnrecorded = true
        false
    }

  private def put(changed: LeaseEntries): Unit = synchronized {
    table = changed
    changesOfOwner += 1
  }

  private def announce(event: OwnershipEvent): Unit = {
    synchronized(history.add(event))
    val queue = event.key.queue
    logger.info(
      "queue owner changed topic={} queue={} group={} client={} previous={} epoch={} reason={}",
      queue.topic,
      queue.queueId,
      event.key.group,
      event.owner.getOrElse("-"),
      event.previousOwner.getOrElse("-"),
      event.epoch,
      event.reason.text
    )
  }
}

/**
 * These epochs were found to be live.
 *
 * @param changesOfOwner
 *   how many there had been by then
 * @param until
 *   none of them expires before
 */
final case class Verified(of: Map[LeaseKey, Long], changesOfOwner: Long, until: Long)

/** The lock table at one moment. */
final case class LeaseSnapshot(
    now: Long,
    leases: Vector[(LeaseKey, Lease)],
    history: Vector[OwnershipEvent]
)

object QueueLockManager {
  private val logger = LoggerFactory.getLogger(classOf[QueueLockManager])
}
