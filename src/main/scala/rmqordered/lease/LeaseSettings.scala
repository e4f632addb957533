package rmqordered.lease

import rmqordered.model.MessageQueue

/**
 * @param lifetimeMs
 *   how long a lease lives without a renewal
 * @param maxLeases
 *   how many keys are remembered
 * @param renewalSaveMs
 *   how often `QueueLockManager.flush` is called
 * @param floorAfterLoss
 *   what no epoch given by an earlier run was above, if there was one: for the case that what was
 *   recorded of the leases is lost, or its end is
 * @param exists
 *   whether this broker has a queue
 */
final case class LeaseSettings(
    lifetimeMs: Long,
    maxLeases: Int,
    renewalSaveMs: Long = LeaseSettings.RenewalSaveMs,
    floorAfterLoss: Long = 0L,
    exists: MessageQueue => Boolean = _ => true
)

object LeaseSettings {

  // As often as offsets of plain consumers are written.
  val RenewalSaveMs = 5000L
}
