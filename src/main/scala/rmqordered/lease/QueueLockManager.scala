package rmqordered.lease

import java.io.IOException

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
 * renewal. Thread-safe: one lock, held over the file write of a grant.
 *
 * After a restart the recorded owner keeps its queue for one lifetime counted from the restart: it
 * may still be at work and trust its lease.
 */
final class QueueLockManager(
    file: LeaseFile,
    clock: Clock,
    lifetimeMs: Long,
    maxLeases: Int,
    historyCapacity: Int = OwnershipHistory.DefaultCapacity
) {
  import QueueLockManager._

  private val entries = mutable.HashMap.empty[LeaseKey, Entry]
  private val history = new OwnershipHistory(historyCapacity)
  restore()

  private def restore(): Unit = {
    val now = clock.monotonicMillis()
    file.load().foreach { case (key, recorded) =>
      val lease = recorded.owner.map { owner =>
        Lease(
          owner,
          recorded.epoch,
          recorded.grantedAtWall,
          recorded.grantedAtWall,
          now + lifetimeMs
        )
      }
      entries(key) = Entry(recorded.epoch, lease)
    }
  }

  /**
   * Asks for queues; each is judged on its own. New grants of one call are recorded together, so a
   * batch costs one write.
   */
  def tryLock(
      group: String,
      clientId: String,
      queues: Seq[MessageQueue]
  ): Map[MessageQueue, LockOutcome] = synchronized {
    val now = clock.monotonicMillis()
    val wall = clock.wallMillis()
    val (held, wanted) = queues.distinct.map(LeaseKey(group, _)).partition(isLive(_, now))
    val kept = held.map(key => key.queue -> renewOrRefuse(key, clientId, now, wall))
    val room = Math.max(maxLeases - entries.size, 0)
    val (known, unknown) = wanted.partition(entries.contains)
    val full =
      unknown.drop(room).map(_.queue -> LockOutcome.Refused(s"all $maxLeases leases are in use"))
    val granted = grant(known ++ unknown.take(room), clientId, now, wall)
    (kept ++ full ++ granted).toMap
  }

  private def isLive(key: LeaseKey, now: Long): Boolean =
    entries.get(key).flatMap(_.lease).exists(_.isLive(now))

  private def renewOrRefuse(key: LeaseKey, clientId: String, now: Long, wall: Long): LockOutcome = {
    val entry = entries(key)
    val lease = entry.lease.get
    if (lease.clientId != clientId) LockOutcome.HeldBy(lease)
    else {
      val renewed = lease.copy(renewedAtWall = wall, expiresAt = now + lifetimeMs)
      entries(key) = entry.copy(lease = Some(renewed))
      LockOutcome.Renewed(renewed)
    }
  }

  private def grant(
      keys: Seq[LeaseKey],
      clientId: String,
      now: Long,
      wall: Long
  ): Seq[(MessageQueue, LockOutcome)] = {
    val changed = keys.map { key =>
      val epoch = entries.get(key).fold(0L)(_.epoch) + 1
      key -> Entry(epoch, Some(Lease(clientId, epoch, wall, wall, now + lifetimeMs)))
    }
    if (changed.isEmpty) Nil
    else if (!record(entries ++ changed))
      changed.map { case (key, _) =>
        key.queue -> LockOutcome.Refused(s"the lease could not be recorded in ${file.name}")
      }
    else
      changed.map { case (key, entry) =>
        announceGrant(key, entry, wall)
        entries(key) = entry
        key.queue -> LockOutcome.Granted(entry.lease.get)
      }
  }

  private def announceGrant(key: LeaseKey, entry: Entry, wall: Long): Unit = {
    val previous = entries.get(key).flatMap(_.lease).map(_.clientId)
    val reason =
      if (previous.isDefined) OwnershipEvent.TakeoverAfterExpiry else OwnershipEvent.Granted
    announce(OwnershipEvent(wall, key, previous, entry.lease.map(_.clientId), entry.epoch, reason))
  }

  /** Gives queues back. Only the owner's word counts, expired or not, from any connection. */
  def unlock(group: String, clientId: String, queues: Seq[MessageQueue]): Unit = synchronized {
    val changed = for {
      queue <- queues.distinct
      key = LeaseKey(group, queue)
      entry <- entries.get(key)
      lease <- entry.lease
      if lease.clientId == clientId
    } yield key -> Entry(entry.epoch, None)
    changed.foreach { case (key, entry) =>
      entries(key) = entry
      announce(
        OwnershipEvent(
          clock.wallMillis(),
          key,
          Some(clientId),
          None,
          entry.epoch,
          OwnershipEvent.Unlocked
        )
      )
    }
    // If this write fails the queue is free all the same; after a restart its old owner would merely
    // be waited for.
    if (changed.nonEmpty) {
      val _ = record(entries)
    }
  }

  /** Whether exactly this epoch is live: the fence in front of pulls and commits. */
  def check(group: String, queue: MessageQueue, epoch: Long): EpochCheck = synchronized {
    val now = clock.monotonicMillis()
    val entry = entries.get(LeaseKey(group, queue))
    val live = entry.flatMap(_.lease).filter(_.isLive(now))
    if (live.exists(_.epoch == epoch)) EpochCheck.Current
    else EpochCheck.Stale(live, entry.fold(0L)(_.epoch))
  }

  /** Whether a group holds any queue, which is how RocketMQ knows that it consumes in order. */
  def hasLiveLease(group: String): Boolean = synchronized {
    val now = clock.monotonicMillis()
    entries.exists { case (key, entry) => key.group == group && entry.lease.exists(_.isLive(now)) }
  }

  /** Everything not given back, live or not, with the time it is judged at. */
  def snapshot(): LeaseSnapshot = synchronized {
    val leases = entries.iterator.flatMap { case (key, entry) => entry.lease.map(key -> _) }
    LeaseSnapshot(clock.monotonicMillis(), leases.toVector, history.toVector)
  }

  private def record(wanted: Iterable[(LeaseKey, Entry)]): Boolean =
    try {
      file.save(wanted.map { case (key, entry) =>
        val grantedAt = entry.lease.fold(0L)(_.grantedAtWall)
        key -> RecordedLease(entry.epoch, entry.lease.map(_.clientId), grantedAt)
      })
      true
    } catch {
      case error: IOException =>
        logger.error("the leases could not be recorded file={}", file.name, error)
        false
    }

  private def announce(event: OwnershipEvent): Unit = {
    history.add(event)
    logger.info(
      s"queue owner changed topic=${event.key.queue.topic} queue=${event.key.queue.queueId} group=${event.key.group} " +
        s"client=${event.owner.getOrElse("-")} previous=${event.previousOwner.getOrElse("-")} epoch=${event.epoch} reason=${event.reason.text}"
    )
  }
}

/** The lock table at one moment. */
final case class LeaseSnapshot(
    now: Long,
    leases: Vector[(LeaseKey, Lease)],
    history: Vector[OwnershipEvent]
)

object QueueLockManager {
  private val logger = LoggerFactory.getLogger(classOf[QueueLockManager])

  /** `epoch` is the last one given, whether or not somebody has it. */
  private final case class Entry(epoch: Long, lease: Option[Lease])
}
