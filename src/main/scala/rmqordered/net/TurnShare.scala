package rmqordered.net

import rmqordered.util.Clock

/**
 * What one connection owes the others of its thread: time that it has taken, less a tenth of the
 * time that goes by. Who owes a turn is served in turns; who asks for little is served as it comes.
 * For one thread.
 */
final class TurnShare(clock: Clock) {
  import TurnShare._

  private var owed = 0L
  private var asOf = clock.monotonicNanos()

  /** Runs something on this connection's account. */
  def spend(task: => Unit): Unit = {
    val begun = clock.monotonicNanos()
    try task
    finally {
      val now = clock.monotonicNanos()
      settle(now)
      owed = Math.min(owed + now - begun, MaxOwed)
    }
  }

  def owesTurn: Boolean = owed >= LoopTurns.TurnNanos && {
    settle(clock.monotonicNanos())
    owed >= LoopTurns.TurnNanos
  }

  private def settle(now: Long): Unit = {
    owed = Math.max(owed - (now - asOf) / PartForEach, 0L)
    asOf = now
  }
}

object TurnShare {

  // A tenth of its thread's time is anybody's.
  private val PartForEach = 10L

  // Forgotten after half a second.
  private val MaxOwed = 10L * LoopTurns.TurnNanos
}
