package rmqordered.util

import org.slf4j.Logger

/**
 * Calls what others have left to be called: one failure must cost its owner and nobody else. A
 * thread that serves many goes on whatever is thrown, a StackOverflowError too; what cannot be gone
 * on from, a heap without room, ends the process by the JVM's own flag.
 */
object Survive {
  def apply(logger: Logger, what: String)(action: => Unit): Unit =
    try action
    catch { case error: Throwable => logger.error("{} failed; the rest goes on", what, error) }
}
