package rmqordered.util

/** A clock that stands still until it is told to move. */
final class ManualClock(startWall: Long = 1700000000000L) extends Clock {
  @volatile private var elapsed = 0L
  @volatile private var wall = startWall

  override def wallMillis(): Long = wall + elapsed

  override def monotonicMillis(): Long = elapsed

  def advance(millis: Long): Unit = elapsed += millis

  /** Somebody sets the machine's clock; durations do not notice. */
  def setBack(millis: Long): Unit = wall -= millis
}
