package rmqordered.handler

import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import rmqordered.model.QueueKey
import rmqordered.store.ReadRequest
import rmqordered.util.Clock

/** A long poll that waits for messages: cheap, no thread. */
final class ParkedPull(
    val key: QueueKey,
    val request: ReadRequest,
    val connection: Connection,
    val deadline: Long,
    resume: () => Unit
) {
  private val claimed = new AtomicBoolean(false)

  /** Up to where arrivals have been looked at in vain, so that none is looked at twice. */
  @volatile var scannedTo: Long = request.startOffset

  /** True for the one caller that may resume it. */
  def claim(): Boolean = claimed.compareAndSet(false, true)

  /** Answers it, when its client has taken earlier answers. */
  def run(): Unit = connection.whenWritable(resume)
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
  private val byQueue = new ConcurrentHashMap[QueueKey, ConcurrentLinkedQueue[ParkedPull]]()
  private val count = new AtomicInteger()
  @volatile private var closed = false

  /** Parks a poll, unless there is no room or the broker stops. */
  def park(pull: ParkedPull): Boolean =
    if (closed) false
    else if (count.incrementAndGet() > capacity) {
      count.decrementAndGet()
      false
    } else {
      byQueue.compute(
        pull.key,
        (_, existing) => {
          val waiting = Option(existing).getOrElse(new ConcurrentLinkedQueue[ParkedPull]())
          waiting.add(pull)
          waiting
        }
      )
      // A stop that came in between has not seen this one.
      if (closed) wakeAll(_ => true)
      true
    }

  def size: Int = count.get()

  /** New messages in a queue: wakes those that the predicate says they concern. */
  def arrived(key: QueueKey)(concerns: ParkedPull => Boolean): Unit =
    Option(byQueue.get(key)).foreach(_ => wake(key, concerns))

  /** Wakes polls whose time is over. */
  def expire(): Unit = {
    val now = clock.monotonicMillis()
    wakeAll(_.deadline <= now)
  }

  /** Forgets the polls of a connection that is gone. */
  def disconnect(connection: Connection): Unit =
    byQueue.keySet().forEach { key =>
      take(key, _.connection eq connection).foreach(_.claim())
    }

  /** Wakes everybody, for good. */
  def close(): Unit = {
    closed = true
    wakeAll(_ => true)
  }

  private def wakeAll(condition: ParkedPull => Boolean): Unit =
    byQueue.keySet().forEach(key => wake(key, condition))

  private def wake(key: QueueKey, condition: ParkedPull => Boolean): Unit =
    take(key, condition).foreach(pull => if (pull.claim()) pull.run())

  private def take(key: QueueKey, condition: ParkedPull => Boolean): Seq[ParkedPull] = {
    val taken = Seq.newBuilder[ParkedPull]
    byQueue.computeIfPresent(
      key,
      (_, waiting) => {
        val iterator = waiting.iterator()
        while (iterator.hasNext) {
          val pull = iterator.next()
          if (condition(pull)) {
            iterator.remove()
            count.decrementAndGet()
            taken += pull
          }
        }
        if (waiting.isEmpty) null else waiting
      }
    )
    taken.result()
  }
}
