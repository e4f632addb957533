package rmqordered.lease

import rmqordered.util.Clock

/**
 * The lock table after a start. Who held a queue may still be at work and trust its lease, so
 * nobody else gets it for one lifetime, whatever the clock says. Whether the owner's epoch counts
 * is for the recorded expiry to say: if that has passed, or the clock shows less than when that was
 * recorded and nobody can tell, it does not, and the owner asks for a new one.
 */
private[lease] final class LeaseRestart(clock: Clock, settings: LeaseSettings) {
  import settings.{floorAfterLoss, lifetimeMs, renewalSaveMs}

  private val now = clock.monotonicMillis()
  private val wall = clock.wallMillis()

  def restored(loaded: LoadedLeases): LeaseEntries = {
    val recorded = loaded.recorded
    val floor = if (loaded.isWhole) recorded.floor else Math.max(recorded.floor, floorAfterLoss)
    LeaseEntries.empty(floor) ++ recorded.leases.map { case (key, lease) =>
      key -> LeaseEntry(lease.epoch, lease.owner.map(revived(lease, _)))
    }
  }

  private def revived(recorded: RecordedLease, owner: String): Lease = {
    // A renewal is recorded so much later at most.
    val isPast = wall > recorded.expiresAtWall + renewalSaveMs
    val isClockBehind = wall < recorded.savedAtWall
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
