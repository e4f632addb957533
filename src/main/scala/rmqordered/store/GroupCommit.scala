package rmqordered.store

import java.util.concurrent.locks.ReentrantLock

import org.slf4j.LoggerFactory

import rmqordered.config.FlushDiskType
import rmqordered.util.Survive

/**
 * Makes appends durable. One thread (or, without `background`, whoever calls `runOnce`); while it
 * flushes, further appends gather, and the next flush serves them all (group commit).
 *
 * With synchronous flush `done` is called after the bytes are on disk, in the order of the appends;
 * with asynchronous flush at once, and the disk follows every `intervalMs`.
 *
 * A failed flush is final: after it nobody knows what is on disk, so nothing is acknowledged any
 * more until the broker is restarted and recovery has looked.
 *
 * @param durableTo
 *   what lies before in the log is on disk already. Not all that was found at the start: after a
 *   kill it may have been read from memory, and is flushed before anything relies on it
 */
final class GroupCommit(
    log: CommitLog,
    mode: FlushDiskType,
    intervalMs: Int,
    background: Boolean = true,
    durableTo: Long = 0L
) {
  import GroupCommit._

  private val lock = new ReentrantLock()
  private val flushLock = new Object
  private val wakeUp = lock.newCondition()
  private var waiting = Vector.empty[Option[Throwable] => Unit]
  private var closing = false
  @volatile private var failure: Option[Throwable] = None
  private var flushedTo = durableTo

  private val thread = new Thread(() => run(), "rmq-ordered-flush")
  thread.setDaemon(true)
  if (background) thread.start()

  /** Why nothing can be acknowledged any more, if that is so. */
  def failed: Option[Throwable] = failure

  /** Calls `done` once everything appended so far is as durable as the mode promises. */
  def whenDurable(done: Option[Throwable] => Unit): Unit = mode match {
    case FlushDiskType.Async => done(failure)
    case FlushDiskType.Sync =>
      lock.lock()
      val rejected =
        try {
          if (!closing && failure.isEmpty) {
            waiting = waiting :+ done
            wakeUp.signal()
          }
          closing || failure.isDefined
        } finally lock.unlock()
      if (rejected) done(failure.orElse(Some(new StoreError("The store is closed."))))
  }

  /** Flushes everything and stops. */
  def close(): Unit = {
    lock.lock()
    try {
      closing = true
      wakeUp.signal()
    } finally lock.unlock()
    if (background) thread.join() else runOnce()
  }

  /** Flushes now and answers whoever waits. */
  def runOnce(): Unit = {
    val batch = takeWaiting()
    flush()
    batch.foreach(notify)
  }

  /**
   * Makes everything appended so far durable.
   *
   * @return
   *   why that is not possible, now or since an earlier failure
   */
  def flushNow(): Option[Throwable] = {
    flush()
    failure
  }

  private def run(): Unit = {
    var goOn = true
    while (goOn) {
      val (batch, last) = nextBatch()
      flush()
      batch.foreach(notify)
      goOn = !last
    }
  }

  private def nextBatch(): (Vector[Option[Throwable] => Unit], Boolean) = {
    lock.lock()
    try {
      mode match {
        case FlushDiskType.Sync => while (waiting.isEmpty && !closing) wakeUp.await()
        case FlushDiskType.Async =>
          if (!closing) {
            val _ = wakeUp.await(intervalMs.toLong, java.util.concurrent.TimeUnit.MILLISECONDS)
          }
      }
      (takeWaiting(), closing)
    } finally lock.unlock()
  }

  private def takeWaiting(): Vector[Option[Throwable] => Unit] = {
    lock.lock()
    try {
      val batch = waiting
      waiting = Vector.empty
      batch
    } finally lock.unlock()
  }

  // One at a time: a checkpoint flushes too, and an error must not get lost between the two.
  private def flush(): Unit = flushLock.synchronized {
    if (failure.isEmpty)
      try {
        val end = log.maxOffset
        log.force(flushedTo, end)
        flushedTo = end
      } catch {
        // Whatever it is, durability is unknown from here on, and the thread must live to say so.
        case error: Throwable =>
          failure = Some(error)
          logger.error("flushing the commit log failed; sends are refused until a restart", error)
      }
  }

  private def notify(done: Option[Throwable] => Unit): Unit =
    Survive(logger, "what waited for a flush")(done(failure))
}

object GroupCommit {
  private val logger = LoggerFactory.getLogger(classOf[GroupCommit])
}
