package rmqordered.stats

/**
 * The latest values of a counter that only grows, and how fast it grew. Not thread-safe.
 *
 * @param capacity
 *   how many values are kept; the oldest go first
 */
final class Samples(capacity: Int) {
  private val times = new Array[Long](capacity)
  private val totals = new Array[Long](capacity)
  // Values ever added; the newest is at (count - 1) % capacity.
  private var count = 0L

  def add(atMs: Long, total: Long): Unit = {
    val slot = (count % capacity).toInt
    times(slot) = atMs
    totals(slot) = total
    count += 1
  }

  def lastAt: Option[Long] = Option.when(count > 0)(times(slotOf(0)))

  def isFull: Boolean = count >= capacity

  /** Per second, over the window that ends at the last value, or over as much of it as is known. */
  def rate(windowMs: Long): Double = {
    val known = Math.min(count, capacity.toLong).toInt
    if (known < 2) 0.0
    else {
      val last = slotOf(0)
      val first = (1 until known)
        .find(back => times(last) - times(slotOf(back)) >= windowMs)
        .fold(slotOf(known - 1))(slotOf)
      val passedMs = times(last) - times(first)
      if (passedMs <= 0) 0.0 else (totals(last) - totals(first)) * 1000.0 / passedMs
    }
  }

  private def slotOf(back: Int): Int = ((count - 1 - back) % capacity).toInt
}
