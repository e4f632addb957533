package rmqordered.lease

import rmqordered.model.MessageQueue

/**
 * @param lifetimeMs
 *   how long a lease lives without a renewal
 * @param maxLeases
 *   how many keys are remembered
 * @param renewalSaveMs
 *   how often `QueueLockManager.flush` is called
 * @param floorWithoutFile
 *   what no epoch given by an earlier run was above, if there was one: for the case that the file
 *   of leases is lost
 * @param exists
 *   whether this broker has a queue
 */
final case class LeaseSettings(
    lifetimeMs: Long,
    maxLeases: Int,
    renewalSaveMs: Long = LeaseSettings.RenewalSaveMs,
    floorWithoutFile: Long = 0L,
    exists: MessageQueue => Boolean = _ => true
)

object LeaseSettings {

  // As often as offsets of plain consumers are written.
  val RenewalSaveMs = 5000L
}
