package rmqordered.lease

import rmqordered.util.Clock

/**
 * A key of the lock table.
 *
 * @param epoch
 *   the last one given, whether or not somebody has it
 */
private[lease] final case class LeaseEntry(epoch: Long, lease: Option[Lease]) {

  /** Whether others have to wait. */
  def isHeld(now: Long): Boolean = lease.exists(_.isHeld(now))

  def isLive(now: Long): Boolean = lease.exists(_.isLive(now))

  /** An entry that the clock ended, and that does not say so yet. */
  def isExpired(now: Long): Boolean = lease.exists(held => !held.isOver && !held.isHeld(now))

  def ended: LeaseEntry = copy(lease = lease.map(_.copy(isOver = true)))
}

/**
 * The lock table at one moment: immutable.
 *
 * @param floor
 *   no key that is missing was ever given a higher epoch: keys can be forgotten, and still no epoch
 *   is given twice
 */
private[lease] final case class LeaseEntries(entries: Map[LeaseKey, LeaseEntry], floor: Long) {

  def get(key: LeaseKey): Option[LeaseEntry] = entries.get(key)

  def size: Int = entries.size

  def nextEpoch(key: LeaseKey): Long = lastEpoch(key) + 1

  def lastEpoch(key: LeaseKey): Long = get(key).fold(floor)(_.epoch)

  def ++(changed: Iterable[(LeaseKey, LeaseEntry)]): LeaseEntries =
    copy(entries = entries ++ changed)

  /** Without the keys that match, whose epochs are not given again. */
  def forget(matches: (LeaseKey, LeaseEntry) => Boolean): LeaseEntries = {
    val (gone, kept) = entries.partition { case (key, entry) => matches(key, entry) }
    LeaseEntries(kept, gone.valuesIterator.map(_.epoch).foldLeft(floor)(Math.max))
  }

  /** What is recorded at a moment, given in both times. */
  def recorded(now: Long, wall: Long): RecordedLeases = {
    val leases = entries.map { case (key, entry) =>
      val recorded = entry.lease match {
        case None => RecordedLease(entry.epoch, None, 0L, 0L, isEnded = false)
        case Some(lease) =>
          // An epoch that only may be over is no reason to let others in after the next start.
          val until = if (lease.isOver) 0L else wall + (lease.expiresAt - now)
          RecordedLease(
            entry.epoch,
            Some(lease.clientId),
            lease.grantedAtWall,
            until,
            isEnded = !lease.isHeld(now)
          )
      }
      key -> recorded
    }
    RecordedLeases(leases, floor, wall)
  }
}

/**
 * The lock table after a start. Who held a queue may still be at work and trust its lease, so
 * nobody else gets it for one lifetime, whatever the clock says. Whether the owner's epoch counts
 * is for the recorded expiry to say: if that has passed, or the clock shows less than it has shown
 * before and nobody can tell, it does not, and the owner asks for a new one.
 */
private[lease] final class LeaseRestart(
    clock: Clock,
    lifetimeMs: Long,
    renewalSaveMs: Long
) {
  private val now = clock.monotonicMillis()
  private val wall = clock.wallMillis()

  def restored(recorded: RecordedLeases): LeaseEntries = {
    val isClockBehind = wall < recorded.savedAtWall
    val entries = recorded.leases.map { case (key, lease) =>
      key -> LeaseEntry(lease.epoch, lease.owner.map(revived(lease, _, isClockBehind)))
    }
    LeaseEntries(entries.toMap, recorded.floor)
  }

  private def revived(recorded: RecordedLease, owner: String, isClockBehind: Boolean): Lease = {
    // A renewal is recorded so much later at most.
    val isPast = wall > recorded.expiresAtWall + renewalSaveMs
    Lease(
      owner,
      recorded.epoch,
      recorded.grantedAtWall,
      recorded.grantedAtWall,
      expiresAt = if (recorded.isEnded) now - 1 else now + lifetimeMs,
      isOver = recorded.isEnded || isPast || isClockBehind
    )
  }
}
