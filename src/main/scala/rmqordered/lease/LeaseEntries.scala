package rmqordered.lease

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

  /** What is recorded at a moment. */
  def recorded(at: Moment): RecordedLease = lease match {
    case None => RecordedLease(epoch, None, 0L, 0L, isEnded = false, at.wall)
    case Some(held) =>
      // An epoch that only may be over is no reason to let others in after the next start.
      val until = if (held.isOver) 0L else at.wall + (held.expiresAt - at.monotonic)
      val isEnded = !held.isHeld(at.monotonic)
      RecordedLease(epoch, Some(held.clientId), held.grantedAtWall, until, isEnded, at.wall)
  }
}

/**
 * How many leases a group has that are not known to be over, and when the last of them ends unless
 * it is renewed.
 */
private[lease] final case class GroupLeases(count: Int, until: Long)

/**
 * The lock table at one moment: immutable.
 *
 * @param floor
 *   all epochs to come are above it: keys can be forgotten, and still no epoch is given twice
 * @param groups
 *   the groups that hold something, counted with every change, so that nobody need walk the table
 */
private[lease] final case class LeaseEntries private (
    entries: Map[LeaseKey, LeaseEntry],
    floor: Long,
    groups: Map[String, GroupLeases]
) {
  def get(key: LeaseKey): Option[LeaseEntry] = entries.get(key)

  def size: Int = entries.size

  def nextEpoch(key: LeaseKey): Long = Math.max(lastEpoch(key), floor) + 1

  def lastEpoch(key: LeaseKey): Long = get(key).fold(floor)(_.epoch)

  def live(key: LeaseKey, now: Long): Option[Lease] =
    get(key).flatMap(_.lease).filter(_.isLive(now))

  /**
   * Whether a group has a live lease. A group may count as holding one for some seconds more if it
   * gave back its newest and let others expire, until their end is noted.
   */
  def isHolding(group: String, now: Long): Boolean = groups.get(group).exists(now <= _.until)

  def ++(changed: Iterable[(LeaseKey, LeaseEntry)]): LeaseEntries =
    changed.foldLeft(this) { case (table, (key, entry)) =>
      table.copy(
        entries = table.entries.updated(key, entry),
        groups = table.counted(key, Some(entry))
      )
    }

  /** Without some keys, whose epochs are not given again. */
  def forget(keys: Iterable[LeaseKey]): LeaseEntries =
    keys.foldLeft(this) { (table, key) =>
      table.copy(
        entries = table.entries - key,
        floor = Math.max(table.floor, table.get(key).fold(0L)(_.epoch)),
        groups = table.counted(key, None)
      )
    }

  private def counted(key: LeaseKey, changed: Option[LeaseEntry]): Map[String, GroupLeases] = {
    def counting(entry: Option[LeaseEntry]) = entry.flatMap(_.lease).filterNot(_.isOver)
    val (before, after) = (counting(get(key)), counting(changed))
    if (before.isEmpty && after.isEmpty) groups
    else {
      val found = groups.getOrElse(key.group, GroupLeases(0, Long.MinValue))
      val count = found.count + after.size - before.size
      val until = after.fold(found.until)(lease => Math.max(found.until, lease.expiresAt))
      if (count == 0) groups - key.group
      else groups.updated(key.group, GroupLeases(count, until))
    }
  }
}

private[lease] object LeaseEntries {
  def empty(floor: Long): LeaseEntries = new LeaseEntries(Map.empty, floor, Map.empty)
}
