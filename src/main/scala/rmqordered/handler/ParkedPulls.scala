package rmqordered.handler

import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import org.slf4j.LoggerFactory

import scala.jdk.CollectionConverters._

import rmqordered.model.QueueKey
import rmqordered.store.ReadRequest
import rmqordered.util.{Clock, Survive}

/** A long poll that waits for messages: cheap, no thread. */
final class ParkedPull(
    val key: QueueKey,
    val group: String,
    val request: ReadRequest,
    val connection: Connection,
    val deadline: Long,
    val expressionLength: Int,
    resume: () => Unit,
    abandon: () => Unit
) {
  private val claimed = new AtomicBoolean(false)
  private val isLookedFor = new AtomicBoolean(false)

  /** Up to where arrivals have been looked at in vain, so that none is looked at twice. */
  @volatile var scannedTo: Long = request.startOffset

  /** True for the one caller that may resume it. */
  def claim(): Boolean = claimed.compareAndSet(false, true)

  /**
   * Looks whether messages that have come are for it, in its connection's turn; once for all that
   * come until then.
   */
  def lookLater(look: () => Unit): Unit =
    if (isLookedFor.compareAndSet(false, true))
      connection.inNextTurn { () =>
        // Before the look: what arrives from now on is looked for again.
        isLookedFor.set(false)
        if (!claimed.get()) look()
      }

  /** Answers it, when its client has taken earlier answers. */
  def run(): Unit = connection.whenWritable(resume)

  /** Its client is gone. */
  def forget(): Unit = if (claim()) abandon()
}

/**
 * Long polls waiting for their queue. Woken by an arrival that matches, by their deadline, or by
 * the broker's stop; each is resumed exactly once.
 *
 * Thread-safe. No threads of its own: a timer calls `expire`.
 *
 * @param capacity
 *   polls waiting at most, so that clients cannot fill the memory with them
 */
final class ParkedPulls(clock: Clock, capacity: Int) {
  import ParkedPulls._

  private val byQueue = new ConcurrentHashMap[QueueKey, ConcurrentLinkedQueue[ParkedPull]]()
  private val space = new ParkingSpace(capacity)
  // Those that ever waited; others leave without being looked for.
  private val connections = ConcurrentHashMap.newKeySet[Connection]()
  @volatile private var closed = false

  /** Parks a poll, unless there is no room or the broker stops. */
  def park(pull: ParkedPull): Boolean =
    if (closed) false
    else if (!space.enter(pull.expressionLength)) false
    else {
      connections.add(pull.connection)
      var isAdded = false
      byQueue.compute(
        pull.key,
        (_, existing) => {
          val waiting = Option(existing).getOrElse(new ConcurrentLinkedQueue[ParkedPull]())
          isAdded = waiting.iterator().asScala.count(_.connection eq pull.connection) < MaxAlike
          if (isAdded) waiting.add(pull)
          waiting
        }
      )
      if (!isAdded) space.leave(pull.expressionLength)
      // A stop that came in between has not seen this one.
      if (closed) wakeAll(_ => true)
      isAdded
    }

  def size: Int = space.size

  /** New messages in a queue: wakes those that the predicate says they concern. */
  def arrived(key: QueueKey)(concerns: ParkedPull => Boolean): Unit =
    Option(byQueue.get(key)).foreach(_ => wake(key, concerns))

  /** Wakes one of them if the predicate says so, or cannot say; whether it does. */
  def judge(pull: ParkedPull)(concerns: ParkedPull => Boolean): Boolean = {
    val isWoken = isJudgedSo(pull, concerns)
    if (isWoken) wake(pull.key, _ eq pull)
    isWoken
  }

  /** Wakes polls whose time is over. */
  def expire(): Unit = {
    val now = clock.monotonicMillis()
    wakeAll(_.deadline <= now)
  }

  /** Forgets the polls of a connection that is gone. */
  def disconnect(connection: Connection): Unit =
    if (connections.remove(connection))
      byQueue.keySet().forEach { key =>
        take(key, _.connection eq connection).foreach(_.forget())
      }

  /** Wakes everybody, for good. */
  def close(): Unit = {
    closed = true
    wakeAll(_ => true)
  }

  private def wakeAll(condition: ParkedPull => Boolean): Unit =
    byQueue.keySet().forEach(key => wake(key, condition))

  private def wake(key: QueueKey, condition: ParkedPull => Boolean): Unit =
    take(key, condition).foreach(pull =>
      if (pull.claim()) Survive(logger, "answering a long poll")(pull.run())
    )

  /** Who cannot be judged is taken too: looking again, it tells its client what is wrong. */
  private def isJudgedSo(pull: ParkedPull, condition: ParkedPull => Boolean): Boolean =
    try condition(pull)
    catch {
      case error: Throwable =>
        logger.error("a long poll cannot be judged group={} queue={}", pull.group, pull.key, error)
        true
    }

  private def take(key: QueueKey, condition: ParkedPull => Boolean): Seq[ParkedPull] = {
    val taken = Seq.newBuilder[ParkedPull]
    byQueue.computeIfPresent(
      key,
      (_, waiting) => {
        val iterator = waiting.iterator()
        while (iterator.hasNext) {
          val pull = iterator.next()
          if (isJudgedSo(pull, condition)) {
            iterator.remove()
            space.leave(pull.expressionLength)
            taken += pull
          }
        }
        if (waiting.isEmpty) null else waiting
      }
    )
    taken.result()
  }
}

object ParkedPulls {
  private val logger = LoggerFactory.getLogger(classOf[ParkedPulls])

  // Of one connection for one queue: more than one group each is rare, and an arrival looks at all.
  private val MaxAlike = 256
}
