package rmqordered.lease

/**
 * Which of the keys that the table does not know may be added. If they are more than it has room
 * for, keys that nobody holds are forgotten first, but for those `known` that are wanted as well.
 *
 * As in RocketMQ a queue can be locked that does not exist. Such leases fill a tenth of the table
 * at most: nonsense must not keep others from their queues.
 */
private[lease] final class LeaseRoom(
    table: LeaseEntries,
    settings: LeaseSettings,
    now: Long,
    known: Seq[LeaseKey],
    unknown: Seq[LeaseKey]
) {
  import settings.{exists, maxLeases}

  private val isTight = table.size + unknown.size > maxLeases

  /**
   * Which keys are forgotten for them: some more than are needed, so that the table is not looked
   * through for each; not all, so that what has to be recorded has a bound.
   */
  val forgotten: Seq[LeaseKey] =
    if (!isTight) Nil
    else {
      val wanted = known.toSet
      val needed = table.size + unknown.size - maxLeases
      table.entries.iterator
        .collect { case (key, entry) if !entry.isHeld(now) && !wanted(key) => key }
        .take(Math.max(needed, LeaseRoom.ForgottenTogether))
        .toVector
    }

  /** The table with room for them. */
  val cleared: LeaseEntries = table.forget(forgotten)
  private val room = Math.max(maxLeases - cleared.size, 0)
  private val (real, strange) = unknown.partition(key => exists(key.queue))
  private val maxStrange = maxLeases / LeaseRoom.StrangeShare

  private val strangeRoom =
    if (strange.isEmpty) 0
    else {
      val held = table.entries.count { case (key, entry) =>
        entry.isHeld(now) && !exists(key.queue)
      }
      Math.max(maxStrange - held, 0)
    }

  private val admittedStrange = strange.take(strangeRoom)

  val admitted: Seq[LeaseKey] = (real ++ admittedStrange).take(room)

  def refused: Seq[(LeaseKey, String)] =
    strange.drop(strangeRoom).map(
      _ -> s"the queue does not exist, and all $maxStrange leases of such queues are in use"
    ) ++ (real ++ admittedStrange).drop(room).map(_ -> s"all $maxLeases leases are in use")
}

private[lease] object LeaseRoom {
  private val StrangeShare = 10
  private val ForgottenTogether = 1000
}
