package rmqordered.lease

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
