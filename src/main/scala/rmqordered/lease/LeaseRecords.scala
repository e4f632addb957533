package rmqordered.lease

/**
 * What outlives the process: the last epoch of a key and who had it, if it was not given back.
 *
 * @param expiresAtWall
 *   when the lease would end, as far as was known when this was recorded
 * @param isEnded
 *   it was known to have ended
 * @param savedAtWall
 *   when this was recorded
 */
final case class RecordedLease(
    epoch: Long,
    owner: Option[String],
    grantedAtWall: Long,
    expiresAtWall: Long,
    isEnded: Boolean,
    savedAtWall: Long
)

/**
 * All leases as they are recorded.
 *
 * @param floor
 *   no key that is not among them was ever given a higher epoch, and none will be given a lower one
 */
final case class RecordedLeases(leases: Map[LeaseKey, RecordedLease], floor: Long) {

  def changed(by: LeaseChanges): RecordedLeases = {
    val kept = by.entries.foldLeft(leases) {
      case (all, (key, Some(lease))) => all.updated(key, lease)
      case (all, (key, None)) => all - key
    }
    RecordedLeases(kept, Math.max(floor, by.floor))
  }

  /** Of what two versions of the broker have recorded: of each key the higher epoch. */
  def merged(other: RecordedLeases): RecordedLeases = {
    val newer = other.leases.filter { case (key, lease) =>
      leases.get(key).forall(_.epoch < lease.epoch)
    }
    RecordedLeases(leases ++ newer, Math.max(floor, other.floor))
  }
}

object RecordedLeases {
  val none: RecordedLeases = RecordedLeases(Map.empty, 0L)
}

/**
 * What became of some keys, recorded together: all of it or nothing. None: the key is forgotten.
 */
final case class LeaseChanges(
    entries: Seq[(LeaseKey, Option[RecordedLease])],
    floor: Long,
    savedAtWall: Long
)
