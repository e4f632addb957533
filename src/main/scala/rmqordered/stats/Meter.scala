package rmqordered.stats

import java.util.concurrent.atomic.LongAdder

/** A counter that anybody increases, and its rate as of the last sample. Thread-safe. */
final class Meter(capacity: Int) {
  import Meter._

  private val counted = new LongAdder()
  private val samples = new Samples(capacity)

  def add(amount: Long): Unit = counted.add(amount)

  def total: Long = counted.sum()

  def sample(atMs: Long): Unit = synchronized(samples.add(atMs, counted.sum()))

  /** Whether nothing was counted in all the time its samples cover. */
  def isIdle: Boolean = synchronized(samples.isFull && samples.rate(AllOfIt) == 0.0)

  def lastSampledAt: Option[Long] = synchronized(samples.lastAt)

  def rate(windowMs: Long): Double = synchronized(samples.rate(windowMs))
}

object Meter {
  private val AllOfIt = Long.MaxValue
}
