package rmqordered.util

/** A clock that stands still until it is told to move. */
final class ManualClock(startWall: Long = 1700000000000L) extends Clock {
  @volatile private var elapsed = 0L

  override def wallMillis(): Long = startWall + elapsed

  override def monotonicMillis(): Long = elapsed

  def advance(millis: Long): Unit = elapsed += millis
}
