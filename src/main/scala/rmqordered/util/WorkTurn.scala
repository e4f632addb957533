package rmqordered.util

/**
 * How much may be done at a stretch for one client, so that the others get their turn.
 *
 * @param records
 *   looked at, in an index or in the log
 * @param bytes
 *   of the records that were looked into
 */
final case class WorkBudget(millis: Long, records: Int, bytes: Long)

object WorkBudget {

  /** Five milliseconds; the counts are what that is good for on a slow machine. */
  val OneTurn: WorkBudget = WorkBudget(millis = 5L, records = 1 << 16, bytes = 1L << 20)

  private[util] val Endless = WorkBudget(Long.MaxValue, Int.MaxValue, Long.MaxValue)
}

/**
 * One stretch of a walk over something long: whoever walks says what it looked at, and stops when
 * the turn is over. A turn is never over before something was looked at, so every walk advances,
 * however busy the machine. For one thread.
 */
final class WorkTurn(budget: WorkBudget, clock: Clock) {
  import WorkTurn._

  private val begun = clock.monotonicMillis()
  private var seen = 0
  private var read = 0L
  private var over = false

  def records: Int = seen

  def bytes: Long = read

  def isOver: Boolean = over

  /** A record was looked at without being opened. */
  def lookedAt(): Unit = {
    seen += 1
    if (seen >= budget.records || seen % ClockEvery == 0 && isLate) over = true
  }

  /** A record was looked into. */
  def lookedInto(size: Int): Unit = {
    seen += 1
    read += size
    if (seen >= budget.records || read >= budget.bytes || isLate) over = true
  }

  private def isLate: Boolean = clock.monotonicMillis() - begun >= budget.millis
}

object WorkTurn {

  // What is not opened takes nanoseconds, less than to look at the clock.
  private val ClockEvery = 64

  /** For walks that end by themselves. */
  def endless(): WorkTurn = new WorkTurn(WorkBudget.Endless, StandingClock)

  private object StandingClock extends Clock {
    override def wallMillis(): Long = 0L

    override def monotonicMillis(): Long = 0L
  }
}

/** Begins turns of one length. Thread-safe. */
final class WorkTurns(clock: Clock, budget: WorkBudget = WorkBudget.OneTurn) {
  def begin(): WorkTurn = new WorkTurn(budget, clock)
}
