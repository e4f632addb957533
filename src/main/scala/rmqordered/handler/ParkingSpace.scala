package rmqordered.handler

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

/**
 * How many long polls may wait, and how long their expressions may be together: a parsed expression
 * takes about twenty times its text. Thread-safe.
 */
final class ParkingSpace(capacity: Int, maxCharacters: Long = ParkingSpace.MaxCharacters) {
  private val count = new AtomicInteger()
  private val characters = new AtomicLong()

  /** Whether there is room; who enters must leave. */
  def enter(expression: Int): Boolean = {
    val fits = count.incrementAndGet() <= capacity &
      characters.addAndGet(expression.toLong) <= maxCharacters
    if (!fits) leave(expression)
    fits
  }

  def leave(expression: Int): Unit = {
    count.decrementAndGet()
    val _ = characters.addAndGet(-expression.toLong)
  }

  def size: Int = count.get()
}

object ParkingSpace {
  private val MaxCharacters = 2000000L
}
