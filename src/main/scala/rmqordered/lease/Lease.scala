package rmqordered.lease

import rmqordered.model.MessageQueue

/** What is leased: a queue, to a consumer group. */
final case class LeaseKey(group: String, queue: MessageQueue)

/**
 * Who holds a queue.
 *
 * @param epoch
 *   rises with every grant and takeover of the key, for ever; a renewal keeps it
 * @param expiresAt
 *   monotonic time; the lease is dead strictly after it
 * @param isOver
 *   the epoch has ended, or may have: it counts no more. Until `expiresAt` nobody else gets the
 *   queue all the same
 */
final case class Lease(
    clientId: String,
    epoch: Long,
    grantedAtWall: Long,
    renewedAtWall: Long,
    expiresAt: Long,
    isOver: Boolean = false
) {

  /** Whether the owner may do anything under its epoch. */
  def isLive(now: Long): Boolean = !isOver && isHeld(now)

  /** Whether others have to wait. */
  def isHeld(now: Long): Boolean = now <= expiresAt

  def expiresInMillis(now: Long): Long = Math.max(expiresAt - now, 0L)
}

/** The answer to one request for one queue. */
sealed trait LockOutcome

object LockOutcome {

  /** Newly owned, under a new epoch. */
  final case class Granted(lease: Lease) extends LockOutcome

  /** Still owned, under the same epoch. */
  final case class Renewed(lease: Lease) extends LockOutcome

  /** Somebody else's. */
  final case class HeldBy(lease: Lease) extends LockOutcome

  /** Not granted, and nobody holds it: the grant could not be recorded, or the table is full. */
  final case class Refused(reason: String) extends LockOutcome
}

/**
 * An epoch that does not count any more.
 *
 * @param holder
 *   the lease that is live now, if any
 * @param lastEpoch
 *   no epoch above was ever given
 */
final case class StaleEpoch(holder: Option[Lease], lastEpoch: Long)
