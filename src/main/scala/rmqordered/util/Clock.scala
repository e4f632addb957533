package rmqordered.util

/**
 * The only source of time in the broker. Everything else takes a `Clock`, so that expiry can be
 * tested by moving a manual one.
 *
 * Durations (leases, deadlines) are measured with `monotonicMillis`, which never jumps; timestamps
 * that are stored or sent are `wallMillis`.
 */
trait Clock {

  /** Milliseconds since the epoch. May jump when somebody sets the machine's clock. */
  def wallMillis(): Long

  /** Milliseconds since an arbitrary origin. Never goes back. */
  def monotonicMillis(): Long

  /** The same, finer: for what takes less than a millisecond. */
  def monotonicNanos(): Long = monotonicMillis() * Clock.NanosPerMilli
}

object Clock {
  val NanosPerMilli: Long = 1000000L
}

object SystemClock extends Clock {
  override def wallMillis(): Long = System.currentTimeMillis()

  override def monotonicMillis(): Long = Math.floorDiv(System.nanoTime(), Clock.NanosPerMilli)

  override def monotonicNanos(): Long = System.nanoTime()
}
