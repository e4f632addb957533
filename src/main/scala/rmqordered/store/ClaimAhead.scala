package rmqordered.store

import java.io.IOException
import java.util.concurrent.Semaphore
import java.util.concurrent.atomic.AtomicBoolean

import org.slf4j.LoggerFactory

import rmqordered.util.Survive

/** Files that grow by appends and can claim disk space for those to come. */
trait Growing {

  /** Whether one of the next appends may have to wait for space. By the thread that appends. */
  def isShort: Boolean

  /** Claims space for the appends to come, by any one thread; an IOException when there is none. */
  def claimAhead(): Unit
}

/**
 * Claims disk space before it is needed, so that no send waits for it: under batches, fresh pages
 * are the dearest part of an append.
 *
 * Nothing but speed depends on it. Where it is late, the append claims the space itself; where it
 * fails, the append fails the same way and tells its sender.
 *
 * @param background
 *   whether a thread claims; without one whoever appends does, after the append
 */
final class ClaimAhead(files: Seq[Growing], background: Boolean) {
  import ClaimAhead._

  private val isAsked = new AtomicBoolean()
  private val asked = new Semaphore(0)
  @volatile private var closing = false

  private val thread = new Thread(() => run(), "rmq-ordered-claim")
  thread.setDaemon(true)
  if (background) thread.start()

  /** Called after an append, by its thread. */
  def appended(): Unit =
    if (files.exists(_.isShort)) {
      if (!background) claim()
      // A claim that is about to begin will see this append as well.
      else if (isAsked.compareAndSet(false, true)) asked.release()
    }

  /** Ends the thread: the files are somebody else's from now on. */
  def close(): Unit = {
    closing = true
    asked.release()
    if (background) thread.join()
  }

  private def run(): Unit =
    while (!closing) {
      asked.acquireUninterruptibly()
      isAsked.set(false)
      if (!closing) claim()
    }

  private def claim(): Unit = files.foreach { growing =>
    Survive(logger, "claiming space ahead") {
      try growing.claimAhead()
      catch {
        case error: IOException =>
          logger.debug("no space could be claimed ahead problem={}", error.toString)
      }
    }
  }
}

object ClaimAhead {
  private val logger = LoggerFactory.getLogger(classOf[ClaimAhead])
}
