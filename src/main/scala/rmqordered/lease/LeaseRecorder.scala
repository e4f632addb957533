package rmqordered.lease

import java.io.IOException

import org.slf4j.LoggerFactory

import rmqordered.util.Clock

/** A moment in both times. */
private[lease] final case class Moment(monotonic: Long, wall: Long)

/**
 * Brings the lock table to its journal, judged at a moment that is not after the table was read:
 * judged later, a lease that was renewed meanwhile would be recorded as one that has ended.
 */
private[lease] final class LeaseRecorder(journal: LeaseJournal, clock: Clock) {
  import LeaseRecorder._

  def now: Moment = Moment(clock.monotonicMillis(), clock.wallMillis())

  /**
   * Records how some keys are to be from now on, and the table's floor; one write. False if that
   * may not survive.
   */
  def record(
      changed: Seq[(LeaseKey, LeaseEntry)],
      table: LeaseEntries,
      at: Moment,
      forgotten: Seq[LeaseKey] = Nil
  ): Boolean =
    try {
      val entries = changed.map { case (key, entry) => key -> Some(entry.recorded(at)) }
      journal.append(LeaseChanges(forgotten.map(_ -> None) ++ entries, table.floor, at.wall))
      true
    } catch {
      case error: IOException =>
        logger.error("leases could not be recorded file={}", journal.name, error)
        false
    }

  /**
   * Writes the table as it was when a journal began. Without it that journal's forerunners stay.
   */
  def writeBase(begin: => (Long, LeaseEntries)): Unit =
    try {
      val at = now
      val (number, table) = begin
      val pieces = table.entries.iterator.grouped(StepKeys).map { some =>
        val leases = some.map { case (key, entry) => key -> Some(entry.recorded(at)) }
        LeaseChanges(leases, table.floor, at.wall)
      }
      journal.writeBase(number, Iterator(LeaseChanges(Nil, table.floor, at.wall)) ++ pieces)
    } catch {
      case error: IOException =>
        logger.error("no new base of the leases; the journals stay file={}", journal.name, error)
    }
}

private[lease] object LeaseRecorder {
  private val logger = LoggerFactory.getLogger(classOf[LeaseRecorder])

  /** So many keys are recorded together at most when nobody waits: some hundred kilobytes. */
  val StepKeys: Int = 1000
}
